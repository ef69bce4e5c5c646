"""The reference page of the catalogue; `python -m judges.catalogue.reference_page` generates it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from judges.catalogue.registry import default_registry, entry_of
from judges.entry import Entry, Setting
from judges.settings import SHARED, load_line, settings_of

PAGE = Path("docs/judges.md")
"""Path of the page in the repository."""

_SOURCES = {
    "alibaba": "Spring AI Alibaba",
    "databricks": "Databricks",
    "mlflow": "mlflow",
    "nvidia": "NVIDIA",
    "ragas": "ragas",
    "spring": "Spring AI",
}
_OWN = "General"
_OF_A_MODEL = ("model", "temperature", "multimodal", "gate")
_COLUMNS = ("judge", "asks", "needs", "calls", "loop", "pieces", "value", "source", "where we differ", "example")
_SETTING_COLUMNS = ("setting", "type", "default", "meaning", "example")


def _page(entries: Iterable[Entry] | None = None) -> str:
    """Return the page as Markdown.

    Args:
        entries: The entries to list; None takes the package's own, without the judges of other distributions.
    """
    listed = sorted(_own() if entries is None else entries, key=lambda entry: (_source(entry) != _OWN, entry.name))
    head = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    tables = (_section(source, list(group)) for source, group in groupby(listed, key=_source))
    return "\n".join(
        [head.format(page=PAGE, shared=_shared_table(), fewer=_fewer(), asking=_listed(_OF_A_MODEL)), *tables]
    )


def _own() -> list[Entry]:
    """Return the entries of this package, without those of other distributions."""
    return [entry_of(make) for make in default_registry().classes if getattr(make, "is_of_this_package", False)]


def _source(entry: Entry) -> str:
    prefix, dot, _ = entry.name.partition(".")
    return _SOURCES.get(prefix, prefix) if dot else _OWN


def _section(source: str, entries: list[Entry]) -> str:
    parts = [f"## {source}\n\n{_table(_COLUMNS, map(_row, entries))}"]
    settings = [row for entry in entries for row in _setting_rows(entry)]
    if settings:
        parts.append(f"### Settings, {source}\n\n{_table(('judge', *_SETTING_COLUMNS), settings)}")
    return "\n".join(parts)


def _table(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *(map(_cell, row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _shared_table() -> str:
    """Return the table of the settings that mean the same in all judges: those of a judge that asks a model."""
    settings = settings_of(default_registry().maker("databricks.safety"))
    return _table(_SETTING_COLUMNS, map(_setting_row, settings))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _fewer() -> str:
    """Return which judges have fewer of the shared settings, and which they have."""
    by_settings: dict[str, list[str]] = {}
    for entry in sorted(_own(), key=lambda entry: entry.name):
        shared = [setting.name for setting in settings_of(default_registry().maker(entry.name)) if setting.shared]
        if set(SHARED) - set(_OF_A_MODEL) - set(shared) - _own_names(entry):
            by_settings.setdefault(_listed(shared), []).append(f"`{entry.name}`")
    return "; ".join(f"{', '.join(names)} ({settings})" for settings, names in by_settings.items())


def _own_names(entry: Entry) -> set[str]:
    settings = settings_of(default_registry().maker(entry.name))
    return {setting.name for setting in settings if not setting.shared}


def _setting_rows(entry: Entry) -> Iterator[list[str]]:
    registry = default_registry()
    settings = settings_of(registry.maker(entry.name)) if entry.name in registry else ()
    declared_settings = [setting for setting in settings if not setting.shared]
    return ([f"`{entry.name}`", *_setting_row(setting)] for setting in declared_settings)


def _setting_row(setting: Setting) -> Iterator[str]:
    yield f"`{setting.name}`"
    yield f"`{setting.type}`"
    yield "required" if setting.required else f"`{setting.default}`"
    yield setting.meaning
    yield f"`{setting.example}`"


def _row(entry: Entry) -> Iterator[str]:
    registry = default_registry()
    aliases = ", ".join(f"`{alias}`" for alias in entry.aliases)
    extra = f"extra `{entry.extra}`" if entry.extra else ""
    yield "<br>".join(part for part in (f"**`{entry.name}`**", aliases, extra) if part)
    judged = "" if entry.subject == "answer" else f"<br>judges the *{entry.subject}*"
    yield entry.asks + judged
    yield ", ".join("`{}`".format(need.replace(" or ", "` or `")) for need in entry.needs)
    yield entry.calls
    yield entry.in_loop
    yield "; ".join(filter(None, ("yes" if entry.judges_parts else "no", entry.parts_reason)))
    yield entry.scale + ("" if entry.better == "high" else "; low is good")
    yield entry.source + (f"; compat follows {entry.follows}" if entry.follows else "")
    yield entry.differs
    yield f"`{load_line(registry.maker(entry.name))}`" if entry.name in registry else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|") or "-"


def main() -> None:
    """Print the page, or write it to the file named on the command line."""
    if len(sys.argv) > 1:
        file = Path(sys.argv[1])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_page(), encoding="utf-8", newline="\n")
    else:
        sys.stdout.write(_page())


if __name__ == "__main__":
    main()
