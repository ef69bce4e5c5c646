"""Beginning with a guard: a configuration to start from, and what is doubtful in one that can be used."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path

from judges.errors import ConfigurationError
from refine.record import DatabaseRecord, Recorder
from refine.server.access import ServedGuard
from refine.server.config import ServerSettings

_MODES = ("caller", "callers", "client", "env", "environment", "none", "null", "false")
_VARIABLE = re.compile(r"\$?\{?[A-Z][A-Z0-9]*(_[A-Z0-9]+)+\}?")
_SHORTEST_KEY = 12
_MANY_ATTEMPTS = 20


def doubts_about(settings: ServerSettings, guards: list[ServedGuard]) -> Iterator[str]:
    """Yield a line for whatever can be used but is hardly meant."""
    tables = {"": settings, **{f"guards.{name}.": guard for name, guard in settings.guards.items()}}
    for place, table in tables.items():
        if "upstream_key" in table.model_fields_set:
            reason = _doubt_about_key(table.upstream_key.get_secret_value())
            if reason:
                yield f'{place}upstream_key {reason}; write "caller", or "env:NAME" for the variable with the key'
    for guard in guards:
        policy = guard.loop.policy
        if policy.max_attempts > _MANY_ATTEMPTS:
            yield (
                f"guard {guard.name}: max_attempts = {policy.max_attempts:,} may cost that many calls an answer; "
                f"more than {_MANY_ATTEMPTS} hardly ever help"
            )
        if policy.deadline_s is not None and policy.deadline_s > settings.drain_s and _is_drain_chosen(settings):
            yield (
                f"guard {guard.name}: an answer has {policy.deadline_s:g} s (deadline_s), but only "
                f"{settings.drain_s:g} s when the server stops (drain_s); raise drain_s, or answers are cut off"
            )
    yield from _shared_models(guards)


def _doubt_about_key(key: str) -> str:
    """Say what a key looks like that is none; nothing of it is quoted."""
    word = key.strip().lower()
    if key in {"", "caller"} or key.startswith("env:"):
        return ""
    if _VARIABLE.fullmatch(key.strip()):
        return "looks like the name of an environment variable"
    near = get_close_matches(re.split(r"[:=.$ ]", word)[0], _MODES, n=1, cutoff=0.7)
    if (near and len(word) < 2 * _SHORTEST_KEY) or word.startswith(("env:", "env.", "env ", "env=")):
        return f"looks like {near[0] if near else 'env'!r} misspelt"
    return "is very short for a key" if len(key) < _SHORTEST_KEY else ""


def _is_drain_chosen(settings: ServerSettings) -> bool:
    """Check whether somebody chose one of the two times; the defaults are for answers that take seconds."""
    policies = [settings.policy, *(guard.policy for guard in settings.guards.values())]
    return "drain_s" in settings.model_fields_set or any("deadline_s" in policy for policy in policies)


def _shared_models(guards: list[ServedGuard]) -> Iterator[str]:
    for first, later in combinations(guards, 2):
        for pattern in later.models:
            other = next((own for own in first.models if fnmatchcase(pattern, own)), None)
            if other is not None:
                yield (
                    f"guards {first.name} and {later.name} are both for the model {pattern!r} "
                    f"({first.name} has {other!r}): {first.name} answers, {later.name} only by x-refine-guard"
                )


def doubt_about_record(record: Recorder | None) -> str:
    """Say why a record's database cannot be used now; empty where it can."""
    if not isinstance(record, DatabaseRecord) or record.file is not None:
        return ""
    try:
        record.check()
    except ConfigurationError as error:
        return f"{error}; answers go out all the same, and what does not fit into the queue is lost"
    finally:
        record.close()
    return ""


_FILE = """\
# A guard in front of {upstream}: start it by `refine serve --config {name}`,
# look at what it means by `refine serve --config {name} --check`. All settings: docs/guard.md.

# The API that answers, as clients have it for their base URL.
upstream = {upstream_text}

# "caller" hands on the key that comes with each request; "env:OPENAI_API_KEY" uses one of yours.
upstream_key = "caller"

# What judges every answer: `refine judges` lists all; "module:object" is one of your own.
judge = {judge}
{model}
# Accepted from this rating (1 to 4) on; else it is asked for again, so many times in all.
success_rating = 3
max_attempts = 3

# "closed": no verdict is an error, and nothing goes out unjudged; "open" releases the answer and marks it.
fail = "open"

# Where it listens. Beyond this machine it wants keys: `refine key NAME` prints the lines of one.
host = "127.0.0.1"
port = 8000

# Outcomes, for the page at http://127.0.0.1:8000/; with texts only if you say so.
record = "refine-record.db"
record_texts = false
record_keep_days = 30
"""
_WITH_MODEL = """
# The model that the judge asks; its key is read from the environment.
judge_model = {model}
"""
_WITHOUT_MODEL = """
# This judge asks no model. One that does: judge = "helpfulness", and for instance
# judge_model = "openai:gpt-5-mini"       # with OPENAI_API_KEY set
"""
_QUESTIONS = (
    "Address of the model's API",
    "Judge (`refine judges` lists them)",
    "Model of the judge, PROVIDER:NAME (- for none)",
)
_MODELS = {"OPENAI_API_KEY": "openai:gpt-5-mini", "ANTHROPIC_API_KEY": "anthropic:claude-haiku-4-5"}
_NONE = "-"


def write_configuration(
    file: Path, ask: Callable[[str, str], str], environment: Mapping[str, str] = os.environ
) -> str:
    """Write a configuration with comments that starts, and return its text.

    Args:
        file: The new file.
        ask: Asks a person, with what is taken where nothing is said.
        environment: Where keys of providers are looked for.

    Raises:
        ConfigurationError: If the file is there already, or cannot be written.
    """
    if file.exists():
        raise ConfigurationError(f"{str(file)!r} is there already; name another by --config, or delete it first")
    known = next((model for variable, model in _MODELS.items() if environment.get(variable)), _NONE)
    upstream = ask(_QUESTIONS[0], "https://api.openai.com/v1").strip()
    judge = ask(_QUESTIONS[1], "length:at_least=1" if known == _NONE else "helpfulness").strip()
    model = ask(_QUESTIONS[2], known).strip()
    of_model = _WITHOUT_MODEL if model in {"", _NONE} else _WITH_MODEL.format(model=json.dumps(model))
    text = _FILE.format(
        name=file.name,
        upstream=upstream.splitlines()[0] if upstream else "",
        upstream_text=json.dumps(upstream),
        judge=json.dumps(judge),
        model=of_model,
    )
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{str(file)!r} cannot be written: {error.strerror}") from None
    return text
