"""Shared by the demos' command lines: options for real models, parsed strictly, and errors in one line."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

from demos.screen import printable
from graphs import RefineError
from judges import ConfigurationError, JudgesError, chat_model

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_PYTHON = "python -m "
_INTERRUPTED = 130
"""Exit code that a shell expects of a program stopped with Ctrl-C."""


class Options(argparse.ArgumentParser):
    """Parser of a command line; a wrong one raises `ConfigurationError` instead of printing the usage."""

    def __init__(self, name: str, description: str | None) -> None:
        super().__init__(
            prog=f"{_PYTHON}{name}",
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """Raise argparse's message as an error."""
        raise ConfigurationError(f"{message}; see {self.prog} --help")

    def run(self, act: Callable[[argparse.Namespace], int], arguments: Sequence[str] | None) -> int:
        """Run a demo and return its exit code; an error is reported in one line, and is 2."""
        name = self.prog.removeprefix(_PYTHON)
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal without "°" shows "?" rather than a traceback
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: _say(name, str(message))
            try:
                return act(self.parse_args(arguments))
            except KeyboardInterrupt:
                return complain(name, "interrupted", code=_INTERRUPTED)
            except (JudgesError, RefineError, OSError) as error:
                return complain(name, str(error))


def complain(name: str, message: str, *, code: int = 2) -> int:
    """Report an error in one line on stderr, and return the exit code."""
    _say(name, message)
    return code


def _say(name: str, message: str) -> None:
    sys.stderr.write(f"{name}: {' '.join(printable(message).split())}\n")


@dataclass(frozen=True, slots=True)
class _Models:
    """The real models chosen; None stands for the demo's own script or rule."""

    generator: BaseChatModel | None
    judge: BaseChatModel | None


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for real models."""
    group = parser.add_argument_group("real models", "Without these, a script answers and a rule judges.")
    group.add_argument("--generator", metavar="PROVIDER:MODEL", help="model that answers, e.g. openai:gpt-5-mini")
    group.add_argument("--judge", metavar="PROVIDER:MODEL", help="model that judges helpfulness")
    group.add_argument("--base-url", metavar="URL", help="OpenAI-compatible server that has these models")


def models_of(options: argparse.Namespace) -> _Models:
    """Create the models now, so that a missing package or key is reported before anything begins.

    Raises:
        ConfigurationError: If a model cannot be set up, or a server is given without a model.
    """
    url = options.base_url
    if url is not None and not (options.generator or options.judge):
        raise ConfigurationError(f"--base-url {url} needs --generator MODEL, --judge MODEL or both")
    if url is not None and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc):
        raise ConfigurationError(f"--base-url is an http address such as http://localhost:8000/v1, not {url!r}")
    names = (options.generator, options.judge)
    return _Models(*(None if name is None else chat_model(name, base_url=url) for name in names))


def describe_models(options: argparse.Namespace, *, rule: str = "rule judge") -> str:
    """Return a sentence on what answers and what judges."""
    if not (options.generator or options.judge):
        return f"Scripted model and {rule}; no key, no network."
    return f"{options.generator or 'Scripted model'} answers, {options.judge or rule} judges."
