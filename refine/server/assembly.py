"""From settings to guards: judges, policies and upstreams, made and checked before the server starts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from graphs import Bounds, Loop, PerRequest, Policy, check_certificate
from graphs.graph import input_judging
from graphs.piece_loop import PieceLoop, whole_judge
from graphs.pieces import judges_of_pieces, may_release_pieces
from graphs.questions import InputJudging
from judges import OpenAICompatible, known_prices
from judges.catalogue.names import JudgeSpec, is_judges_file, one_judge
from judges.certificate import IssuedCertificate
from judges.errors import ConfigurationError, shortened
from judges.judge import Judge
from judges.model import JudgeModel
from judges.models.providers.http import checked_address
from judges.models.providers.openai_settings import local_name
from judges.models.resolve import as_model
from refine.process import see_modules_here
from refine.server.access import Budgets, Keys
from refine.server.config import GuardSettings, NamedGuardSettings, ServerSettings, Unjudged
from refine.server.dialects import DIALECTS
from refine.server.guards import Guards, ServedGuard, connect_models, guarded_model
from refine.server.service import Service
from refine.server.upstream import LocalUpstream, Upstream

_DEFAULT = "default"
_MODEL_REMEDY = "add --judge-model NAME with --judge-base-url URL, or --judge-model PROVIDER:NAME"
_NEVER = {
    "on_exhausted": ("interrupt", "nobody is there to review; use 'best', 'last', 'raise' or 'fallback'"),
}
DEADLINE_S = 120.0
"""Seconds that an answer may take unless the policy says so: no client waits for ever on a judge that hangs."""
_NOT_HERE = ("skip", "show_drafts")


def make_service(settings: ServerSettings) -> Service:
    """Return the service that settings describe.

    Raises:
        ConfigurationError: If one cannot be used; the message names key, value and remedy.
    """
    guards = _make_guards(settings)
    names = {guard.name for guard in guards}
    for number, key in enumerate(settings.keys):
        unknown = sorted(set(key.guards or ()) - names)
        if unknown:
            raise ConfigurationError(
                f"keys.{number}.guards = {unknown}: there is no such guard; known are {', '.join(sorted(names))}"
            )
    if len({key.name for key in settings.keys}) < len(settings.keys):
        raise ConfigurationError("keys: two of them have one name; give each its own")
    return Service(
        guards=Guards(guards, by_header=settings.route_by_header),
        budgets=Budgets(settings.keys),
        keys=Keys(settings.keys, allowed_hosts=(settings.host, *settings.allowed_hosts)),
        limits=settings,
        keep_alive_s=settings.keep_alive_s,
    )


def _make_guards(settings: ServerSettings) -> list[ServedGuard]:
    """Return all guards, the default one first.

    Raises:
        ConfigurationError: If there is none, or one cannot be made.
    """
    shared = {
        name: getattr(settings, name) for name in GuardSettings.model_fields if name in settings.model_fields_set
    }
    named = dict(settings.guards)
    if not named:
        named = {_DEFAULT: NamedGuardSettings()}
    guards = [
        _guard(name, _merge(shared, own), place="" if not settings.guards else f"guards.{name}.")
        for name, own in named.items()
    ]
    chosen = settings.default_guard
    if chosen is not None and chosen not in named:
        raise ConfigurationError(
            f"default_guard = {chosen!r}: there is no such guard; known are {', '.join(sorted(named))}"
        )
    return sorted(guards, key=lambda guard: guard.name != chosen) if chosen else guards


def _merge(shared: Mapping[str, Any], own: NamedGuardSettings) -> NamedGuardSettings:
    """Return a guard's settings over those at the top of the file; policies are merged by setting."""
    values = {name: getattr(own, name) for name in own.model_fields_set}
    if "judge" in values:  # what belongs to another judge is not inherited
        shared = {name: value for name, value in shared.items() if name != "judge_settings"}
    policy = {**shared.get("policy", {}), **values.get("policy", {})}
    return NamedGuardSettings.model_construct(
        **{**NamedGuardSettings().__dict__, **shared, **values, "policy": policy}
    )


def _guard(name: str, settings: NamedGuardSettings, *, place: str) -> ServedGuard:
    with _within(place):
        model = judge_model(settings)
    with _at(f"{place}judge", settings.judge):
        judge = _judge(settings, model)
    with _at(f"{place}judge_model", settings.judge_model):
        connect_models(judge)
    if settings.certificate is not None:
        with _at(f"{place}certificate", settings.certificate):
            _ = IssuedCertificate.read(settings.certificate).acceptance
    with _at(f"{place}policy", settings.policy):
        policy, models = _policy(settings)
    with _at(f"{place}bounds", settings.bounds):
        bounds = Bounds(**settings.bounds)
    with _within(place):
        key = _upstream_key(settings)
    with _at(f"{place}upstream", _without_password(settings.upstream)):
        upstream = _upstream(settings, key)
    with _at(f"{place}input", settings.input):
        questions = _questions(settings, model)
    with _at(f"{place}piece_judge", settings.piece_judge):
        own = settings.piece_judge and one_judge(settings.piece_judge, model=model, remedy=_MODEL_REMEDY)
    with _within(place):  # release, piece_judge, input and on_refusal, which the message names
        loop = _loop(name, judge, policy, bounds, piece_judge=own or None, questions=questions)
    guard = ServedGuard(
        name=name,
        judge=judge,
        loop=loop,
        upstream=upstream,
        api=settings.upstream_api or _api_of(settings),
        models=tuple(settings.models),
        attempt_models=models,
        bounds=bounds,
        reveal=frozenset(settings.reveal),
        **_unjudged(settings, policy),
        max_choices=settings.max_choices,
        max_answer_tokens=settings.max_answer_tokens,
        counts_all=settings.usage == "all",
    )
    with _at(f"{place}certificate", settings.certificate):
        return replace(guard, doubts=check_certificate(loop.judged_by, policy, guard.generator))


def _questions(settings: NamedGuardSettings, model: object) -> InputJudging | None:
    """Return what judges the question, with its models connected; None where nothing does."""
    see_modules_here()
    questions = input_judging(settings.input, settings.input_mode, model=model, remedy=_MODEL_REMEDY)
    if questions is not None:
        connect_models(questions.judge)
    return questions


def _loop(
    name: str,
    judge: Judge,
    policy: Policy,
    bounds: Bounds,
    *,
    piece_judge: Judge | None,
    questions: InputJudging | None,
) -> Loop:
    if may_release_pieces(policy, bounds, piece_judge, questions) and not policy.held_back:
        parts = judges_of_pieces(judge, piece_judge)
        connect_models(parts["piece_judge"])
        return PieceLoop(PerRequest(), judge, policy, name=name, bounds=bounds, **parts)
    whole = whole_judge(judge, piece_judge)
    return Loop(PerRequest(), whole, policy, name=name, bounds=bounds, questions=questions)


def _unjudged(settings: NamedGuardSettings, policy: Policy) -> dict[str, Any]:
    """Return what becomes of what cannot be judged: it is refused, unless a setting says otherwise by name.

    Whoever asks for that by name, or for nothing without a verdict, gets no reasoning either.
    """
    if settings.unjudged == "refuse" and policy.shadow:
        raise ConfigurationError("unjudged = 'refuse' holds answers back, and shadow = true none; leave one out")
    unjudged: Unjudged = settings.unjudged or ("pass" if policy.shadow else "refuse")
    is_asked_for = settings.unjudged is not None or policy.on_judge_error == "raise"
    return {"unjudged": unjudged, "is_strict": unjudged == "refuse" and is_asked_for}


@contextmanager
def _within(place: str) -> Iterator[None]:
    """Name the table in an error that names the key."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}{error}") from error


@contextmanager
def _at(key: str, value: object) -> Iterator[None]:
    """Name the key and the value in an error."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{key} = {shortened(value)}: {error}") from error


def _policy(settings: NamedGuardSettings) -> tuple[Policy, dict[int, str]]:
    values = dict(settings.policy)
    for name, (value, remedy) in _NEVER.items():
        if values.get(name) == value:
            raise ConfigurationError(f"{name} = {value!r} does not fit a server: {remedy}")
    for name in _NOT_HERE:
        if name in values:
            raise ConfigurationError(f"{name} is no setting of a guard; leave it out")
    values |= {
        name: getattr(settings, name)
        for name in ("certificate", "on_alarm", "success_rating", "max_attempts", "on_refusal", "release")
        if getattr(settings, name) is not None
    }
    if settings.fail is not None:
        if "on_judge_error" in values:
            raise ConfigurationError("on_judge_error and fail say the same; leave one out")
        values["on_judge_error"] = "accept" if settings.fail == "open" else "raise"
    if settings.certificate is None or _has_default_deadline(settings.certificate):
        values.setdefault("deadline_s", DEADLINE_S)
    if values.get("prices") == "known":
        values["prices"] = known_prices()
    overrides, models = _overrides(values.pop("overrides", {}))
    return Policy(**values, overrides=overrides), models


def _has_default_deadline(certificate: str) -> bool:
    """Check whether a certificate is about a guard with the usual deadline; those of earlier releases had none."""
    return IssuedCertificate.read(certificate).subject.policy.get("deadline_s") == DEADLINE_S


def _overrides(table: object) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
    """Return the overrides of a policy, and apart from them the names of models, which the upstream knows."""
    if not isinstance(table, dict) or not all(
        str(key).isdigit() and isinstance(one, dict) for key, one in table.items()
    ):
        raise ConfigurationError("overrides is a table by number of attempt, for instance [policy.overrides.2]")
    rows = {int(key): dict(one) for key, one in table.items()}
    models = {number: row.pop("model") for number, row in rows.items() if "model" in row}
    if not all(isinstance(name, str) and name for name in models.values()):
        raise ConfigurationError("a model in overrides is its name at the upstream")
    return rows, models


def _without_password(address: str | None) -> str | None:
    return None if address is None else re.sub(r"//[^/@]*@", "//...@", address)


def _upstream_key(settings: GuardSettings) -> SecretStr | None:
    """Return the operator's key for the upstream; None where callers bring their own."""
    if settings.upstream is None or settings.upstream_key.get_secret_value() == "caller":
        return None
    return secret_of(settings.upstream_key, "upstream_key")


_APIS = {"api.anthropic.com": "anthropic", "api.openai.com": "openai", "openai.azure.com": "openai"}


def _api_of(settings: NamedGuardSettings) -> str:
    """Return whose API an upstream has, as its address says, or else the names of its models; empty if neither."""
    host = urlsplit(settings.upstream or "").hostname or ""
    known = next((api for name, api in _APIS.items() if host == name or host.endswith(f".{name}")), "")
    are_claude = bool(settings.models) and all(name.casefold().startswith("claude") for name in settings.models)
    return known or ("anthropic" if are_claude else "")


def _upstream(settings: GuardSettings, key: SecretStr | None) -> Upstream | None:
    if settings.upstream is None:
        return None
    if local_name(settings.upstream) is not None:
        return _local_upstream(settings, settings.upstream.strip())
    address = settings.upstream.strip().rstrip("/")
    too_much = next((dialect.PATH for dialect in DIALECTS if address.endswith(dialect.PATH)), None)
    if too_much is not None:
        raise ConfigurationError(f"it is an address such as clients have for their base URL; leave out {too_much}")
    if "@" in checked_address(address).netloc and (key is None or key.get_secret_value()):
        raise ConfigurationError(
            'a user and password in it are sent in place of a key; set upstream_key = "", too'
        )
    return Upstream(
        settings.upstream, key=key, key_header=settings.upstream_key_header, **_upstream_bounds(settings)
    )


def _local_upstream(settings: GuardSettings, name: str) -> Upstream:
    """Return the upstream for a model on this machine, whose server starts now and with a key of its own."""
    if settings.upstream_key.get_secret_value() != "caller" or settings.upstream_key_header is not None:
        raise ConfigurationError("it is on this machine and has no key; leave out upstream_key and its header")
    return LocalUpstream(name, **_upstream_bounds(settings))


def _upstream_bounds(settings: GuardSettings) -> dict[str, Any]:
    return {
        "timeout_s": settings.upstream_timeout_s,
        "breaker_failures": settings.breaker_failures,
        "breaker_cooldown_s": settings.breaker_cooldown_s,
    }


def secret_of(value: SecretStr, key: str) -> SecretStr:
    """Return a key, read from the environment where it says so.

    Args:
        value: The key, or `env:NAME`.
        key: Name of the setting, for the error.

    Raises:
        ConfigurationError: If the variable is not set.
    """
    kind, _, name = value.get_secret_value().partition(":")
    if kind != "env":
        return value
    if not name:
        raise ConfigurationError(f"{key} = 'env:' names no variable of the environment; write env:NAME")
    text = os.environ.get(name, "")
    if not text:
        raise ConfigurationError(
            f"{key} is to be read from the environment variable {name}, which is not set; set it"
        )
    return SecretStr(text)


def _judge(settings: GuardSettings, model: JudgeModel | None) -> Judge:
    """Return the judge of a guard: one by its name, or a panel of those that a list or a file names."""
    if not settings.judge:
        raise ConfigurationError("there is no judge; name one, for instance --judge helpfulness")
    see_modules_here()
    if not settings.judge_settings:
        return one_judge(settings.judge, model=model, remedy=_MODEL_REMEDY)
    if not isinstance(settings.judge, str) or is_judges_file(settings.judge):
        raise ConfigurationError(
            "judge_settings are for one judge; write those of several in a file, judge = 'judges.toml'"
        )
    spec = JudgeSpec.parse(settings.judge)
    merged = {**spec.settings, **settings.judge_settings}
    return replace(spec, settings=merged).load(model=model, remedy=_MODEL_REMEDY)


def judge_model(settings: GuardSettings) -> JudgeModel | None:
    """Return the model that the judge asks, with those in reserve; None where the settings name none."""
    names = [settings.judge_model] if isinstance(settings.judge_model, str) else settings.judge_model or []
    key = None if settings.judge_key is None else secret_of(settings.judge_key, "judge_key").get_secret_value()
    base_url = settings.judge_base_url
    if base_url is not None and not names:
        raise ConfigurationError(f"judge_base_url = {base_url!r} needs judge_model, the model's name there")
    if key is not None and base_url is None and not any(_ADDRESS.match(name) for name in names):
        raise ConfigurationError(
            "judge_key is for judge_base_url; a 'provider:name' reads its own from the environment"
        )
    models = [_model_named(name, settings, key) for name in names]
    return guarded_model(models, settings.breaker_failures, settings.breaker_cooldown_s) if models else None


_ADDRESS = re.compile(r"https?://")


def _model_named(name: str, settings: GuardSettings, key: str | None) -> JudgeModel:
    """Return one model: at an address of its own, a provider's by its prefix, or at `judge_base_url`."""
    if not name.strip():
        raise ConfigurationError(
            "judge_model is empty; name a model, such as 'openai:gpt-5-mini', or leave it out"
        )
    if _ADDRESS.match(name):
        address, _, own = name.partition("#")
        if not own:
            raise ConfigurationError(f"judge_model = {_without_password(name)!r} names no model there; add #NAME")
        with _at("judge_model", _without_password(name)):
            return OpenAICompatible(address, model=own, api_key=key or "")
    base_url = settings.judge_base_url
    if base_url is not None and (":" not in name or isinstance(settings.judge_model, str)):
        with _at("judge_base_url", _without_password(base_url)):
            return OpenAICompatible(base_url, model=name, api_key=key)
    if ":" not in name.strip(":"):
        raise ConfigurationError(
            f"judge_model = {name!r} needs judge_base_url, its server's address, or a provider: 'openai:{name}'"
        )
    return as_model(name, temperature=settings.judge_settings.get("temperature", 0.0))
