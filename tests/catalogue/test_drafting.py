"""`refine draft`: dimensions are written, linted, and kept where they tell a user's answers apart."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from typer.testing import CliRunner

from judges import ConfigurationError, load_file
from judges.catalogue.linting import lint
from judges.offline.drafting import draft
from judges.offline.trust.rows import read_judged
from judges.testing import ScriptedModel
from refine.cli.app import app
from tests.model_server import Asked, Reply, serving

LEVELS = ["Leaves it open.", "Says it."]
PRICE = {"name": "Price", "criteria": "Does it name the price?", "levels": LEVELS, "weight": 3}
SHOUT = {"name": "shouting", "criteria": "Does it use capitals?", "levels": ["Shouts.", "Speaks."], "weight": 1}
ALIKE = {"name": "greeting", "criteria": "Does it greet?", "levels": LEVELS, "weight": 1}
LEVELLESS = {"name": "warmth", "criteria": "Does it comfort?", "levels": ["Comforts."], "weight": 1}
HEAVY = {"name": "order", "criteria": "Does it name the order?", "levels": LEVELS, "weight": 0.5}
AGAIN = {"name": "cost", "criteria": "Is the cost in it?", "levels": LEVELS, "weight": 1}
FAULTY = {"name": "manners", "criteria": "Is it polite and correct?", "levels": ["bad", "good"], "weight": 1}
WRITTEN = {"dimensions": [PRICE, SHOUT, ALIKE, AGAIN, FAULTY, LEVELLESS, HEAVY]}
ROWS = [
    {
        "question": "How much is it?",
        "answer": ("It costs nine euros" if number % 2 else "It depends")
        + (f"!! {number}" if number % 3 else "."),
        "label": "good" if number % 2 else "bad",
    }
    for number in range(20)
]


def place(name: str, answer: str) -> int:
    """Rate as a model would that sees what is there."""
    return 1 + {"shouting": "!!" in answer, "greeting": False, "manners": True}.get(
        name, "nine euros" in answer.casefold()
    )


def reply(text: str) -> dict[str, Any]:
    """Write dimensions, or rate an answer in those that are asked for."""
    data = json.loads(re.findall(r"<<<([0-9a-f]{32})\n(.*)\n\1>>>", text, re.DOTALL)[-1][1])
    if "about" in data:
        return WRITTEN
    rated = [(one["number"], place(one["dimension"], data["answer"])) for one in data["dimensions"]]
    return {"items": [{"number": no, "rationale": "r", "rating": level, "change": "c"} for no, level in rated]}


def scripted() -> ScriptedModel:
    """Make the model."""

    def answer(messages: list[BaseMessage]) -> dict[str, Any]:
        return reply(messages[-1].text)

    return ScriptedModel(answer)


def test_only_what_tells_the_answers_apart_is_kept() -> None:
    """What lints or is out of bounds is asked for once more; noise and doubles go, each with its reason."""
    model = scripted()
    made = draft(model, "A shop.", read_judged(ROWS))
    assert [one.name for one in made.kept] == ["price"]
    assert made.kept[0].auc == 1.0
    why = {one.name: one.dropped for one in made.drafted}
    assert "that may be chance" in why["shouting"]
    assert "places all 20 answers alike" in why["greeting"]
    assert "says what 'price' says" in why["cost"]
    assert "two criteria in one" in why["manners"]
    assert "levels written: 1" in why["warmth"]
    assert "its weight is 0.5" in why["order"]
    assert (made.rated, made.labelled, made.usage.calls, len(model.prompts)) == (20, 20, 22, 22)
    assert "polite" in model.prompts[1][-1].text  # the fault is named to the model that mends it


def test_without_labels_what_varies_is_kept() -> None:
    """Agreement is no reason then, and the note says so."""
    rows = [{name: text for name, text in row.items() if name != "label"} for row in ROWS]
    made = draft(scripted(), "A shop.", read_judged(rows))
    assert [one.name for one in made.kept] == ["price", "shouting"]
    assert "too few labels" in made.note


def test_the_budget_is_exact() -> None:
    """Answers beyond it are not rated, and that is said."""
    model = scripted()
    made = draft(model, "A shop.", read_judged(ROWS), max_calls=7)
    assert (made.usage.calls, len(model.prompts), made.rated) == (7, 7, 5)
    assert "15 of 20 answers were not rated" in made.note
    untried = draft(scripted(), "A shop.", read_judged(ROWS), max_calls=1)
    assert "nothing says whether the dimensions tell any apart" in untried.note


def test_what_cannot_be_drafted_is_refused() -> None:
    """Nothing to go by, or a model that writes nothing that can be read."""
    with pytest.raises(ConfigurationError, match="a description, a system prompt or recorded answers"):
        draft(scripted(), "")
    with pytest.raises(ConfigurationError, match="no dimensions were written"):
        draft(ScriptedModel(["no", "no"]), "A shop.")


def test_the_command_writes_a_file_that_lints_clean_and_judges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over real HTTP; it replaces no file, and ends with 1 where nothing is kept."""
    monkeypatch.chdir(tmp_path)
    rows, out = Path("rows.jsonl"), Path("judges.toml")
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    Path("prompt.txt").write_text("You help in a shop.", encoding="utf-8")

    def served(asked: Asked) -> Reply:
        return Reply(text=json.dumps(reply(asked["messages"][-1]["content"])))

    with serving(served) as server:
        command = ["draft", str(rows), "--system", "prompt.txt", "--model", f"openai-compatible:m@{server.url}"]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
        assert "1 of 7 dimensions kept; tried on 20 answers, 20 of them labelled; 22 calls" in result.output
        again = CliRunner().invoke(app, command)
    assert again.exit_code == 2
    assert lint(out) == []
    verdict = load_file(out, model=scripted())["drafted"](question="How much?", answer="It costs nine euros.")
    assert (verdict.score, verdict.items[0].subject) == (1.0, "price")
