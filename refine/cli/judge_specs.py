"""Judges as a command line specifies them: `length`, `length:at_most=80,unit=words`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from judges import ConfigurationError, Judge, load
from judges.errors import shortened
from judges.models.providers.endpoint import checked_address
from judges.models.providers.openai_fields import parsed_name

_NEXT_SETTING = re.compile(r",(?=\s*\w+=)")
_ANY_MODEL = "any:model"
"""Placeholder for a model, to find out whether a judge accepts one; it is never asked."""


def load_judges(
    specs: Sequence[str], *, model: str | None, base_url: str | None, language: str | None
) -> list[Judge]:
    """Load the judges of a command line; those that ask a model share one.

    Raises:
        ConfigurationError: If a name or a setting is wrong, or a model is needed and there is none.
    """
    if base_url is not None:
        _check_base_url(base_url, model)
    if model is not None and not model.strip():
        raise ConfigurationError("--model is empty; write PROVIDER:NAME, e.g. --model openai:gpt-5-mini")
    parsed = [(spec, *_parse(spec)) for spec in specs]
    asking = [_asks_a_model(spec, name, settings) for spec, name, settings in parsed]
    if any(asking) and model is None:
        first = next(name for asks, (_, name, _) in zip(asking, parsed, strict=True) if asks)
        raise ConfigurationError(f"the judge {first!r} asks a model; add one, e.g. --model openai:gpt-5-mini")
    chat = _chat_model(model, base_url) if any(asking) and model is not None else None
    shared = {"model": chat} if language is None else {"model": chat, "language": language}
    return [
        _load(spec, name, {**shared, **settings} if asks else settings)
        for asks, (spec, name, settings) in zip(asking, parsed, strict=True)
    ]


def _check_base_url(base_url: str, model: str | None) -> None:
    try:
        checked_address(base_url)
    except ConfigurationError as error:
        line = f"--base-url is an http address such as http://localhost:8000/v1, not {shortened(base_url)}"
        raise ConfigurationError(line) from error
    if model is None:
        raise ConfigurationError(f"--base-url {base_url} needs --model, the model's name on that server")


def _parse(spec: str) -> tuple[str, dict[str, Any]]:
    name, _, rest = spec.partition(":")
    settings = {}
    for setting in _NEXT_SETTING.split(rest) if rest.strip() else []:
        key, equals, text = setting.partition("=")
        if not equals or not key.strip().isidentifier():
            raise ConfigurationError(
                f"--judge {shortened(spec)}: {shortened(setting)} is no setting; write {name}:key=value,key=value"
            )
        if key.strip() == "model":
            raise ConfigurationError(f"--judge {shortened(spec)}: give the model of all judges by --model")
        if key.strip() in settings:
            raise ConfigurationError(f"--judge {shortened(spec)}: {key.strip()} is set twice; leave one out")
        settings[key.strip()] = _value(text)
    if isinstance(settings.get("levels"), dict):
        settings["levels"] = {int(key) if key.isdigit() else key: text for key, text in settings["levels"].items()}
    return name.strip(), settings


def _value(text: str) -> Any:
    """Return the value of JSON or of Python's True, False and None, or else the text itself."""
    try:
        return json.loads({"True": "true", "False": "false", "None": "null"}.get(text.strip(), text))
    except ValueError:
        return text


def _asks_a_model(spec: str, name: str, settings: dict[str, Any]) -> bool:
    """Check whether a judge needs a model: it can be made with one, and not without."""
    try:
        load(name, **settings)
    except ConfigurationError as error:
        try:
            load(name, model=_ANY_MODEL, **settings)
        except ConfigurationError as with_model:
            cause = error if "'model'" in str(with_model) else with_model
            raise ConfigurationError(f"--judge {shortened(spec)}: {cause}") from cause
        return True
    return False


def _load(spec: str, name: str, settings: dict[str, Any]) -> Judge:
    try:
        return load(name, **settings)
    except ConfigurationError as error:
        raise ConfigurationError(f"--judge {shortened(spec)}: {error}") from error


def _chat_model(name: str, base_url: str | None) -> object:
    """Create the model now, so that a missing package or key is reported before a run begins."""
    from judges import OpenAICompatible, chat_model  # noqa: PLC0415 - leads to LangChain

    parsed = parsed_name(name)
    if base_url is None:
        return chat_model(name, max_retries=0) if parsed is None else OpenAICompatible.named(name)
    plain = name.strip().removeprefix("openai:") if parsed is None else parsed[0]
    if not plain:
        raise ConfigurationError("--model names no model; write its name on the server, e.g. --model my-model")
    return OpenAICompatible(base_url, model=plain)
