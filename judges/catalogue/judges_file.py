"""A file of judges, in TOML: a table for each, with its settings."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.catalogue.specs import JudgeSpec
from judges.errors import ConfigurationError, one_line, shortened
from judges.judge import Judge

_EXAMPLE = "write [judges.helpfulness] for each, with its settings below"


@dataclass(frozen=True, kw_only=True)
class JudgesFile:
    """What a file of judges says.

    Args:
        specs: The judges by name.
        model: The model of those that ask one; None where the file names none.
    """

    specs: Mapping[str, JudgeSpec]
    model: str | None = None


def load_file(path: str | Path, *, model: object = None) -> dict[str, Judge]:
    """Return the judges of a TOML file by name.

    ```toml
    model = "openai:gpt-5-mini"

    [judges.helpfulness]
    success_rating = 4

    [judges.short]
    use = "length"
    at_most = 80
    unit = "words"
    ```

    Each table is named after the judge it makes; `use` names its kind, or `module:object`, where that is another.

    Args:
        path: The file.
        model: The model of the judges that ask one; None takes the file's `model`.

    Raises:
        ConfigurationError: If the file cannot be read, or a judge in it is set up wrongly.
    """
    judges_file = read_judges(path)
    judges = {}
    for name, spec in judges_file.specs.items():
        try:
            judges[name] = spec.load(model=judges_file.model if model is None else model)
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}: judges.{name}: {error}") from error
    return judges


def read_judges(path: str | Path) -> JudgesFile:
    """Read a file of judges, without making them.

    Raises:
        ConfigurationError: If it is no such file.
    """
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"the judges file {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {one_line(error)}") from None
    model, tables = document.pop("model", None), document.pop("judges", None)
    if document:
        raise ConfigurationError(f"{path}: {shortened(next(iter(document)))} is not known; {_EXAMPLE}")
    if not isinstance(tables, dict) or not tables:
        raise ConfigurationError(f"{path} names no judge; {_EXAMPLE}")
    if not isinstance(model, str | None):
        raise ConfigurationError(f'{path}: model is a text such as "openai:gpt-5-mini", not {shortened(model)}')
    return JudgesFile(specs={name: _spec(path, name, table) for name, table in tables.items()}, model=model)


def _spec(path: str | Path, name: str, table: Any) -> JudgeSpec:
    if not isinstance(table, dict):
        raise ConfigurationError(
            f"{path}: judges.{name} is a table of settings, not {shortened(table)}; {_EXAMPLE}"
        )
    settings = dict(table)
    kind = settings.pop("use", name)
    if not isinstance(kind, str):
        raise ConfigurationError(f"{path}: judges.{name}.use is the name of a judge, not {shortened(kind)}")
    if kind != name and ":" not in kind:
        settings.setdefault("name", name)
    return JudgeSpec(name=kind, settings=settings)
