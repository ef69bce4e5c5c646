"""Options that put real models into a demo: `--generator`, `--judge`, `--base-url`."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from judges import ConfigurationError
from judges.models.langchain import chat_model

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


@dataclass(frozen=True, slots=True)
class Models:
    """The real models asked for; None stands for the demo's own script or rule."""

    generator: BaseChatModel | None
    judge: BaseChatModel | None


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    group = parser.add_argument_group("real models", "Without these, a script answers and a rule judges.")
    group.add_argument("--generator", metavar="PROVIDER:MODEL", help="model that answers, e.g. openai:gpt-5-mini")
    group.add_argument("--judge", metavar="PROVIDER:MODEL", help="model that judges helpfulness")
    group.add_argument("--base-url", metavar="URL", help="OpenAI-compatible server that has these models")


def models_of(options: argparse.Namespace) -> Models:
    """Create the models now, so that a missing package or key is told before anything begins.

    Raises:
        ConfigurationError: If a model cannot be set up, or there is a server but no model to ask it for.
    """
    url = options.base_url
    if url is not None and not (options.generator or options.judge):
        raise ConfigurationError(f"--base-url {url} needs --generator MODEL, --judge MODEL or both")
    if url is not None and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc):
        raise ConfigurationError(f"--base-url is an http address such as http://localhost:8000/v1, not {url!r}")
    return Models(*(None if name is None else _made(name, url) for name in (options.generator, options.judge)))


def told(options: argparse.Namespace, *, rule: str = "rule judge") -> str:
    """Say who answers and who judges."""
    if not (options.generator or options.judge):
        return f"Scripted model and {rule}; no key, no network."
    return f"{options.generator or 'Scripted model'} answers, {options.judge or rule} judges."


def _made(name: str, base_url: str | None) -> BaseChatModel:
    if base_url is None:
        return chat_model(name)
    key = os.environ.get("OPENAI_API_KEY") or "none-needed"
    return chat_model(f"openai:{name.removeprefix('openai:')}", base_url=base_url, api_key=key)
