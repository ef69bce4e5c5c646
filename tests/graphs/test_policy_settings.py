"""Settings of a policy as keywords: their types are those of `Policy`, and a type checker sees what is wrong."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from pydantic import TypeAdapter

import graphs
from graphs import Override, Policy, PolicySettings, self_refine
from graphs.policy import OverrideSettings, PriceSettings
from judges import ConfigurationError, Price
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from refine.middleware import SelfRefineMiddleware

api = pytest.importorskip("mypy.api")
ROOT = Path(graphs.__file__).parents[1]
WIDER = {"prices", "overrides", "certificate"}
"""Settings that a policy takes in more forms than it keeps them."""

CHECKED = [
    *(
        "graphs/__init__.py",
        "graphs/policy.py",
        "graphs/graph.py",
        "judges/verdict.py",
        "judges/runtime/validation.py",
    ),
    *("refine/__init__.py", "refine/selfrefine.py", "refine/middleware/__init__.py", "refine/middleware/agent.py"),
]
SNIPPET = """
from collections.abc import Mapping
from typing import Any
from graphs import Override, Policy, PolicySettings, self_refine
from refine import SelfRefine
from refine.middleware import SelfRefineMiddleware

def fine(loose: dict[str, Any], settings: PolicySettings) -> None:
    Policy(success_rating=4, max_attempts=2, max_cost=1, on_exhausted="raise")
    Policy(overrides={2: {"temperature": 0.8}}, certificate="certificate.json")
    Policy(overrides={1: [Override(temperature=0.2), Override(model="openai:gpt-5")]}, candidates=2)
    SelfRefine("openai:m", "helpfulness", prices={"m": {"input": 1, "output": 2}}, skip=lambda answer: True)
    self_refine("openai:m", ["length"], augment="all_drafts", patience=None)
    SelfRefineMiddleware("length", shadow=True)
    SelfRefine("openai:m", "helpfulness", **settings)
    SelfRefine("openai:m", "helpfulness", **loose)

def wrong() -> None:
    SelfRefine("openai:m", "helpfulness", max_atempts=2)  # no such name
    SelfRefine("openai:m", "helpfulness", max_attempts="two")  # wrong type
    self_refine("openai:m", "helpfulness", success_rating=5)  # out of range
    self_refine("openai:m", "helpfulness", threshold=3)  # no such name
    Policy(on_exhausted="give up")  # wrong word
    Policy(shadow="yes")  # wrong type
    Policy(max_iterations=3)  # no such name
    Override(temperatur=0.8)  # no such name
    Override(temperature="hot")  # wrong type
    SelfRefineMiddleware("helpfulness", shadow="yes")  # wrong type
    SelfRefineMiddleware("helpfulness", checkpointer=None)  # no such name
"""
ERRORS = {
    "no such name": "call-arg",
    "wrong type": "arg-type",
    "wrong word": "arg-type",
    "out of range": "arg-type",
}


def plain(hint: Any) -> Any:
    """Return a type without what pydantic checks besides."""
    return plain(get_args(hint)[0]) if typing.get_origin(hint) is typing.Annotated else hint


def test_the_settings_are_those_of_the_policy() -> None:
    """Each field is a setting of the same name and type, or of a wider one where the policy converts it."""
    settings, fields = get_type_hints(PolicySettings), get_type_hints(Policy)
    names = set(Policy.model_fields)
    assert set(settings) == names
    assert not PolicySettings.__required_keys__
    assert {name: settings[name] for name in names - WIDER} == {
        name: plain(fields[name]) for name in names - WIDER
    }
    assert set(get_type_hints(OverrideSettings)) == set(Override.model_fields)
    prices = get_type_hints(PriceSettings)
    assert prices == {name: field.annotation for name, field in Price.model_fields.items()}
    assert {
        name for name, field in Price.model_fields.items() if field.is_required()
    } == PriceSettings.__required_keys__


def test_the_doors_take_these_settings() -> None:
    """All of them by the one type; none of its names is an argument of its own."""
    for door in (SelfRefine.__init__, self_refine, SelfRefineMiddleware.__init__, Policy.__init__):
        parameters = inspect.signature(door).parameters
        rest = next(one for one in parameters.values() if one.kind is one.VAR_KEYWORD)
        assert rest.annotation == "Unpack[PolicySettings]", door
        assert not PolicySettings.__annotations__.keys() & parameters.keys()


def test_a_type_checker_sees_each_wrong_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else: a wrong name and a wrong type at every door, and no fault in what is right."""
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET)
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    monkeypatch.chdir(ROOT)
    options = ["--strict", "--follow-imports=skip", "--explicit-package-bases", "--no-incremental"]
    reported, trouble, _ = api.run([*options, "--hide-error-context", str(snippet), *CHECKED])
    assert not trouble
    lines = [line for line in reported.splitlines() if line.startswith(str(snippet)) and ": error: " in line]
    found = {(int(line.split(":")[1]), re.findall(r"\[([\w-]+)\]$", line)[0]) for line in lines}
    assert found == set(expected_errors())
    assert "did you mean" in next(line for line in lines if "max_atempts" in line)


def expected_errors() -> Iterator[tuple[int, str]]:
    """Yield line and code of each error that the snippet announces."""
    for number, line in enumerate(SNIPPET.splitlines(), start=1):
        _, announced, comment = line.partition("  # ")
        if announced:
            yield number, ERRORS[comment]


def test_a_wrong_setting_is_one_line_at_run_time_too() -> None:
    """Without a type checker the same is reported."""
    model, judge = ScriptedModel(["x"]), ScriptedJudge([4])
    settings: Any = {"max_atempts": 2}
    for door in (lambda: SelfRefine(model, judge, **settings), lambda: self_refine(model, judge, **settings)):
        with pytest.raises(ConfigurationError, match=r"there is no policy setting 'max_atempts'.*; did you mean"):
            door()
    with pytest.raises(ConfigurationError, match="there is no override setting 'temperatur'"):
        Override(temperatur=0.8)  # type: ignore[call-arg]


def test_settings_are_a_type_that_pydantic_reads() -> None:
    """An application may have them in settings of its own."""
    read: Mapping[str, Any] = TypeAdapter(PolicySettings).validate_python({"max_attempts": 2, "shadow": True})
    assert Policy(**read) == Policy(max_attempts=2, shadow=True)
