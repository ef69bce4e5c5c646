"""A file of judges, in TOML: a table for each, with its settings."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.catalogue.specs import JudgeSpec
from judges.errors import ConfigurationError, one_line, shortened
from judges.judge import Judge
from judges.runtime.validation import suggestion

_PATH = re.compile(r"(?P<path>.+\.toml)(?::(?P<name>[^:=]+))?", re.IGNORECASE | re.DOTALL)
_EXAMPLE = "write [judges.helpfulness] for each, with its settings below"
_MODEL_REMEDY = 'write model = "openai:gpt-5-mini" in its table, or at the top of the file for all'


@dataclass(frozen=True, kw_only=True)
class JudgesFile:
    """What a file of judges says.

    Args:
        path: The file.
        specs: The judges by name.
        model: The model of those that ask one; None where the file names none.
    """

    path: Path
    specs: Mapping[str, JudgeSpec]
    model: str | None = None

    @classmethod
    def read(cls, path: str | Path) -> JudgesFile:
        """Read a file of judges, without making them; `judges.toml:NAME` is one judge of it.

        Raises:
            ConfigurationError: If it is no such file, or has no judge of this name.
        """
        match = _PATH.fullmatch(str(path))
        file = Path(path if match is None else match["path"])
        model, tables = _tables(file)
        specs = {name: _spec(file, name, table) for name, table in tables.items()}
        name = None if match is None else match["name"]
        if name is not None and name not in specs:
            raise ConfigurationError(f"{file} has no judge {shortened(name)}; {suggestion(name, tuple(specs))}")
        return cls(path=file, specs=specs if name is None else {name: specs[name]}, model=model)

    def load(self, *, model: object = None, default: object = None) -> dict[str, Judge]:
        """Return the judges by name; `model` and `default` are those of `JudgeSpec.load`.

        Raises:
            ConfigurationError: If a judge is set up wrongly.
        """
        shared = self.model if model is None else model
        judges = {}
        for name, spec in self.specs.items():
            with self.within(name):
                judges[name] = spec.load(model=shared, default=default, remedy=_MODEL_REMEDY)
        return judges

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        """Name the file and the table in errors."""
        try:
            yield
        except ConfigurationError as error:
            raise ConfigurationError(f"{self.path}: judges.{name}: {error}") from error


def is_judges_file(text: str) -> bool:
    """Whether a text is the path of a file of judges, `judges.toml`, or one judge of it, `judges.toml:NAME`."""
    return not text.lstrip().startswith("{") and _PATH.fullmatch(text) is not None


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
    A table may have a `model` of its own.

    Args:
        path: The file; `judges.toml:short` is this judge alone.
        model: The model of the judges that can ask one; None takes the file's `model`.

    Raises:
        ConfigurationError: If the file cannot be read, or a judge in it is set up wrongly.
    """
    return JudgesFile.read(path).load(model=model)


def _tables(path: Path) -> tuple[str | None, Mapping[str, Any]]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
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
    return model, tables


def _spec(path: Path, name: str, table: object) -> JudgeSpec:
    if not isinstance(table, dict):
        raise ConfigurationError(
            f"{path}: judges.{name} is a table of settings, not {shortened(table)}; {_EXAMPLE}"
        )
    try:
        return JudgeSpec.of_table(table, name=name)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: judges.{name}: {error}") from error
