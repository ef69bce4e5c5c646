"""Worked cases of the judges: what is judged, what the model replies, and the verdict, in every way of asking.

A file of `cases/` is about one judge. Its `sample` is what each case judges, but for the fields that the case
names, where "<null>" is None, and "<absent>" leaves one out; with `only` it judges these fields and no others. A
reply that has a field named in `fill` has the fields beside it, too, and in a list named in `numbered` each entry
has its number and the texts named there, so that the cases show what matters. The model says its replies in turn,
and makes as many as there are, unless `calls` says otherwise. Of the outcome a row tells the names in `OUTCOME`,
the items by columns or their number alone; what the model was `shown` as data, or `told` and not told in
instructions; the texts `embedded`; and what the judge `explains`.
"""

from __future__ import annotations

import builtins
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

from judges import Judge, Verdict, load
from judges.catalogue.registry import default_registry
from judges.testing import ScriptedEmbeddings, ScriptedModel
from tests.kit import Door, Shown, ask, asked, replying
from tests.laws import BREACHES, Broken

Fields = Mapping[str, Any]

NULL, ABSENT = "<null>", "<absent>"
MARKS = ("unscored", "score", "value", "passed", "rating", "calls")
OUTCOME = (*MARKS, "items", "detail", "rationale", "feedback", "raw")
TRANSLATIONS = ("zh", "ru")


class Made(NamedTuple):
    """A judge with what it asks."""

    judge: Judge
    model: ScriptedModel
    embeddings: ScriptedEmbeddings


@dataclass(frozen=True)
class Case:
    """Rows of one kind about one judge.

    Args:
        judge: Name of the judge.
        it: What the judge does in these rows.
        file: What the rows of the file share.
        rows: Input and outcome of each.
    """

    judge: str
    it: str
    file: Fields
    rows: Sequence[Fields]

    def __str__(self) -> str:
        return f"{self.judge}: {self.it}"

    @property
    def speaks(self) -> bool:
        """Whether a model is instructed, in a language that the case does not choose."""
        return bool(self.file.get("model", True)) and "language" not in self.rows[0].get("settings", {})

    def made(self, row: Fields, variant: str, **more: Any) -> Made:
        """Make the judge of a row, with a model that replies as the row says, again and again."""
        model = speaker([(one.get("to"), self._reply(one)) for one in row.get("replies", ())])
        embeddings = ScriptedEmbeddings(decoded({**self.file.get("vectors", {}), **row.get("vectors", {})}))
        settings: dict[str, Any] = {**decoded(row.get("settings", {})), **more}
        if "vectors" in row:
            settings["embeddings"] = embeddings
        if variant:
            settings["variant"] = variant
        if self.file.get("model", True):
            settings["model"] = model
        return Made(load(self.judge, **settings), model, embeddings)

    def sample(self, row: Fields) -> dict[str, Any]:
        """Return what a row judges."""
        own: dict[str, Any] = row.get("only", {**self.file.get("sample", {}), **row.get("sample", {})})
        return {name: decoded(value) for name, value in own.items() if value != ABSENT}

    def _reply(self, reply: Fields) -> Any:
        if "raises" in reply:
            return decoded(reply)
        filled = {name: self._numbered(name, decoded(value)) for name, value in reply.items() if name != "to"}
        for field, others in self.file.get("fill", {}).items():
            if field in filled:
                filled = {**others, **filled}
        return filled

    def _numbered(self, name: str, value: Any) -> Any:
        texts = self.file.get("numbered", {}).get(name)
        if texts is None or not isinstance(value, list):
            return value
        return [
            {
                "number": number,
                **{key: text.format(n=number) if isinstance(text, str) else text for key, text in texts.items()},
                **(one if isinstance(one, dict) else {"verdict": one}),
            }
            for number, one in enumerate(value, 1)
        ]


def speaker(replies: Sequence[tuple[Any, Any]]) -> ScriptedModel:
    """Make a model that says these replies in turn, or each to the data that it is for."""
    if all(to is None for to, _ in replies):
        return ScriptedModel([reply for _, reply in replies], cycle=True)
    return replying(lambda data: next(reply for to, reply in replies if is_for(to, data)))


def is_for(to: Any, data: Shown) -> bool:
    """Tell whether data has a field or a text, or its fields in this order, or these fields with these values."""
    if isinstance(to, dict):
        return all(name in data and data[name] == value for name, value in to.items())
    return list(data) == to if isinstance(to, list) else to in (*data, *data.values())


def decoded(value: Any) -> Any:
    """Return a value with None where TOML, which has none, says so."""
    if isinstance(value, dict):
        if "raises" in value:
            return getattr(builtins, value["raises"])(value["text"])
        if "gives" in value or "returns" in value:
            return classifier(**value)
        return {name: decoded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [decoded(one) for one in value]
    return None if value == NULL else value


def classifier(gives: Sequence[float] = (), returns: Any = None) -> Callable[[Sequence[tuple[str, str]]], Any]:
    """Make a classifier that gives each statement its probability, in their order, or returns one thing."""

    def classify(pairs: Sequence[tuple[str, str]]) -> Any:
        statements = list(dict.fromkeys(statement for _, statement in pairs))
        return [gives[statements.index(statement)] for _, statement in pairs] if gives else decoded(returns)

    return classify


def cases() -> list[Case]:
    """Read the cases of all files."""
    read = []
    for path in sorted((Path(__file__).parent / "cases").glob("*.toml")):
        file = tomllib.loads(path.read_text(encoding="utf-8"))
        for test in file["test"]:
            common = {name: value for name, value in test.items() if name not in ("it", "says", "rows")}
            rows = [{**common, **row} for row in test.get("rows", [{}])]
            read.append(Case(path.stem, test["it"], file, rows))
    return read


CASES = cases()
BY_JUDGE = {judge: list(own) for judge, own in groupby(CASES, key=lambda case: case.judge)}
each_judge = pytest.mark.parametrize("judge", BY_JUDGE)


def same(expected: Any, actual: Any) -> bool:
    """Tell whether a value is the expected one: numbers but for rounding, true and 1 apart."""
    if isinstance(expected, float) and isinstance(actual, int | float):
        return actual == pytest.approx(expected, rel=1e-12, abs=1e-12) and not isinstance(actual, bool)
    if isinstance(expected, list) and isinstance(actual, list | tuple):
        return len(expected) == len(actual) and all(map(same, expected, actual))
    if isinstance(expected, dict) and isinstance(actual, dict):
        return list(expected) == list(actual) and all(same(expected[key], actual[key]) for key in expected)
    return bool(expected == actual) and isinstance(expected, bool) == isinstance(actual, bool)


def outcome(verdict: Verdict, wanted: str, value: Any) -> Any:
    """Return what a verdict has of what is wanted, in the form in which cases have it."""
    match wanted:
        case "calls":
            return verdict.usage.calls
        case "raw":
            return bool(verdict.raw)
        case "items" if isinstance(value, int):
            return len(verdict.items)
        case "items":
            return {name: [getattr(one, name) for one in verdict.items] for name in value}
        case _:
            return getattr(verdict, wanted)


def differences(row: Fields, verdict: Verdict, wanted: Sequence[str] = OUTCOME) -> dict[str, Any]:
    """Return what a verdict has otherwise than its row says, with what it has."""
    expected = {"calls": len(row.get("replies", ())), "unscored": None, **decoded(row)}
    found = {name: outcome(verdict, name, expected[name]) for name in wanted if name in expected}
    if row.get("any_order") and "items" in found:
        found["items"], expected["items"] = sorted_lists(found["items"]), sorted_lists(expected["items"])
    return {name: actual for name, actual in found.items() if not same(expected[name], actual)}


def shown_otherwise(row: Fields, made: Made) -> dict[str, Any]:
    """Return what a model was shown, texts were embedded and a judge explains otherwise than a row says."""
    texts = "\n".join(message.text for messages in made.model.prompts for message in messages)
    found: dict[str, Any] = {text: texts for text in row.get("told", ()) if text not in texts}
    found |= {text: texts for text in row.get("untold", ()) if text in made.model.prompts[0][0].text}
    expected = decoded(row)
    if len(expected.get("shown", ())) == 1:
        expected["shown"] *= len(made.model.prompts)
    batches = made.embeddings.batches
    facts: dict[str, Any] = {"shown": asked(made.model), "embedded": batches}
    if row.get("any_order"):
        facts["embedded"], expected["embedded"] = sorted_lists(batches), sorted_lists(expected.get("embedded"))
    if "explains" in row:
        explained = made.judge.explain()
        facts["explains"] = {name: listed(getattr(explained, name)) for name in row["explains"]}
    return found | {name: fact for name, fact in facts.items() if name in row and not same(expected[name], fact)}


def sorted_lists(value: Any) -> Any:
    """Return columns, or batches, each sorted."""
    if isinstance(value, dict):
        return {name: sorted(column, key=repr) for name, column in value.items()}
    return [sorted(batch) for batch in value] if isinstance(value, list) else value


def listed(value: Any) -> Any:
    """Return the names of a mapping as a list; another value as it is."""
    return sorted(value) if isinstance(value, Mapping) else value


async def breaches(case: Case, row: Fields, way: Door, **more: Any) -> dict[str, Any]:
    """Return what comes out otherwise than a row says, by variant."""
    found = {}
    for variant in row.get("variants", [""]):
        made = case.made(row, variant, **more)
        if "score" in row or "unscored" in row:
            verdict = await ask(made.judge, way, case.sample(row))
            assert len(made.model.prompts) == verdict.usage.calls
            found[variant] = differences(row, verdict, MARKS if more else OUTCOME)
        if not more:
            found[variant] = found.get(variant, {}) | shown_otherwise(row, made)
    return {variant: one for variant, one in found.items() if one}


@each_judge
async def test_a_case_comes_out_as_it_should(judge: str) -> None:
    """The verdict, and what the model was shown before, is what each row says; in company, the first row.

    Where the model is instructed in another language, score, value and calls are those of the first row, too.
    """
    broken = Broken()
    ways: list[tuple[Door, dict[str, str]]] = [(way, {}) for way in get_args(Door)]
    ways += [("sync", {"language": language}) for language in TRANSLATIONS]
    for case, (way, more) in product(BY_JUDGE[judge], ways):
        if more and not case.speaks:
            continue
        rows = case.rows if way in ("sync", "async") and not more else case.rows[:1]
        for number, row in enumerate(rows):
            place = {"it": case.it, "way": way, "row": number, **more}
            try:
                if found := await breaches(case, row, way, **more):
                    broken.note(place, AssertionError(found))
            except BREACHES as error:
                broken.note(place, error)
    broken.tell(len(BY_JUDGE[judge]))


def test_judges_go_by_other_names() -> None:
    """Each name in a file leads to its judge."""
    maker = default_registry().maker
    found = {name: (case.judge, maker(name).entry.name) for case in CASES for name in case.file.get("names", ())}  # type: ignore[attr-defined]  # classes of judges have an entry
    assert found
    assert [pair for pair in found.items() if len(set(pair[1])) > 1] == []
