"""The pages under docs and CONTRIBUTING: every block runs as it stands, every link, path and command is there."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

from graphs.refinement import StopReason
from judges.catalogue.registry import default_registry
from judges.verdict import Unscored
from refine.cli.app import app
from tests.laws import for_every
from tests.snippets import ROOT, all_blocks, expected_output, missing_in_commands, run
from tests.test_doors import DOORS

GENERATED = "docs/judges.md"
"""Its snippet names a real model; `tests/catalogue/test_choosing_page.py` tests the page."""

PAGES = sorted(
    file.relative_to(ROOT).as_posix() for file in (*(ROOT / "docs").rglob("*.md"), ROOT / "CONTRIBUTING.md")
)
WRITTEN = [page for page in PAGES if page != GENERATED]
FILE_NAME = re.compile(r"^# ([\w./-]+\.(?:py|toml))\n", re.MULTILINE)
"""The comment before each file of a block that shows whole files."""

OUR_PATH = re.compile(r"(?<![\w./-])(?:\.ci|demos|docs|graphs|judges|refine|tests)/[\w./*-]*[\w*/]")
OUR_NAME = re.compile(r"`((?:demos|graphs|judges|tests)(?:\.\w+)+|refine(?:\.\w+){2,})(?:\([^\"`]*\))?`")
"""A module, or what is in one; `refine.NAME` may be an event, or an attribute of a trace, too."""

FILE_ENDING = re.compile(r"\.(?:jsonl?|md|py|toml)$")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
LONGEST_LINE, LONGEST_PAGE = 118, 250

every_page = for_every("page", WRITTEN)
every_text = for_every("page", [*WRITTEN, "AGENTS.md", "README.md", "SECURITY.md"])


def text_of(page: str) -> str:
    """Read a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def files_in(block: str) -> dict[str, str]:
    """Return the files that a block shows, by name; none if it is a snippet."""
    _, *parts = FILE_NAME.split(block)
    return dict(zip(parts[::2], parts[1::2], strict=True)) if FILE_NAME.match(block) else {}


def can_be_imported(name: str) -> bool:
    """Check whether a dotted name leads to a module, or to something in one."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.fixture(scope="module")
def generated() -> Mapping[str, str]:
    """Make the pages of the site that stand in no file, by their paths."""
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "docs" / "site_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages: Mapping[str, str] = module.pages()
    return pages


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a folder in which the files of a page count as installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    default_registry.cache_clear()
    yield tmp_path
    default_registry.cache_clear()
    for name, module in list(sys.modules.items()):
        if str(tmp_path) in str(getattr(module, "__path__", getattr(module, "__file__", ""))):
            del sys.modules[name]


def save(project: Path, name: str, content: str) -> None:
    """Write a file of a page; the entry points of a `pyproject.toml` are installed."""
    file = project / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, encoding="utf-8")
    if file.suffix == ".toml":
        settings = tomllib.loads(content)
        for group, points in settings.get("project", {}).get("entry-points", {}).items():
            info = project / "page-1.0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text("Metadata-Version: 2.1\nName: page\nVersion: 1.0\n", encoding="utf-8")
            lines = [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
            (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")


def begun_package(block: str, project: Path) -> Path:
    """Return the folder that `refine new-judge` begins in a block of commands, now installed; else the other."""
    begun = re.search(r"^refine (new-judge \S+) && cd (\S+)$", block, re.MULTILINE)
    if begun is None:
        return project
    assert CliRunner().invoke(app, begun[1].split()).exit_code == 0
    folder = project / begun[2]
    sys.path.insert(0, str(folder))  # goes with the patched path
    save(folder, "pyproject.toml", (folder / "pyproject.toml").read_text(encoding="utf-8"))
    default_registry.cache_clear()
    return folder


def load_module(file: Path) -> ModuleType:
    """Import a file of a page: one of a package by its name, a lone one from where it lies."""
    if (file.parent / "__init__.py").exists() or file.parent == Path.cwd():
        return importlib.import_module(".".join(file.relative_to(Path(sys.path[0])).with_suffix("").parts))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call_tests(module: ModuleType) -> int:
    """Call the test functions of a module, and count them."""
    tests = [function for name, function in inspect.getmembers(module, callable) if name.startswith("test_")]
    for test in tests:
        test()
    return len(tests)


def run_page(page: str, project: Path) -> int:
    """Run the blocks of a page in order and in one namespace; count what they check: prints and tests."""
    namespace: dict[str, Any] = {"__name__": "page"}
    checked = 0
    for kind, block in all_blocks(text_of(page)):
        project = begun_package(block, project) if kind == "sh" else project
        files = files_in(block)
        for name, content in files.items():
            save(project, name, content)
        importlib.invalidate_caches()
        modules = [load_module(project / name) for name in files if name.endswith(".py")]
        checked += sum(map(call_tests, modules))
        if kind == "python" and not files:
            expected = expected_output(block)
            assert run(block, namespace, page) == expected
            checked += len(expected)
    return checked


@pytest.mark.parametrize("page", [page for page in WRITTEN if "```python" in text_of(page)])
def test_the_blocks_of_a_page_run(page: str, project: Path) -> None:
    """Each prints what its comments say, modules can be imported, tests pass; every page checks something."""
    assert run_page(page, project)


def test_the_pages_with_code_are_known() -> None:
    """The test above has found the pages that teach by code."""
    assert {"docs/writing-a-judge.md", "docs/adding-a-provider.md"} <= {
        page for page in WRITTEN if "```python" in text_of(page)
    }


@pytest.mark.parametrize("page", [*PAGES, "README.md"])
def test_every_link_leads_to_a_file(page: str) -> None:
    """Relative links lead to files that exist."""
    targets = LINK.findall(text_of(page))
    assert [target for target in targets if not ((ROOT / page).parent / target).exists()] == []


@every_text
def test_every_path_that_a_page_names_exists(page: str) -> None:
    """Paths from the root of the repository lead to files or folders; a `*` stands for any name."""
    shown = {name for _, block in all_blocks(text_of(page)) for name in files_in(block)}
    paths = set(OUR_PATH.findall(text_of(page))) - shown
    assert [path for path in paths if not any(ROOT.glob(path))] == []


@every_text
def test_every_module_that_a_page_names_exists(page: str) -> None:
    """`judges.sample`, or a name in it, can be imported from where a page says that it is."""
    names = {name for name in OUR_NAME.findall(text_of(page)) if not FILE_ENDING.search(name)}
    assert sorted(name for name in names if not can_be_imported(name)) == []


@every_page
def test_every_command_exists(page: str) -> None:
    """Each `python -m` module can be found, and `refine` knows every option shown."""
    assert missing_in_commands(text_of(page)) == []


@every_page
def test_lines_are_short(page: str) -> None:
    """Pages are wrapped, so that a change shows as a few lines; rows of tables are not."""
    lines = text_of(page).splitlines()
    assert [line for line in lines if len(line) > LONGEST_LINE and not line.startswith("|")] == []


def test_pages_are_short() -> None:
    """Whoever opens a page reads it to its end: none has more than 250 lines, but the one that is generated."""
    lengths = {page: len(text_of(page).splitlines()) for page in WRITTEN}
    assert {page: length for page, length in lengths.items() if length > LONGEST_PAGE} == {}


def test_writing_a_judge_is_a_short_read() -> None:
    """From nothing to a judge of one's own in under 100 lines, code included."""
    assert len(text_of("docs/writing-a-judge.md").splitlines()) < 100


def test_the_map_shows_every_room() -> None:
    """docs/architecture.md has a line for each package."""
    packages = [
        file.parent for root in ("judges", "graphs", "refine") for file in (ROOT / root).rglob("__init__.py")
    ]
    rooms = [f"{package.relative_to(ROOT).as_posix()}/" for package in packages]
    lines = text_of("docs/architecture.md").splitlines()
    assert [room for room in rooms if not any(line.startswith(f"{room} ") for line in lines)] == []


def test_every_decision_is_linked() -> None:
    """docs/architecture.md leads to each decision."""
    decisions = {file.name for file in (ROOT / "docs/decisions").glob("*.md")}
    linked = {Path(target).name for target in LINK.findall(text_of("docs/architecture.md"))}
    assert decisions
    assert decisions <= linked


def test_the_way_through_the_site_leads_to_every_page(generated: Mapping[str, str]) -> None:
    """Each page stands in the navigation of the site, those of the reference and the notebooks, too."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    written = {file.relative_to(ROOT / "docs").as_posix() for file in (ROOT / "docs").rglob("*.md")}
    made = {path for path in generated if not path.startswith("catalogue/")}
    assert (written | made) - set(re.findall(r"(?m)([\w./-]+\.md)$", nav)) == set()


def test_every_public_name_stands_in_the_reference(generated: Mapping[str, str]) -> None:
    """Whatever a door exports is explained on the door's page, or on that of the first door that exports it."""
    offenders = [
        f"{door}.{name}"
        for door in DOORS
        for name in importlib.import_module(door).__all__
        if not is_explained(door, name, generated)
    ]
    assert offenders == []


def is_explained(door: str, name: str, pages: Mapping[str, str]) -> bool:
    """Check whether the page of a door explains a name, or leads to the page that does."""
    page = pages.get(f"reference/{door}.md", "")
    own = re.search(rf"^::: ([\w.]+)\.{name}$", page, flags=re.MULTILINE)
    if own is not None:
        return getattr(importlib.import_module(own[1]), name) is getattr(importlib.import_module(door), name)
    link = re.search(rf"\[`{name}`\]\(([\w.]+\.md)#([\w.]+)\)", page)
    return link is not None and f"::: {link[2]}\n" in pages[f"reference/{link[1]}"]


def test_every_reason_and_event_is_explained(generated: Mapping[str, str]) -> None:
    """Stop reasons, reasons without a score, and events each stand in the text of the page that is about them."""
    events = {
        str(call.args[0].value)
        for file in (ROOT / "graphs").glob("*.py")
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Event"
        if isinstance(call.args[0], ast.Constant)
    }
    assert {"start", "verdict", "finish"} <= events
    codes = {
        "graphs.refinement.StopReason": get_args(StopReason),
        "judges.verdict.Unscored": get_args(Unscored),
        "graphs.events.Event": sorted(events),
    }
    page = generated["reference/reasons-and-events.md"]
    offenders = [
        f"{name}: {code}"
        for name, listed in codes.items()
        for code in listed
        if f"::: {name}\n" not in page or f"`{code}`" not in text_under(name)
    ]
    assert offenders == []


def text_under(name: str) -> str:
    """Return the docstring of a class or of a type alias, by its dotted name."""
    module, _, last = name.rpartition(".")
    body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    for node, after in pairwise(body):
        if isinstance(node, ast.ClassDef) and node.name == last:
            return ast.get_docstring(node) or ""
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == last and isinstance(after, ast.Expr):
            return str(ast.literal_eval(after.value))
    return ""


def test_every_judge_has_a_page_on_the_site(generated: Mapping[str, str]) -> None:
    """It has what the judge asks, its settings, and the prompt of those that ask a model."""
    for name, entry in default_registry().entries.items():
        page = generated[f"catalogue/{name}.md"]
        assert entry.asks in page
        assert "## Settings" in page
        assert ("## Prompt" in page) == ("model=" in page.partition("## Settings")[0]), name
