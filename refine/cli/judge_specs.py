"""Judges as a command line specifies them: by name, as `module:object`, or in a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from judges import ConfigurationError, Judge
from judges.catalogue.judges_file import read_judges
from judges.catalogue.specs import JudgeSpec
from judges.errors import shortened
from judges.models.providers.endpoint import checked_address
from judges.models.providers.openai_fields import parsed_name


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
    parsed = [(spec, _parsed(spec)) for spec in specs]
    asking = [_asks_a_model(spec, judge) for spec, judge in parsed]
    if any(asking) and model is None:
        first = next(judge.name for asks, (_, judge) in zip(asking, parsed, strict=True) if asks)
        raise ConfigurationError(f"the judge {first!r} asks a model; add one, e.g. --model openai:gpt-5-mini")
    chat = _chat_model(model, base_url) if any(asking) and model is not None else None
    judges = []
    for spec, judge in parsed:
        with _named(spec):
            judges.append(judge.load(model=chat, language=language))
    return judges


def expanded(specs: Sequence[str], model: str | None) -> tuple[tuple[str, ...], str | None]:
    """Return the judges with those of files in the place of their files, and the model.

    Args:
        specs: What `--judge` names; one that ends in `.toml` is a file of judges.
        model: What `--model` names; None takes the model of the first file that has one.

    Raises:
        ConfigurationError: If a file cannot be read.
    """
    texts: list[str] = []
    for spec in specs:
        if not spec.endswith(".toml"):
            texts.append(spec)
            continue
        judges_file = read_judges(Path(spec))
        texts += [judge.text for judge in judges_file.specs.values()]
        model = model or judges_file.model
    return tuple(texts), model


def _check_base_url(base_url: str, model: str | None) -> None:
    try:
        checked_address(base_url)
    except ConfigurationError as error:
        line = f"--base-url is an http address such as http://localhost:8000/v1, not {shortened(base_url)}"
        raise ConfigurationError(line) from error
    if model is None:
        raise ConfigurationError(f"--base-url {base_url} needs --model, the model's name on that server")


def _parsed(spec: str) -> JudgeSpec:
    with _named(spec):
        judge = JudgeSpec.parse(spec)
        if "model" in judge.settings and not spec.startswith("{"):
            raise ConfigurationError("give the model of all judges by --model")
        return judge


def _asks_a_model(spec: str, judge: JudgeSpec) -> bool:
    with _named(spec):
        return judge.asks_a_model and "model" not in judge.settings


@contextmanager
def _named(spec: str) -> Iterator[None]:
    """Name the option in errors."""
    try:
        yield
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
