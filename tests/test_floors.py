"""Imports run downwards only, and a framework is loaded only when its door is opened."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from tests.laws import for_every

ROOT = Path(__file__).resolve().parent.parent

BELOW: dict[str, frozenset[str]] = {
    "judges": frozenset(),
    "graphs": frozenset({"judges"}),
    "refine": frozenset({"graphs", "judges"}),
    "demos": frozenset({"refine", "graphs", "judges"}),
}
"""What each floor may import of ours, beside itself."""

FRAMEWORKS = frozenset(
    {
        "aiohttp",
        "anthropic",
        "fastapi",
        "jsonschema",
        "langchain",
        "langchain_anthropic",
        "langchain_core",
        "langchain_ollama",
        "langchain_openai",
        "langgraph",
        "langsmith",
        "mcp",
        "mlflow",
        "nltk",
        "numpy",
        "openai",
        "opentelemetry",
        "phonenumbers",
        "prometheus_client",
        "prompt_toolkit",
        "pydantic_settings",
        "playwright",
        "psycopg",
        "py3langid",
        "pyarrow",
        "rapidfuzz",
        "ray",
        "rich",
        "sacrebleu",
        "safetensors",
        "scipy",
        "sklearn",
        "sqlalchemy",
        "sqlglot",
        "starlette",
        "stdnum",
        "threadpoolctl",
        "tokenizers",
        "tomli_w",
        "torch",
        "transformers",
        "typer",
        "urllib3",
        "uvicorn",
    }
)
DOORS: dict[str, frozenset[str]] = {
    "judges/": frozenset(),
    "judges/models/providers/bounded_http.py": frozenset({"urllib3"}),
    "judges/models/providers/direct_post.py": frozenset({"aiohttp"}),
    "judges/models/providers/langchain_runs.py": frozenset({"langchain_core", "langsmith"}),
    "judges/models/providers/openai_messages.py": frozenset({"langchain_core"}),
    "judges/offline/statistics/": frozenset({"numpy", "scipy"}),
    "judges/testing.py": frozenset({"langchain_core"}),
    "graphs/": frozenset({"langchain_core", "langgraph"}),
    "refine/": frozenset({"langchain", "langchain_core", "langgraph"}),
    "refine/cli/": frozenset({"prompt_toolkit", "rich", "typer"}),
    "refine/mcp_server.py": frozenset({"mcp", "starlette", "uvicorn"}),
    "refine/page/": frozenset({"langchain_core", "starlette"}),
    "refine/record/": frozenset({"langchain_core", "sqlalchemy"}),
    "refine/server/": frozenset(
        {
            "aiohttp",
            "langchain_core",
            "langgraph",
            "prometheus_client",
            "pydantic_settings",
            "starlette",
            "uvicorn",
        }
    ),
    "demos/": FRAMEWORKS,
}
"""Frameworks that a folder or module may import at module level; the longest prefix counts."""

MODEL_FRAMEWORKS = ("aiohttp", "langchain", "langchain_core", "langgraph", "openai", "urllib3")


@dataclass(frozen=True)
class Import:
    """One import: the top-level package, and when it happens."""

    package: str
    when: Literal["loading", "calling", "typing"]


parsed = cache(ast.parse)
"""Each module is read by several laws, and parsed once."""


@cache
def imports(source: str) -> tuple[Import, ...]:
    """List the absolute imports of a module, `import_module("...")` included."""
    return tuple(_imports(parsed(source), "loading"))


def _imports(node: ast.AST, when: Literal["loading", "calling", "typing"]) -> Iterator[Import]:
    for name in _named(node):
        yield Import(name.partition(".")[0], when)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        when = "calling"
    if isinstance(node, ast.If) and "TYPE_CHECKING" in (
        getattr(node.test, "id", None),
        getattr(node.test, "attr", None),
    ):
        for child in node.body:
            yield from _imports(child, "typing")
        for child in node.orelse:
            yield from _imports(child, when)
        return
    for inside in ast.iter_child_nodes(node):
        yield from _imports(inside, when)


def _named(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [one.name for one in names]
        case ast.ImportFrom(module=str() as module, level=0):
            return [module]
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str() as module), *_],
        ) if not module.startswith("."):
            return [module]
        case _:
            return []


def wrong_arrows(floor: str, source: str) -> set[str]:
    """Name the floors that a module on `floor` imports and may not."""
    return {one.package for one in imports(source) if one.package in BELOW} - BELOW[floor] - {floor}


def wrong_frameworks(path: str, source: str) -> set[str]:
    """Name the frameworks that the module at `path` loads although it is not their door."""
    door = max((prefix for prefix in DOORS if path.startswith(prefix)), key=len)
    loaded = {one.package for one in imports(source) if one.when == "loading"}
    return (loaded & FRAMEWORKS) - DOORS[door]


def modules(floor: str) -> list[tuple[str, str]]:
    """Give path and source of every module of a floor."""
    return [
        (file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8"))
        for file in sorted((ROOT / floor).rglob("*.py"))
    ]


@for_every("floor", BELOW)
def test_imports_run_downwards(floor: str) -> None:
    """No module imports a floor above its own, not even inside a function or for types."""
    found = {path: wrong for path, source in modules(floor) if (wrong := wrong_arrows(floor, source))}
    assert found == {}


@for_every("floor", BELOW)
def test_a_framework_is_loaded_at_its_door_alone(floor: str) -> None:
    """Elsewhere a framework is imported inside the function that needs it, or for types."""
    found = {path: wrong for path, source in modules(floor) if (wrong := wrong_frameworks(path, source))}
    assert found == {}


def test_there_is_something_to_read() -> None:
    """The floors are where the test looks for them."""
    assert len(modules("judges")) > 10


@for_every(
    "source, when",
    [
        ("import graphs.loop", "loading"),
        ("from graphs import loop as x", "loading"),
        ("import os, graphs", "loading"),
        ("try:\n    import graphs\nexcept ImportError:\n    pass", "loading"),
        ("class A:\n    from graphs.loop import x", "loading"),
        ("def f():\n    if x:\n        from graphs import loop", "calling"),
        ("async def f():\n    import graphs", "calling"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import graphs", "typing"),
        ("import typing\nif typing.TYPE_CHECKING:\n    from graphs.loop import x", "typing"),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    import graphs", "loading"),
        ("import importlib\nimportlib.import_module('graphs.loop')", "loading"),
        ("def f(): return import_module('graphs')", "calling"),
    ],
)
def test_the_reader_finds_an_import_wherever_it_stands(source: str, when: str) -> None:
    """An import that breaks the rule is found in every place and every form."""
    assert wrong_arrows("judges", source) == {"graphs"}
    assert [one.when for one in imports(source) if one.package == "graphs"] == [when]


@for_every(
    "source",
    ["import graphsy", "from . import graphs", "'import graphs'", "from judges.graphs import x", "x.graphs"],
)
def test_the_reader_finds_nothing_where_nothing_is(source: str) -> None:
    """A similar name, a relative import or a text is no import of a floor."""
    assert wrong_arrows("judges", source) == set()


@for_every(
    "floor, allowed",
    [("judges", ""), ("graphs", "judges"), ("refine", "graphs judges"), ("demos", "graphs judges refine")],
)
def test_the_arrows_are_those_of_the_architecture(floor: str, allowed: str) -> None:
    """Every floor may import those below it and no other."""
    everything = "\n".join(f"import {one}" for one in BELOW)
    assert wrong_arrows(floor, everything) == set(BELOW) - {floor, *allowed.split()}


@for_every(
    "path, source, wrong",
    [
        ("judges/catalogue/general/rubric.py", "import langchain_core.messages", {"langchain_core"}),
        ("judges/catalogue/general/rubric.py", "def f():\n    import langchain_core", set()),
        ("judges/catalogue/general/rubric.py", "if TYPE_CHECKING:\n    import langgraph", set()),
        ("judges/testing.py", "import langchain_core", set()),
        ("judges/testing.py", "import langgraph", {"langgraph"}),
        ("graphs/loop.py", "from langgraph.types import Command\nimport starlette", {"starlette"}),
        ("refine/cli/app.py", "import typer\nimport langchain_core", {"langchain_core"}),
    ],
)
def test_the_reader_knows_the_doors(path: str, source: str, wrong: set[str]) -> None:
    """A framework outside its door is found; inside a function or for types it is no matter."""
    assert wrong_frameworks(path, source) == wrong


INNER: tuple[tuple[str, ...], ...] = (
    ("first_guesses", "entry"),
    ("verdict",),
    ("messages",),
    ("errors", "model", "rows"),
    ("hints",),
    ("sample",),
    ("requests",),
    ("runtime",),
    ("certificate", "settings"),
    ("promise",),
    ("models",),
    ("prompting",),
    ("judge",),
    ("compose",),
    ("catalogue", "testing"),
    ("fingerprint",),
    ("offline",),
    ("rag",),
    ("authoring",),
)
"""The floors inside `judges`, lowest first. A room imports itself and what stands below, never beside or above."""


@cache
def dotted_imports(source: str) -> frozenset[tuple[str, str]]:
    """List what a module imports, as module and name, for types and inside functions included."""
    imported: set[tuple[str, str]] = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            imported |= {(node.module, f"{node.module}.{name.name}") for name in node.names}
        else:
            imported |= {(name, name) for name in _named(node)}
    return frozenset(imported)


def wrong_inner_arrows(path: str, source: str) -> set[str]:
    """Name the rooms of `judges` that the module at `path` imports and may not."""
    heights = {room: height for height, rooms in enumerate(INNER) for room in rooms}
    own = path.split("/")[1].removesuffix(".py")
    rooms = {name.split(".")[1] for _, name in dotted_imports(source) if name.startswith("judges.")} - {own}
    return {room for room in rooms if heights[room] >= heights[own]}


def test_the_rooms_of_judges_import_downwards() -> None:
    """No room of `judges` imports one above or beside it, not even for types."""
    rooms = [(path, source) for path, source in modules("judges") if path != "judges/__init__.py"]
    assert {path: wrong for path, source in rooms if (wrong := wrong_inner_arrows(path, source))} == {}


@for_every(
    "path, source, wrong",
    [
        ("judges/models/retry.py", "from judges.judge import run", {"judge"}),
        ("judges/errors.py", "if TYPE_CHECKING:\n    from judges.sample import Sample", {"sample"}),
        ("judges/errors.py", "def f():\n    import judges.rag", {"rag"}),
        ("judges/catalogue/metric.py", "from judges import testing", {"testing"}),
        ("judges/catalogue/ragas/overlap.py", "from judges.catalogue.metric import Metric", set()),
        ("judges/offline/compare.py", "from judges import verdict\nfrom judges.errors import JudgesError", set()),
    ],
)
def test_the_reader_finds_an_arrow_between_rooms(path: str, source: str, wrong: set[str]) -> None:
    """An import of a room above or beside is found in every form."""
    assert wrong_inner_arrows(path, source) == wrong


def circles(sources: Mapping[str, str]) -> set[str]:
    """Name the modules from which following imports never ends; `sources` has a module's text by its name."""
    open_ends = {
        name: {inner if inner in sources else outer for outer, inner in dotted_imports(source)} - {name}
        for name, source in sources.items()
    }
    while ends := [name for name, targets in open_ends.items() if not targets & open_ends.keys()]:
        for name in ends:
            del open_ends[name]
    return set(open_ends)


@for_every("floor", ["judges", "graphs", "refine"])
def test_no_module_imports_in_a_circle(floor: str) -> None:
    """Following imports never leads back to where one started, for types and inside functions included."""
    assert circles({_module_name(path): source for path, source in modules(floor)}) == set()


def test_a_circle_is_found_through_types_and_functions() -> None:
    """Modules that lead back to the first are named, by whatever form of import, and one beside them is not."""
    sources = {
        "a.x": "from a import y",
        "a.y": "if TYPE_CHECKING:\n    from a.z import Z",
        "a.z": "def f():\n    import a.v",
        "a.v": "def f():\n    return import_module('a.x')",
        "a.w": "import json",
    }
    assert circles(sources) == {"a.x", "a.y", "a.z", "a.v"}


LONGEST_BODY = 40
Function = ast.FunctionDef | ast.AsyncFunctionDef


def body_lines(function: Function) -> int:
    """Count the lines of a function's body, its docstring left out."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0  # type: ignore[operator]  # parsed code has lines


def test_functions_are_short_and_a_type_name_has_one_home() -> None:
    """No body has more than 40 lines, and no two modules define a class of the same name."""
    too_long: list[str] = []
    homes: dict[str, list[str]] = defaultdict(list)
    for floor in BELOW:
        for path, source in modules(floor):
            tree = parsed(source)
            functions = (node for node in ast.walk(tree) if isinstance(node, Function))
            too_long += [f"{path}:{one.lineno} {one.name}" for one in functions if body_lines(one) > LONGEST_BODY]
            for name in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}:
                homes[name].append(path)
    assert too_long == []
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_a_long_body_is_noticed() -> None:
    """A body of 41 lines is too long, and its docstring does not count."""
    function = ast.parse("def f():\n" + '    """Do."""\n' + "    x = 1\n" * 41).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert body_lines(function) == LONGEST_BODY + 1


def _module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def in_a_fresh_process(code: str) -> tuple[float, list[str]]:
    """Run code and give the seconds it took and the packages of model frameworks it loaded."""
    program = (
        f"import json, sys, time\nstarted = time.perf_counter()\n{code}\ntook = time.perf_counter() - started\n"
        f"loaded = sorted({{name.partition('.')[0] for name in sys.modules}} & {set(MODEL_FRAMEWORKS)})\n"
        "print(json.dumps([took, loaded]))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    took, loaded = json.loads(done.stdout)
    return took, loaded


def test_judges_loads_at_once() -> None:
    """`import judges` takes under 0.3 s, at the best of three, and loads no model framework."""
    runs = [in_a_fresh_process("import judges") for _ in range(3)]
    assert min(took for took, _ in runs) < 0.3
    assert [loaded for _, loaded in runs] == [[], [], []]


def test_the_public_names_of_judges_load_no_model_framework() -> None:
    """A judge can be made and a sample read without LangChain."""
    program = (
        "from judges import *\nHelpfulness('a:b')\nLength(at_most=9)(answer='x')\n"
        "Helpfulness(OpenAICompatible('http://localhost/v1', model='m'))"
    )
    _, loaded = in_a_fresh_process(program)
    assert loaded == []


def test_a_loaded_framework_is_noticed() -> None:
    """The two tests above can fail: a framework that is loaded is named."""
    _, loaded = in_a_fresh_process("import judges, langchain_core")
    assert loaded == ["langchain_core"]


CORE_ALONE = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import graphs, judges, judges.authoring, judges.offline, judges.rag, refine
from judges.testing import ScriptedJudge, ScriptedModel

rows = [{"question": "q", "answer": "a"}]
print(judges.offline.evaluate(rows, "length:at_most=3", run=sys.argv[1]).summary["length"].mean)
print(refine.SelfRefine(ScriptedModel(["a", "b"]), ScriptedJudge([1, 4])).invoke("q").text)
"""


def test_judging_and_refining_need_no_extra(tmp_path: Path) -> None:
    """With the core dependencies alone the doors open, a run is written, and a question is refined."""
    core = {"langchain_core", "langgraph", "langsmith", "urllib3"}
    code = CORE_ALONE.replace("EXTRAS", repr(sorted(FRAMEWORKS - core)))
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("1.0\nb\n", "")
