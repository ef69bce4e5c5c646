"""Pages of the site that are made from the code: a page for each judge, and the reference of every public package.

`mkdocs build --strict` calls `on_files`; nothing that it makes is in the repository.
"""

from __future__ import annotations

import ast
import json
import logging
import re
import tomllib
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

import judges
from judges.catalogue.registry import default_registry
from judges.entry import Entry
from judges.settings import load_line, settings_of
from judges.testing import ScriptedEmbeddings, ScriptedModel
from refine.cli.app import app

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_CODE = re.compile(r"`[^`]*`")
ROOT = Path(__file__).parents[1]

DOORS = {
    "refine": "SelfRefine, the middleware of agents, trials, and what is recorded.",
    "graphs": "The loop as a graph, its policy, and its errors.",
    "judges": "Judges, verdicts, models and what wraps them.",
    "judges.offline": "Evaluations, comparisons, labels and certificates.",
    "judges.authoring": "What a judge of your own is made of.",
    "judges.testing": "Doubles without a model, for tests.",
    "judges.rag": "Metrics of retrieval-augmented answers, over columns.",
    "judges.offline.statistics": "Arithmetic over results: lists in, values out.",
    "refine.record": "What takes outcomes, and what reads them.",
    "refine.server": "The guard inside a process of your own, and the routes of its page.",
}
"""The public packages, and what each is for."""

COPIES = {
    "changes.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "index.md": "README.md",
    "security.md": "SECURITY.md",
}
"""Pages of the site that stand elsewhere in the repository."""

EXPLAINED = {
    "guard-settings": (
        "Settings of the guard",
        "What stands in `refine.toml`, or in the environment as `REFINE_NAME`.",
        ("ServerSettings", "GuardSettings", "NamedGuardSettings", "RequestLimits", "ServerKey", "WebhookSettings"),
        "refine.server.config",
    ),
    "reasons-and-events": (
        "Stop reasons, unscored verdicts, events",
        "The codes that outcomes, verdicts, records and logs hold.",
        ("graphs.refinement.StopReason", "judges.verdict.Unscored", "graphs.events.Event"),
        "",
    ),
}
"""Pages of the reference beside those of the packages: title, first sentence, what they explain, where it is."""

NOTEBOOKS = ROOT / "docs" / "notebooks"

logging.getLogger("mkdocs.plugins.griffe").setLevel(logging.ERROR)  # types of arguments stand in signatures


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from the code."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - only whoever builds the site has it

    words = tomllib.loads((ROOT / "docs" / "words.toml").read_text(encoding="utf-8"))
    for path, text in {
        **pages(),
        "assets/search-words.js": f"window.searchWords = {json.dumps(words)};\n",
    }.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Return a page without the backslash before a bar in code, which only GitHub's tables want; links lead on."""
    if page.file.src_uri == "judges.md":
        page.meta["search"] = {"exclude": True}  # a judge is found on its own page
    return "\n".join(
        _CODE.sub(lambda code: code[0].replace("\\|", "|"), line) if line.startswith("|") else line
        for line in _to_copies(markdown).splitlines()
    )


def pages() -> dict[str, str]:
    """Return the text of each page by its path."""
    entries = default_registry().entries
    return {
        **{path: _copy_of(ROOT / name) for path, name in COPIES.items()},
        **{f"catalogue/{name}.md": judge_page(entry) for name, entry in entries.items()},
        "catalogue/index.md": _index_page(entries.values()),
        **{f"reference/{door}.md": _reference_page(door) for door in DOORS},
        **{f"reference/{name}.md": _explained_page(*parts) for name, parts in EXPLAINED.items()},
        "reference/command-line.md": _command_line_page(),
        **{f"notebooks/{file.stem}.md": _notebook_page(file) for file in sorted(NOTEBOOKS.glob("*.ipynb"))},
    }


def judge_page(entry: Entry) -> str:
    """Return the page of a judge: what it asks, an example, its settings, and its prompt."""
    maker = default_registry().maker(entry.name)
    rows = [
        ("also called", ", ".join(f"`{name}`" for name in entry.aliases)),
        ("needs", ", ".join(f"`{name}`" for name in entry.needs)),
        ("model calls", entry.calls),
        ("in the loop", entry.in_loop),
        ("value", f"{entry.scale}; {entry.better} is good"),
        ("source", entry.source),
        ("where it differs", entry.differs),
        ("extra", f"`{entry.extra}`" if entry.extra else ""),
    ]
    settings = [
        (
            f"`{setting.name}`",
            f"`{setting.type}`",
            "required" if setting.required else f"`{setting.default}`",
            setting.meaning,
        )
        for setting in settings_of(maker)
    ]
    return "\n".join(
        [
            f"# {entry.name}\n",
            f"{entry.asks}\n",
            f"```python\nimport judges\n\njudge = {load_line(maker)}\n```\n",
            _table(("name", f"`{entry.name}`"), [row for row in rows if row[1]]),
            "## Settings\n",
            _table(("setting", "type", "default", "meaning"), settings),
            *_prompts(maker),
        ]
    )


def _prompts(maker: Callable[..., judges.Judge]) -> Iterator[str]:
    """Yield the prompts of a judge, in English; a judge by a rule has none."""
    call: Any = ast.parse(load_line(maker), mode="eval").body
    words = {str(word.arg): word.value for word in call.keywords}
    if words.pop("model", None) is None:
        return
    given = {name: _value(node) for name, node in words.items() if name != "embeddings"}
    doubles = {"model": ScriptedModel([{}]), "embeddings": ScriptedEmbeddings(lambda _: [1.0])}
    known = {setting.name for setting in settings_of(maker)}
    judge = maker(**given, **{name: double for name, double in doubles.items() if name in known})
    packs = [pack for pack in getattr(judge, "packs", ()) if pack.prompt.task]
    if packs:
        yield "## Prompt\n"
    for pack in packs:
        levels = "".join(f"\n{level}. {text}" for level, text in sorted(pack.prompt.levels.items()))
        text = f"{pack.prompt.task.strip()}{levels and chr(10)}{levels}"
        yield f"### {pack.name}\n\n~~~~{{ .text .prompt }}\n{text}\n~~~~\n"


def _value(node: ast.expr) -> Any:
    return eval(compile(ast.Expression(node), "<example>", "eval"), {"judges": judges})  # noqa: S307 - our own


def _index_page(entries: Any) -> str:
    rows = [(f"[{entry.name}]({entry.name}.md)", entry.asks, entry.calls) for entry in entries]
    return "# All judges\n\n" + _table(("judge", "asks", "model calls"), rows)


def _notebook_page(file: Path) -> str:
    """Return a notebook as a page: its texts and its code, and a link to itself."""
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    blocks = [
        text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"
        for cell, text in zip(cells, texts, strict=True)
    ]
    return "\n\n".join([*blocks, f"The notebook itself: [{file.name}]({file.name}).\n"])


def _reference_page(door: str) -> str:
    names: list[str] = sorted(import_module(door).__all__, key=str.casefold)
    homes = {name: _home_of(name, door) for name in names}
    blocks = "\n".join(f"::: {_path_of(name, door)}\n" for name, home in homes.items() if home == door)
    others = ", ".join(
        f"[`{name}`]({home}.md#{_path_of(name, home)})" for name, home in homes.items() if home != door
    )
    return f"# {door}\n\n{DOORS[door]}\n\n{others and f'Exported here, too: {others}.'}\n\n{blocks}"


def _explained_page(title: str, sentence: str, names: tuple[str, ...], module: str) -> str:
    blocks = "\n".join(f"::: {module}{module and '.'}{name}\n" for name in names)
    return f"# {title}\n\n{sentence}\n\n{blocks}"


def _command_line_page() -> str:
    """Return what `refine --help` and the help of each command say."""
    helps = {"refine": _help_of()}
    listed = cast("TyperGroup", get_command(app)).commands
    helps |= {f"refine {name}": _help_of(name) for name, command in listed.items() if not command.hidden}
    blocks = "\n\n".join(f"## {name}\n\n```text\n{text}\n```" for name, text in helps.items())
    return f"# The command line: every command of refine, and its options\n\n{blocks}\n"


def _help_of(*command: str) -> str:
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "100", "NO_COLOR": "1"})
    return result.output.strip().replace("Usage: root", "Usage: refine")


def _home_of(name: str, door: str) -> str:
    """Return the first door that exports the same thing by the same name: it is explained there."""
    value = getattr(import_module(door), name)
    return next(home for home in DOORS if getattr(import_module(home), name, None) is value)


def _path_of(name: str, door: str) -> str:
    """Return what the reference explains: a function called as its module is would be taken for the module."""
    value = getattr(import_module(door), name)
    alike = isfunction(value) and value.__module__.rpartition(".")[2] == name
    return f"{value.__module__ if alike else door}.{name}"


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [columns, ("---",) * len(columns), *(tuple(map(_cell, row)) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _copy_of(file: Path) -> str:
    """Return a page from outside `docs`, with its links as they are from inside."""
    return _to_copies(file.read_text(encoding="utf-8").replace("](docs/", "]("))


def _to_copies(text: str) -> str:
    """Return a text whose links to files at the root of the repository lead to their copies on the site."""
    for path, name in COPIES.items():
        text = text.replace(f"](../{name})", f"]({path})").replace(f"]({name})", f"]({path})")
    return text
