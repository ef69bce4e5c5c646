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
_HEAD = """\
# Judges

Written from the catalogue by `python -m judges.catalogue.reference_page {page}`; do not edit it by hand.

```python
import judges

judge = judges.load("ragas.faithfulness", model="openai:gpt-5-mini")
print(judge.explain())  # what it needs, asks and costs, before anything is spent
verdict = judge(user_input="...", response="...", retrieved_contexts=["..."])
```

[Choosing judges](choosing.md) leads to the ones to begin with. `load` takes a name or any alias below, and the
settings of the judge's class, which stand below each table. Every judge gives a `Verdict`:
`score` is 0 to 1 and high when things are good; `value` is on the judge's own scale, told here. What cannot be
judged is unscored, with a reason, and never a 0. `variant="compat"` gives the numbers of the source, where they
differ; of two generations of classes the column **source** says which one is meant, and [compat.md](compat.md)
where numbers still differ. The same judge works in the refine loop, in a panel and over a dataset; `refine judges`
lists them on a terminal, and `judge.adapt("de", model, folder="prompts")` makes one that speaks another language.

In the columns: **needs** are fields of a `Sample`; **calls** are model calls for one sample, with n contexts, t
topics and k repeats; **loop** is whether the judge can stand in the refine loop: not if it judges the *retriever*,
or turns that are over, since no rewrite of the answer can mend what it finds; **pieces** is whether it holds for
a part of the answer as for the whole, and why, so that it can judge an answer while it is written.

## Settings that judges share

A judge that asks a model has all of these, and one that asks none all but {asking}. Some have
fewer: {fewer}.

`load("helpfulness", chat)` takes the model without a name, and what other libraries call a setting (`llm`,
`evaluator_llm`, `feedback_key`, `strict_mode`, `trajectory_match_mode` ...) is known as well. `refine judges NAME`
shows the settings of one judge on a terminal, and `judge.explain()` in Python.

{shared}"""


def page(entries: Iterable[Entry] | None = None) -> str:
    """Return the page as Markdown.

    Args:
        entries: The entries to list; None takes the package's own, without the judges of other distributions.
    """
    listed = sorted(_own() if entries is None else entries, key=lambda entry: (_source(entry) != _OWN, entry.name))
    tables = (_section(source, list(group)) for source, group in groupby(listed, key=_source))
    return "\n".join(
        [_HEAD.format(page=PAGE, shared=_shared_table(), fewer=_fewer(), asking=_listed(_OF_A_MODEL)), *tables]
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
        file.write_text(page(), encoding="utf-8", newline="\n")
    else:
        sys.stdout.write(page())


if __name__ == "__main__":
    main()
