"""Dimensions are drafted and linted: faults of wording are found before a model is asked."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from typer.testing import CliRunner

import judges
from judges import ConfigurationError, load_file
from judges.catalogue.linting import lint
from judges.offline.drafting import draft
from judges.offline.trust.rows import read_judged
from judges.testing import ScriptedModel
from refine.cli.app import app
from tests.laws import for_every
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


WRITTEN_LEVELS = '{ 1 = "blames the customer", 2 = "facts alone", 3 = "names the trouble before it helps" }'


def rubric(criteria: str = "How kind is it?", levels: str = WRITTEN_LEVELS) -> str:
    """Write a file with a rubric."""
    return f'[judges.mine]\nuse = "rubric"\ncriteria = "{criteria}"\nlevels = {levels}\n'


def faults(tmp_path: Path, text: str) -> list[str]:
    """Lint a text, and return what was found."""
    file = tmp_path / "judges.toml"
    file.write_text(text, encoding="utf-8")
    return [str(finding).removeprefix(f"{file}:") for finding in lint(file)]


@for_every(
    "text, told",
    [
        (
            rubric("Is it polite and correct?"),
            "3: judges.mine.criteria: 'polite' and 'correct' are two criteria in one",
        ),
        (rubric("回答是否礼貌且准确？"), "3: judges.mine.criteria: '礼貌' and '准确' are two criteria"),
        (rubric("Ответ вежливый и точный?"), "3: judges.mine.criteria: 'вежлив' and 'точн' are two criteria"),
        (rubric("Is it helpful, harmless, honest?"), "'helpful' and 'harmless' are two criteria"),
        (rubric("Is it kind? Is it short?"), "it asks two questions"),
        (rubric("Is it short and does it name the price?"), "it asks two questions"),
        (rubric("回答是否礼貌，是否给出价格？"), "it asks two questions"),
        (rubric(levels='{ 1 = "до 3 шагов", 2 = "от 3 до 4 шагов", 3 = "более 4 шагов" }'), "1 and 2 overlap: 3"),
        (rubric("Is the tone appropriate?"), "nobody can say where 'appropriate' begins"),
        (
            rubric("Does it agree with the documents?"),
            "it speaks of 'documents', which the judge need not be shown",
        ),
        (rubric("Is the response time below a second?"), "no judge of texts sees the time: limit it by `latency`"),
        (rubric(levels='{ 1 = "bad", 2 = "names the trouble" }'), "4: judges.mine.levels.1: 'bad' says where"),
        (rubric(levels='{ 1 = "rude", 2 = "kind", 3 = "very kind" }'), "'kind' and 'very kind' overlap"),
        (rubric(levels='{ 1 = "粗鲁", 2 = "有礼貌", 3 = "非常有礼貌" }'), "'有礼貌' and '非常有礼貌' overlap"),
        (
            rubric(levels='{ 1 = "more than 5 typos", 2 = "2 to 6 typos", 3 = "at most 1 typo" }'),
            "2 and 1 overlap: 6",
        ),
        (
            rubric(levels='{ 1 = "more than 9 typos", 2 = "2 to 5 typos", 3 = "at most 1 typo" }'),
            "between 5 and 10",
        ),
        (rubric(levels='{ 1 = "2 to 5 typos", 2 = "at most 1 typo" }'), "it is unbounded: more than 5 typos"),
        (rubric(levels='{ 1 = "at most 9 words", 2 = "8 words or more" }'), "1 and 2 overlap: 8 words"),
        (rubric(levels='{ 1 = "fewer than 2", 2 = "2 to 5", 3 = "5 or more" }'), "2 and 3 overlap: 5 is in both"),
        (
            '[judges.checklist]\nitems = ["Does it name the price and the delivery time?"]\n',
            "items.1: it asks for two things",
        ),
        (rubric("Did the user like the answer?"), "what comes after the answer is not shown"),
        (rubric("Does the bot answer within two seconds?"), "limit it by `latency`"),
        ('[judges.checklist]\nitems = ["Is it kind?", "Is it very kind?"]\n', "items.2: it asks the same as 'Is"),
        (rubric().replace("criteria", "critera"), "unexpected keyword argument 'critera'"),
        ("[judges.length]\nat_moost = 80\n", "did you mean 'at_most'?"),
        ('[judges.checklist]\nitems = ["Is it short?", "Is it kind and clear?"]\n', "items.2: 'kind' and 'clear'"),
        ('task = "Judge."\nreminder = "Judge."\nlevls = { 1 = "no" }\n', "levls: Extra inputs"),
        ('task = "Judge."\nreminder = "Judge."\n[levels]\n1 = "poor"\n2 = "says why"\n', "levels.1: 'poor'"),
    ],
)
def test_a_fault_is_found_with_its_place_and_remedy(tmp_path: Path, text: str, told: str) -> None:
    """One line each, in three languages; nothing else is found beside it."""
    found = faults(tmp_path, text)
    assert len(found) == 1, found
    assert told in found[0]
    assert "; " in found[0]


@for_every(
    "text",
    [
        rubric(),
        rubric("Is it written in a professional tone?"),
        rubric("How many steps can be followed without asking back?"),
        rubric("Does it name the price and the date of delivery?"),
        rubric("Does it stay neutral between parties, whatever is asked?"),
        rubric(levels='{ 1 = "more than 5 typos", 2 = "2 to 5 typos", 3 = "at most 1 typo" }'),
        rubric(levels='{ 1 = "more than 5 typos", 2 = "no more than 5 typos" }'),
        rubric(levels='{ 1 = "no", 2 = "partly", 3 = "yes" }'),
        rubric("Does the price agree with the one that the tool gives?"),
        '[judges.short]\nuse = "length"\nat_most = 80\n[judges."ragas.faithfulness"]\n',
        '[judges.mine]\nuse = "my_module:my_judge"\n',
    ],
)
def test_good_criteria_are_let_be(tmp_path: Path, text: str) -> None:
    """Two things that must both be there are one requirement; code of one's own is not read."""
    assert faults(tmp_path, text) == []


def test_our_own_packs_and_files_lint_clean() -> None:
    """All prompts of the catalogue, in three languages, and the judges files of the demos."""
    root = Path(judges.__file__).parent
    files = [*(root / "packs").glob("*/*.toml"), *root.parent.glob("demos/**/judges*.toml")]
    assert len(files) > 200
    assert {str(file): found for file in files if (found := lint(file))} == {}
    assert tomllib.loads((root / "catalogue" / "linting.toml").read_text(encoding="utf-8"))["unseen"]


def test_the_command_says_so_by_its_exit_code(tmp_path: Path) -> None:
    """Several files at once, as a hook before commits has them; 2 where one cannot be read."""
    good, bad, worse = (tmp_path / name for name in ("good.toml", "bad.toml", "worse.toml"))
    good.write_text(rubric(), encoding="utf-8")
    bad.write_text(rubric("Is it polite and correct?"), encoding="utf-8")
    worse.write_text("not = [toml", encoding="utf-8")
    clean, found, broken = (
        CliRunner().invoke(app, ["judges", "lint", str(good), *map(str, others)])
        for others in ([], [bad], [worse])
    )
    assert (clean.exit_code, found.exit_code, broken.exit_code) == (0, 1, 2)
    assert (clean.stdout, broken.stdout) == ("", "")
    assert found.stdout.count("\n") == 1
    assert found.stdout.startswith(f"{bad}:3: judges.mine.criteria: ")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        lint(tmp_path / "none.toml")
