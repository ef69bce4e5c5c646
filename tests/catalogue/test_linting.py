"""`refine judges lint`: faults of wording are found before a model is asked, and good criteria are let be."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import judges
from judges.catalogue.linting import lint
from judges.errors import ConfigurationError
from refine.cli.app import app
from tests.laws import for_every

LEVELS = '{ 1 = "blames the customer", 2 = "facts alone", 3 = "names the trouble before it helps" }'


def rubric(criteria: str = "How kind is it?", levels: str = LEVELS) -> str:
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
