"""The reference page of the catalogue; `python -m judges.catalogue.reference_page` generates it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from judges.catalogue.registry import default_registry, entry_of
from judges.entry import Entry

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
_HEAD = """\
# Judges

Written from the catalogue by `python -m judges.catalogue.reference_page {page}`; do not edit it by hand.

```python
import judges

judge = judges.load("ragas.faithfulness", model="openai:gpt-5-mini")
print(judge.explain())  # what it needs, asks and costs, before anything is spent
verdict = judge(user_input="...", response="...", retrieved_contexts=["..."])
```

`load` takes a name or any alias below, and the settings of the judge's class. Every judge gives a `Verdict`:
`score` is 0 to 1 and high when things are good; `value` is on the judge's own scale, told here. What cannot be
judged is unscored, with a reason, and never a 0. `variant="compat"` gives the numbers of the source, where they
differ. The same judge works in the refine loop, in a panel and over a dataset; `refine judges` lists them on a
terminal, and `judge.adapt("de", model, folder="prompts")` makes one that speaks another language.

In the columns: **needs** are fields of a `Sample`; **calls** are model calls for one sample, with n contexts, t
topics and k repeats. A judge of the *retriever* does not judge the answer, so no rewrite of the answer can mend
what it finds.
"""


def page(entries: Iterable[Entry] | None = None) -> str:
    """Return the page as Markdown.

    Args:
        entries: The entries to list; None takes the package's own, without the judges of other distributions.
    """
    listed = sorted(_own() if entries is None else entries, key=lambda entry: (_source(entry) != _OWN, entry.name))
    tables = (_section(source, list(group)) for source, group in groupby(listed, key=_source))
    return "\n".join([_HEAD.format(page=PAGE), *tables])


def _own() -> list[Entry]:
    """Return the entries of this package, without those of other distributions."""
    return [entry_of(make) for make in default_registry().classes if make.__module__.startswith("judges.")]


def _source(entry: Entry) -> str:
    prefix, dot, _ = entry.name.partition(".")
    return _SOURCES.get(prefix, prefix) if dot else _OWN


def _section(source: str, entries: list[Entry]) -> str:
    rows = "".join(f"| {' | '.join(map(_cell, _row(entry)))} |\n" for entry in entries)
    head = "| judge | asks | needs | calls | value | source | where we differ |\n|---|---|---|---|---|---|---|\n"
    return f"## {source}\n\n{head}{rows}"


def _row(entry: Entry) -> Iterator[str]:
    aliases = ", ".join(f"`{alias}`" for alias in entry.aliases)
    extra = f"extra `{entry.extra}`" if entry.extra else ""
    yield "<br>".join(part for part in (f"**`{entry.name}`**", aliases, extra) if part)
    judged = "" if entry.subject == "answer" else f"<br>judges the *{entry.subject}*"
    yield entry.asks + judged
    yield ", ".join("`{}`".format(need.replace(" or ", "` or `")) for need in entry.needs)
    yield entry.calls
    yield entry.scale + ("" if entry.better == "high" else "; low is good")
    yield entry.source
    yield entry.differs


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
