"""Judges as a command line names them: by name, as `module:object`, or in a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from judges import ConfigurationError, Judge, Panel
from judges.catalogue.names import JudgesFile, JudgeSpec, is_judges_file
from judges.errors import shortened
from judges.models.providers.http import checked_address
from judges.models.providers.openai_settings import local_name, names_direct_client, parsed_name
from judges.offline.run.evaluate import judges_by_name
from judges.offline.run.manifest import JudgeRecord
from refine.cli.options import ModelOptions
from refine.process import see_modules_here

_ChatModel = Callable[..., object]


_LoadedJudge = tuple[JudgeRecord, Judge]
"""A judge of a command line, and what loads it again."""


@dataclass(frozen=True, kw_only=True)
class _NamedJudge:
    """A judge as an option, or a table of a file that an option names, has it.

    Args:
        place: Where it is named, for errors.
        spec: What it is.
        text: The text that loads it again.
        name: The name of its table; None takes the judge's own.
        model: The name of the model that it is to ask, unless its settings have one.
    """

    place: str
    spec: JudgeSpec
    text: str
    name: str | None
    model: str | None

    def load(self, chat: _ChatModel, asks: ModelOptions) -> _LoadedJudge:
        """Load it; `chat` makes its model of a name and the address of a server."""
        with _at(self.place):
            model_setting = self.spec.settings.get("model")
            spec, model = self.spec, None
            temperature = spec.settings.get("temperature", ...)
            sampling = {"temperature": temperature} if isinstance(temperature, int | float | None) else {}
            if isinstance(model_setting, str) and self._without_model.takes_model:
                spec, model = self._without_model, chat(model_setting, None, **sampling)
            elif self.model is not None and self.spec.takes_model:
                model = chat(self.model, asks.base_url, **sampling)
            judge = spec.load(model=model, language=asks.language)
        record = JudgeRecord(
            name=self.name or judge.name,
            spec=self.text,
            model=self.model,
            base_url=without_query(asks.base_url),
            language=asks.language,
        )
        return record, judge

    @property
    def _without_model(self) -> JudgeSpec:
        settings = {name: value for name, value in self.spec.settings.items() if name != "model"}
        return replace(self.spec, settings=settings)


def load_judges(specs: Sequence[str], asks: ModelOptions) -> list[_LoadedJudge]:
    """Load the judges of a command line; those that ask a model of the same name share it.

    Args:
        specs: What `--judge` names: a judge with its settings, `module:object`, `judges.toml` for all judges of a
            file, or `judges.toml:NAME` for one.
        asks: The model that they ask and its server, where none is named those of a file for its judges; and the
            language of the prompts, where none is named that of each row.

    Raises:
        ConfigurationError: If a name or a setting is wrong, or a model is needed and there is none.
    """
    see_modules_here()
    model, base_url = asks.model, asks.base_url
    if model is not None and not model.strip():
        raise ConfigurationError("--model is empty; write PROVIDER:NAME, e.g. --model openai:gpt-5-mini")
    named = [judge for spec in specs for judge in _named_in(spec, model)]
    _check_models(named, base_url)
    chat = cache(named_model)
    return [judge.load(chat, asks) for judge in named]


def without_query(address: str | None) -> str | None:
    """Return an address without its query, which may hold a key."""
    return None if address is None else urlunsplit((*urlsplit(address)[:3], "", ""))


def by_name(loaded: Sequence[_LoadedJudge]) -> dict[str, Judge]:
    """Return loaded judges by name.

    Raises:
        ConfigurationError: If two share a name.
    """
    shared = [name for name, times in Counter(record.name for record, _ in loaded).items() if times > 1]
    if shared:
        raise ConfigurationError(
            f"several judges are called {', '.join(map(repr, shared))}; give each a name=... of its own"
        )
    return judges_by_name({record.name: judge for record, judge in loaded})


def load_judge(spec: str, asks: ModelOptions) -> Judge:
    """Load one judge of a command line; of a file with several, a panel as strict as its strictest member.

    Raises:
        ConfigurationError: As `load_judges`.
    """
    judges = by_name(load_judges([spec], asks))
    return next(iter(judges.values())) if len(judges) == 1 else Panel(judges)


def _named_in(option: str, model: str | None) -> Iterator[_NamedJudge]:
    place = f"--judge {shortened(option)}"
    with _at(place):
        if not is_judges_file(option):
            yield _NamedJudge(place=place, spec=JudgeSpec.parse(option), text=option, name=None, model=model)
            return
        file = JudgesFile.read(option)
        for name, spec in file.specs.items():
            within = f"{place}: {file.path}: judges.{name}"
            yield _NamedJudge(place=within, spec=spec, text=spec.text, name=name, model=model or file.model)


def _check_models(named: Sequence[_NamedJudge], base_url: str | None) -> None:
    if base_url is not None:
        try:
            checked_address(base_url)
        except ConfigurationError as error:
            line = f"--base-url is an http address such as http://localhost:8000/v1, not {shortened(base_url)}"
            raise ConfigurationError(line) from error
        if all(judge.model is None for judge in named):
            raise ConfigurationError(f"--base-url {base_url} needs --model, the model's name on that server")
    for judge in named:
        with _at(judge.place):
            needs_model = judge.spec.needs_model
        if needs_model and judge.model is None:
            raise ConfigurationError(
                f"the judge {judge.spec.name!r} asks a model; add one, e.g. --model openai:gpt-5-mini"
            )


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Name the option in errors."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error}") from error


def named_model(name: str, base_url: str | None, **sampling: Any) -> object:
    """Create the model now, so that a missing package or key is reported before a run begins.

    Args:
        name: Its name.
        base_url: The address of its server.
        sampling: The temperature that its judge is to have; a chat model of LangChain learns it from the judge.
    """
    from judges import OpenAICompatible, chat_model  # noqa: PLC0415 - leads to LangChain

    parsed = parsed_name(name)
    if base_url is None:
        return (
            OpenAICompatible.named(name, **sampling)
            if names_direct_client(name)
            else chat_model(name, max_retries=0)
        )
    if local_name(name) is not None:
        raise ConfigurationError(f"{name} is on this machine and has no address; leave out --base-url")
    plain = name.strip().removeprefix("openai:") if parsed is None else parsed[0]
    if not plain:
        raise ConfigurationError("--model names no model; write its name on the server, e.g. --model my-model")
    return OpenAICompatible(base_url, model=plain, **sampling)
