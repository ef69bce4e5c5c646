"""Configuration: one TOML file, the environment, and flags, each of which wins over what stands before it."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from graphs.policy import OnRefusal, Policy, ReleaseForm, setting_meant
from graphs.questions import InputMode
from judges.errors import ConfigurationError, one_line, shortened
from judges.promise import OnAlarm

_PREFIX = "REFINE_"
_OPEN_TABLES = ("bounds", "judge_settings", "policy")
_NAME = r"^[\w.-]{1,64}$"
_NO_PART = ("list[", "dict[", "literal[", "bool", "str", "function-", "[key]")
"""What pydantic adds to the path of a value, and is none of its keys."""
_OFF = ("false", "no", "off", "none", "0")
Revealed = Literal["rationale", "feedback"]
Unjudged = Literal["refuse", "pass"]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _off(value: object) -> object:
    """Read what the environment, where all is text, says for false."""
    if value is not None and value is not False and not isinstance(value, str):
        raise ValueError("name a file or the URL of a database, or say false")
    return False if isinstance(value, str) and value.lower() in _OFF else value


def _named(name: str) -> str:
    if not name.strip():
        raise ValueError("it is empty; leave it out")
    return name


_Named = Annotated[str, AfterValidator(_named)]


def _host_pattern(name: str) -> str:
    if not re.fullmatch(r"[\w.*?-]+", name):
        raise ValueError("write a name without scheme and port, such as refine.example.org or *.example.org")
    return name


class GuardSettings(BaseModel, extra="forbid", hide_input_in_errors=False):
    """Settings of a guard; those at the top of the file hold for every guard that does not set its own.

    Args:
        upstream: Address of the model's API, without `/chat/completions`: `"https://api.openai.com/v1"`;
            `"local:smollm2"` or `"local:PATH.gguf"` starts a model on this machine.
        upstream_key: `"caller"` sends the caller's own key, `"env:NAME"` the key in that environment variable;
            anything else is the key; empty sends none.
        upstream_key_header: Header for that key: `"authorization"`, `"x-api-key"` or `"api-key"`, as Azure has it;
            left out: the usual one of the API asked for. A caller's own key goes on in the header it came in.
        upstream_api: Whose API the upstream has, `"openai"` or `"anthropic"`, where there are several: requests
            and callers' keys of the other one go elsewhere. Left out: as its address or its models' names tell.
        upstream_timeout_s: Seconds until a reply of the upstream must be complete.
        judge: Name of a judge of the catalogue, with settings as in `"length:at_most=80"`; or `"module:object"`;
            or a file of judges, `"judges.toml"`, see `judges.load_file`; or a list of these. Several are a panel.
        judge_settings: Settings of the judge's class, where it is one.
        judge_model: The model that it asks: a name at `judge_base_url`, `"provider:name"`, or
            `"http://host/v1#name"`; or a list of these, of which the first that answers is asked.
        judge_base_url: OpenAI-compatible server of that model.
        judge_key: Key for that server; `"env:NAME"` reads it from the environment. Left out: `OPENAI_API_KEY`.
        success_rating: Rating from 1 to 4 at which an answer is accepted.
        max_attempts: Most answers generated for one question.
        release: What is judged before the client sees it: the whole `"answer"`, or `"pieces"` of it, each
            released as it is accepted; see `graphs.Policy`.
        piece_judge: What judges pieces, named as `judge` is; the judge then judges the whole at the end. Left
            out: what of the judge holds for a part of an answer.
        input: A judge of the question alone, by name as in `judge`, or a list of them: `"prompt_injection"`. A
            question that it refuses gets the fallback text, or a 400 (`question_refused`); where it gives no
            verdict, `fail` decides.
        input_mode: `"beside"` asks it beside the first call of the upstream, which is cancelled if it refuses;
            `"before"` asks it first.
        on_refusal: What follows when a judge refuses an answer: `"retry"`, `"mend"`, `"mend_or_block"`, `"block"`,
            or a table of these by judge; see `graphs.Policy`.
        certificate: File that `refine certify` wrote for this guard; it sets the success rating, and one that is
            about another judge, upstream or policy is refused.
        on_alarm: What follows when labels break its promise: `"stricter"`, `"closed"` or `"log"`; see
            `graphs.Policy`.
        policy: Further settings of `graphs.Policy`.
        fail: `"open"` releases an answer that the judge could not judge, and says so; `"closed"` does not.
        unjudged: `"refuse"`, the default, lets no answer through that cannot be judged: requests for one are
            refused, and what a reply holds beside judged text is left out or refused; `"pass"` lets it through,
            and says so. What the policy leaves unjudged (`sample_rate`, `shadow`) is none of it.
        max_choices: Most answers to one request (`n`).
        max_answer_tokens: Most tokens of an answer that a request may ask for; left out: any number.
        usage: `"released"` leaves the upstream's `usage` of the released answer in a reply; `"all"` puts that of
            all attempts and judges there, for gateways that count by it. `refine.usage` is always that of all.
        bounds: How far a request may go with its own settings; see `graphs.Bounds`.
        reveal: What clients see of a verdict beside its marks: `"rationale"`, `"feedback"`.
        breaker_failures: Failures of the upstream, or of a judge's model, in a row after which calls fail at once;
            0 never.
        breaker_cooldown_s: Seconds until one call tries it again.
    """

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_truth(cls, value: object, info: ValidationInfo) -> object:
        """Refuse true and false for a number, which pydantic reads as 1 and 0."""
        annotation = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and not {int, float}.isdisjoint({annotation, *get_args(annotation)}):
            raise ValueError("a number is wanted")
        return value

    upstream: str | None = None
    upstream_key: SecretStr = SecretStr("caller")
    upstream_key_header: Literal["authorization", "x-api-key", "api-key"] | None = None
    upstream_api: Literal["openai", "anthropic"] | None = None
    upstream_timeout_s: _Positive = 600.0
    judge: str | list[str] | None = None
    judge_settings: dict[str, Any] = {}
    judge_model: str | list[str] | None = None
    judge_base_url: str | None = None
    judge_key: SecretStr | None = None
    success_rating: int | None = Field(default=None, ge=1, le=4)
    max_attempts: int | None = Field(default=None, ge=1)
    release: ReleaseForm | None = None
    piece_judge: str | list[str] | None = None
    input: str | list[str] | None = None
    input_mode: InputMode = "beside"
    on_refusal: OnRefusal | dict[str, OnRefusal] | None = None
    certificate: str | None = None
    on_alarm: OnAlarm | None = None
    policy: dict[str, Any] = {}
    fail: Literal["open", "closed"] | None = None
    unjudged: Unjudged | None = None
    max_choices: int = Field(default=8, ge=1)
    max_answer_tokens: int | None = Field(default=None, ge=1)
    usage: Literal["released", "all"] = "released"
    bounds: dict[str, Any] = {}
    reveal: list[Revealed] = []
    breaker_failures: int = Field(default=10, ge=0)
    breaker_cooldown_s: _Positive = 10.0


class NamedGuardSettings(GuardSettings):
    """Settings of a guard in a table of its own, `[guards.NAME]`.

    Args:
        models: Patterns of the names of models that it serves, for instance `["gpt-*"]`.
    """

    models: list[_Named] = []


class ServerKey(BaseModel, extra="forbid"):
    """One of the server's own keys, as `refine key` prints it.

    Args:
        name: What it is called in limits and logs.
        sha256: Hash of the key.
        guards: Names of the guards it is for; left out: all.
        requests_per_day: Most requests from midnight UTC on, in all processes that record in one database; left
            out: any number.
        tokens_per_day: Number of tokens, upstream and judge together, after which no more requests are taken.
        dollars_per_day: The same in US dollars, for policies with `prices`.
        labels: Whether it may label answers (`POST /v1/labels`), which can end the promise of a certificate.
    """

    name: str = Field(pattern=_NAME)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    guards: list[str] | None = None
    requests_per_day: int | None = Field(default=None, ge=1)
    tokens_per_day: int | None = Field(default=None, ge=1)
    dollars_per_day: _Positive | None = None
    labels: bool = False


_Notified = Literal["alarm", "spend", "withheld"]


class WebhookSettings(BaseModel, extra="forbid"):
    """An address that hears of what somebody should look at.

    Args:
        url: The address, `https://`.
        secret: The secret of Standard Webhooks that it shares, `whsec_...`; `"env:NAME"` reads it from the
            environment.
        events: What it hears of: `"alarm"`, a judge or an upstream that is down, lost records, a broken promise,
            raised and cleared; `"spend"`, what was set here was spent within a day; `"withheld"`, a person who
            asked got no answer of the model's, since none was accepted.
        dollars_per_day: Dollars of a day, from midnight UTC on in this process, at each of which it hears of it.
        tokens_per_day: The same for tokens.
    """

    url: str = Field(pattern=r"^https?://[^/\s]+")
    secret: SecretStr
    events: list[_Notified] = ["alarm", "spend"]
    dollars_per_day: list[_Positive] = []
    tokens_per_day: list[Annotated[int, Field(ge=1)]] = []


class RequestLimits(BaseModel):
    """Limits of the requests to the server.

    Args:
        max_body_bytes: Most bytes of a body.
        body_timeout_s: Seconds in which a body must be complete.
        max_messages: Most messages of a conversation.
        max_texts: Most texts of a call of LiteLLM's guardrail; each is judged, and may be written again.
        max_passed_bytes: Most bytes of a body that passes through unread; each part of it, not the whole, must
            come within `body_timeout_s`.
        max_bytes_in_flight: Most bytes of all bodies that are held at once.
        max_in_flight: Most requests answered at once.
        max_in_flight_per_key: Most of them for one key.
    """

    max_body_bytes: int = Field(default=10_000_000, ge=1_000)
    body_timeout_s: _Positive = 30.0
    max_messages: int = Field(default=5_000, ge=1)
    max_texts: int = Field(default=20, ge=1)
    max_passed_bytes: int = Field(default=600_000_000, ge=1_000)
    max_bytes_in_flight: int = Field(default=250_000_000, ge=1_000)
    max_in_flight: int = Field(default=1_000, ge=1)
    max_in_flight_per_key: int = Field(default=1_000, ge=1)


class ServerSettings(BaseSettings, GuardSettings, RequestLimits):
    """Settings of the server; limits of its requests are those of `RequestLimits`.

    Args:
        host: Address to listen at.
        port: Port to listen at; 0 takes a free one.
        guards: Further guards by name.
        default_guard: The guard for models that no other is for; left out: the settings at the top, or the first.
        route_by_header: Whether a request may choose a guard by `x-refine-guard`.
        keys: Keys of the server's own; without any, everybody is let in.
        webhooks: Addresses that hear of alarms, spend and withheld answers, each a table `[[webhooks]]`.
        allowed_hosts: Patterns of names under which a server without keys answers, beside addresses, `host` and
            names without a dot, for instance `["refine.example.org"]`; `["*"]` checks none.
        record: Where outcomes are recorded: a path or the URL of a database; false records nothing. Left out:
            `refine-record.db` where the command `refine serve` was called, without texts.
        record_texts: Whether texts are recorded, in a database.
        record_redact: Functions as `"module:function"`, from a text to what may be recorded of it, in order.
        record_keep_days: Days after which an outcome is deleted from a database; left out: all are kept.
        pass_through: Patterns of the paths below `/v1` that pass unjudged; what writes text, such as
            `audio/completions`, is named itself. False passes none, true all not spelled like a judged one.
        metrics: Whether `/metrics` is there.
        page: Whether the page at `/` is there; it shows a record in a database.
        page_key: Its key, or `"env:NAME"`; without one it answers to this machine alone.
        trace_url: Address of a trace, with `{trace_id}` in it, to which the page links.
        log_level: Least level of the log, which is JSON lines on standard error: `"info"` has one line a request,
            `"debug"` every step.
        keep_alive_s: Seconds between comments to a waiting client that streams.
        max_header_bytes: Most bytes of the headers.
        header_timeout_s: Seconds in which they must be complete.
        ready_s: Seconds for which `/readyz` says no before the server stops to listen.
        drain_s: Seconds that requests in flight then have.
    """

    model_config = SettingsConfigDict(
        extra="forbid", env_prefix=_PREFIX, env_nested_delimiter="__", env_ignore_empty=True, case_sensitive=False
    )

    host: _Named = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65_535)
    guards: dict[Annotated[str, Field(pattern=_NAME)], NamedGuardSettings] = {}
    default_guard: str | None = None
    route_by_header: bool = True
    keys: list[ServerKey] = []
    webhooks: list[WebhookSettings] = []
    allowed_hosts: list[Annotated[str, AfterValidator(_host_pattern)]] = []
    record: Annotated[str | Literal[False] | None, BeforeValidator(_off)] = None
    record_texts: bool = False
    record_redact: list[str] = []
    record_keep_days: _Positive | None = None
    pass_through: list[str] | bool = ["embeddings", "audio/*", "files*", "moderations"]
    metrics: bool = True
    page: bool = True
    page_key: SecretStr | None = None
    trace_url: Annotated[str, Field(pattern=r"^https?://.*\{trace_id\}")] | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    keep_alive_s: _Positive = 10.0
    max_header_bytes: int = Field(default=32_768, ge=1_000)
    header_timeout_s: _Positive = 10.0
    ready_s: float = Field(default=5.0, ge=0, allow_inf_nan=False)
    drain_s: float = Field(default=20.0, ge=0, allow_inf_nan=False)


class _File(PydanticBaseSettingsSource):
    """What the TOML file holds."""

    def __init__(self, settings_cls: type[BaseSettings], content: dict[str, Any]) -> None:
        super().__init__(settings_cls)
        self._content = content

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return the value of one field; see the base class."""
        del field
        return self._content.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return all values."""
        return self._content


class _Environment(EnvSettingsSource):
    """What the environment holds; inside tables whose values may be anything, JSON is read as such."""

    def __call__(self) -> dict[str, Any]:
        """Return all values."""
        values = super().__call__()
        return {name: _read_json(value) if name in _OPEN_TABLES else value for name, value in values.items()}


def _read_json(value: object) -> object:
    if isinstance(value, dict):
        return {name: _read_json(item) for name, item in value.items()}
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def load_settings(file: Path | None, flags: Mapping[str, Any]) -> ServerSettings:
    """Return the settings of the file, the environment and the flags that are set.

    Raises:
        ConfigurationError: If one cannot be used; the message names key, value and remedy.
    """
    content = {} if file is None else _read(file)

    class Settings(ServerSettings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            """Let flags win over the environment, and that over the file; no other file is read."""
            del env_settings, dotenv_settings, file_secret_settings
            return init_settings, _Environment(settings_cls), _File(settings_cls, content)

    used = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**used)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        path = [str(part) for part in fault["loc"] if not str(part).startswith(_NO_PART)]
        raise ConfigurationError(f"{_place(path, used, file)}{_line(path, fault)}") from None
    except SettingsError as error:
        raise ConfigurationError(_unread(str(error))) from None


def _place(path: list[str], flags: Mapping[str, Any], file: Path | None) -> str:
    """Say where a value stands, if it is no flag, which its name says enough of."""
    if path[0] in flags:
        return ""
    wanted = f"{_PREFIX}{'__'.join(path)}".upper()
    variable = max((name for name in os.environ if _is_within(wanted, name.upper())), key=len, default="")
    return f"{variable} in the environment: " if variable else "" if file is None else f"{file}: "


def _is_within(wanted: str, variable: str) -> bool:
    return wanted == variable or wanted.startswith(f"{variable}__")


def _unread(message: str) -> str:
    """Say which variables of the environment are no JSON where only JSON can be meant, without their values."""
    name = re.search(r'field "(\w+)"', message)
    first = f"{_PREFIX}{name[1] if name else ''}".upper()
    unread = [one for one in sorted(os.environ) if one.upper().startswith(first) and not _is_json(os.environ[one])]
    return (
        f"{' or '.join(unread) or first} in the environment cannot be read: a list is written as JSON, "
        f"""'["a", "b"]', and so is a table, '{{"a": 1}}'"""
    )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}; give the path of a TOML file by --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} is not TOML: {one_line(error)}") from None


def unknown_variables(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return a line for each variable of the environment that begins like a setting and is none."""
    known = {f"{_PREFIX}{name.upper()}" for name in ServerSettings.model_fields}
    lines = []
    for name in sorted(environment):
        first = name.upper().partition("__")[0]
        if first.startswith(_PREFIX) and first not in known:
            near = get_close_matches(first, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            lines.append(f"the environment variable {name} is no setting{hint}")
    return lines


def _line(path: list[str], fault: ErrorDetails) -> str:
    """Describe a fault: the key, its value, and what to do."""
    key = ".".join(path)
    if fault["type"] == "extra_forbidden":
        return f"{key} is no setting{_hint(path)}"
    message = fault["msg"].removeprefix("Value error, ").replace("dictionary", "table")
    return f"{key} = {_value(path, fault['input'])}: {message[0].lower()}{message[1:]}{_remedy(path, fault)}"


def _remedy(path: list[str], fault: ErrorDetails) -> str:
    """Say what to write instead, where the message does not."""
    if fault["type"] == "list_type" and isinstance(fault["input"], str) and path[0] != "keys":
        return f"; write [{json.dumps(fault['input'])}]"
    if path[-1] == "judge" and isinstance(fault["input"], dict):
        return '; write judge = "length:at_most=80", or the name of a judges.toml'
    if path[0] == "keys":
        return "; `refine key NAME` prints the lines of a key"
    if path[-1].endswith("_s") and fault["type"] == "float_parsing":
        return "; it is a number of seconds, such as 30"
    if path[-1] == "trace_url":
        return "; write the address of a trace with {trace_id} where its id stands"
    if path[-1] == "url":
        return "; write https:// and the address"
    if fault["type"] == "string_pattern_mismatch":
        return "; a name has 1 to 64 letters, digits, '.', '_' or '-'"
    return ""


def _value(path: list[str], value: object) -> str:
    secret = any(word in part for part in path for word in ("key", "sha256", "secret", "url"))
    return "..." if secret else shortened(value)


_ALIKE = 0.75
"""How alike a misspelt setting is to one that there is, from 0 to 1."""

_MEANT = {
    **dict.fromkeys(("judges", "critic", "evaluator", "metric", "metrics", "grader", "rule", "rules"), "judge"),
    **dict.fromkeys(
        ("url", "base_url", "backend", "endpoint", "target", "provider", "openai_base_url"), "upstream"
    ),
    **dict.fromkeys(("api_key", "key", "openai_api_key", "token", "upstream_api_key"), "upstream_key"),
    **dict.fromkeys(("llm", "judge_llm", "evaluator_model"), "judge_model"),
    **dict.fromkeys(("guard", "routes", "profiles"), "guards"),
    **dict.fromkeys(("address", "listen", "bind"), "host"),
    **dict.fromkeys(("input_guard", "input_judge", "prompt_guard"), "input"),
    **dict.fromkeys(("database", "db", "store", "storage", "log_file"), "record"),
    **dict.fromkeys(("fail_open", "fail_closed", "on_error"), "fail"),
    **dict.fromkeys(("users", "api_keys", "clients", "tokens"), "keys"),
}
"""Settings by the words that others have for them."""


def _hint(path: list[str]) -> str:
    """Suggest the setting that was meant."""
    known: type[BaseModel] = ServerSettings
    if path[0] == "guards" and len(path) > 2:  # noqa: PLR2004 - guards.NAME.KEY
        known = NamedGuardSettings
    elif path[0] == "keys" and len(path) > 1:
        known = ServerKey
    elif path[0] == "webhooks" and len(path) > 1:
        known = WebhookSettings
    names = list(known.model_fields)
    meant = _MEANT.get(path[-1]) or setting_meant(path[-1])
    if meant in names:
        return f"; here it is {meant}"
    if meant in Policy.model_fields and "policy" in names:
        return f"; it is a setting of the policy: policy = {{ {meant} = ... }}"
    near = get_close_matches(path[-1], names, n=1, cutoff=_ALIKE)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(names))}"
