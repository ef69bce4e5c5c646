"""`draft`: dimensions for a judge of one's own, written by a model, and kept where they tell answers apart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from math import sqrt
from typing import Any

from pydantic import Field, JsonValue

from judges.catalogue.general.several_criteria import DimensionsJudge
from judges.catalogue.linting import lint_judge
from judges.catalogue.names import JudgeSpec
from judges.errors import AskFailed, ConfigurationError
from judges.model import JudgeModel
from judges.models import structured
from judges.models.prompt_and_reply import render_example
from judges.models.resolve import as_model
from judges.offline.run.evaluate import evaluate
from judges.offline.statistics.judge_agreement import rank_metrics
from judges.offline.trust.rows import JudgedAnswer, majority
from judges.prompting.prompts import ReplySchema, language_of, prompts_of
from judges.requests import Ask
from judges.runtime.budget import Allowance
from judges.runtime.observation import current, within
from judges.sample import cut_text
from judges.verdict import Usage

_MOST_SHOWN = 8
"""Answers that the model is shown, half of them good ones where people said which are."""

_LONGEST_SHOWN = 1_500
_LONGEST_NAME = 40
_FEWEST_OF_A_KIND = 3
"""Good and bad answers that there must be before agreement says anything."""

_FEWEST_TOLD_APART = 2
"""Rated answers below which nothing is told apart."""

_UNLIKELY = 1.28
"""Standard errors above chance from which a dimension agrees with people: one in ten would by chance."""

_SAME = 0.95
"""Share of answers that two dimensions place alike from which one of them says nothing new."""


_LEVEL_COUNTS = range(2, 6)
_WEIGHTS = range(1, 4)


class _DraftedDimension(ReplySchema):
    """A dimension, as a model writes it; without bounds, so that a bad one does not refuse the good ones."""

    name: str = Field(description="text: one or two words")
    criteria: str = Field(description="text: one question about one thing")
    levels: list[str] = Field(description="list of texts: the levels, from 2 to 5, the worst first")
    weight: float = Field(allow_inf_nan=False, description="whole number: 1, 2 or 3")


class _DraftedDimensions(ReplySchema):
    """Dimensions, as a model writes them."""

    text_limits = None
    dimensions: list[_DraftedDimension] = Field(min_length=1, description="list of objects: the dimensions")


@dataclass(frozen=True, kw_only=True)
class _Drafted:
    """A dimension that was written, and what became of it.

    Args:
        name: Its name.
        table: Its criteria, levels and weight, as the judge `dimensions` takes them.
        auc: How likely it places a good answer above a bad one, ties as a half; None where nobody said which is.
        dropped: Why it was dropped; empty where it was kept.
    """

    name: str
    table: Mapping[str, Any]
    auc: float | None = None
    dropped: str = ""

    def __str__(self) -> str:
        if self.dropped:
            return f"dropped  {self.name}: {self.dropped}"
        agrees = "" if self.auc is None else f", puts a good answer above a bad one in {self.auc:.0%}"
        return f"kept     {self.name}: weight {self.table['weight']:g}{agrees}"


@dataclass(frozen=True, kw_only=True)
class _DraftedJudge:
    """What came of drafting; `str()` says it in a few lines.

    Args:
        drafted: Every dimension that was written.
        rated: How many answers the dimensions were tried on.
        labelled: How many of these people had called good or bad.
        usage: What it cost.
        note: What limits what it says; empty where nothing does.
    """

    drafted: tuple[_Drafted, ...]
    rated: int = 0
    labelled: int = 0
    usage: Usage = Usage()
    note: str = ""

    @property
    def kept(self) -> tuple[_Drafted, ...]:
        """The dimensions of the judge."""
        return tuple(one for one in self.drafted if not one.dropped)

    def __str__(self) -> str:
        tried = (
            f"tried on {self.rated} answers, {self.labelled} of them labelled" if self.rated else "tried on none"
        )
        head = f"{len(self.kept)} of {len(self.drafted)} dimensions kept; {tried}; {self.usage.calls} calls"
        return "\n".join([head, *map(str, self.drafted), *([self.note] if self.note else [])])

    def to_toml(self, *, name: str = "drafted", model: str | None = None) -> str:
        """Return the file of judges with the dimensions that were kept, and with comments on the others."""
        lines = [f"# {line}" for line in str(self).splitlines()]
        lines += ["", *([f"model = {_text(model)}", ""] if model else [])]
        lines += [f"[judges.{_text(name)}]", 'use = "dimensions"']
        for one in self.kept:
            levels = ", ".join(f"{level} = {_text(text)}" for level, text in one.table["levels"].items())
            lines += ["", f"[judges.{_text(name)}.dimensions.{_text(one.name)}]"]
            lines += [f"criteria = {_text(one.table['criteria'])}"]
            lines += [f"levels = {{ {levels} }}", f"weight = {one.table['weight']:g}"]
        return "\n".join(lines) + "\n"


def draft(
    model: object,
    about: str,
    answers: Sequence[JudgedAnswer] = (),
    *,
    max_calls: int = 60,
    good: float = 3.0,
    language: str | None = None,
    max_concurrency: int = 8,
) -> _DraftedJudge:
    """Write dimensions for answers of one kind, and keep those that tell the answers apart.

    One call writes them, another one mends what `refine judges lint` finds, and one for each answer rates it in
    all of them. Dropped is what lints, what places all answers alike, what another dimension says already, and
    what does not place answers that people called good above the bad ones. Which are kept is chosen on these
    answers; try them on others before they guard anything.

    Args:
        model: The model that writes and rates.
        about: What the answers are for: a description, a system prompt.
        answers: Recorded answers, with labels where people gave some.
        max_calls: Most model calls altogether; answers that it does not reach are not rated.
        good: Rating from which a labelled answer is good.
        language: Language of the prompts; None takes that of `about`.
        max_concurrency: Answers that are rated at once.

    Raises:
        ConfigurationError: If nothing is said of the answers, or no dimension could be written.
    """
    if not about.strip() and not answers:
        raise ConfigurationError("draft needs a description, a system prompt or recorded answers")
    judge_model, tongue = as_model(model), language or language_of(about)
    allowance = Allowance(calls=max_calls, purpose="the dimensions were written and tried")
    with within(allowance):
        drafted = _written(
            judge_model, {"about": about, "answers": _shown(answers, good)}, tongue, mends=max_calls > 1
        )
        sound = {one.name: dict(one.table) for one in drafted if not one.dropped}
        rows = [row for row in answers if row.sample is not None and (row.sample.answer or "").strip()]
        reached = rows[: max(0, max_calls - allowance.spent.calls)] if sound else []
        ratings: list[_Rated] = []
        if reached:
            judge = DimensionsJudge(judge_model, dimensions=sound, language=tongue)
            samples = [row.sample for row in reached if row.sample is not None]
            results = evaluate(samples, judge, max_concurrency=max_concurrency).rows
            verdicts = [next(iter(result.verdicts.values())) for result in results]
            ratings = [
                _Rated({item.subject: item.score or 0.0 for item in verdict.items}, majority(row.opinions, good))
                for row, verdict in zip(reached, verdicts, strict=True)
                if verdict.score is not None
            ]
    chosen = _chosen(drafted, ratings)
    labelled = sum(one.is_good is not None for one in ratings)
    note = "; ".join(_notes(rows, ratings))
    return _DraftedJudge(drafted=chosen, rated=len(ratings), labelled=labelled, usage=allowance.spent, note=note)


@dataclass(frozen=True)
class _Rated:
    """An answer: where each dimension places it, from 0 to 1, and whether people call it good."""

    places: Mapping[str, float]
    is_good: bool | None


def _written(model: JudgeModel, data: dict[str, JsonValue], language: str, *, mends: bool) -> list[_Drafted]:
    """Return the dimensions that a model writes, and, if it may, mends once where they lint."""
    text = prompts_of("draft").get(language) or prompts_of("draft")["en"]
    examples = (render_example(one.data, _DraftedDimensions.model_validate(one.reply)) for one in text.examples)
    question = Ask(
        model=model,
        task=text.task,
        data=data,
        reminder=text.reminder,
        schema=_DraftedDimensions,
        examples=tuple(examples),
    )
    drafted = _linted(_answer(question))
    faults: list[JsonValue] = [f"{one.name}: {one.dropped}" for one in drafted if one.dropped]
    if faults and mends:
        written: list[JsonValue] = [
            {"name": one.name, **one.table, "levels": list(one.table["levels"].values())} for one in drafted
        ]
        drafted = _linted(_answer(replace(question, data={**data, "written": written, "faults": faults})))
    return drafted


def _answer(question: Ask) -> _DraftedDimensions:
    try:
        reply: _DraftedDimensions = structured.complete(question, current.get()).value
    except AskFailed as error:
        raise ConfigurationError(f"no dimensions were written: {error.detail}; try another model") from error
    return reply


def _linted(reply: _DraftedDimensions) -> list[_Drafted]:
    """Return the dimensions that were written, those dropped that `refine judges lint` finds something in."""
    drafted: list[_Drafted] = []
    for item in reply.dimensions:
        name = " ".join(item.name.split()).casefold()[:_LONGEST_NAME] or "unnamed"
        levels = {number: " ".join(text.split()) for number, text in enumerate(item.levels, 1)}
        table = {"criteria": " ".join(item.criteria.split()), "levels": levels, "weight": item.weight}
        fault = "another one has its name" if any(one.name == name and not one.dropped for one in drafted) else ""
        drafted.append(_Drafted(name=name, table=table, dropped=fault or _fault_of(name, table)))
    return drafted


def _fault_of(name: str, table: Mapping[str, Any]) -> str:
    if len(table["levels"]) not in _LEVEL_COUNTS:
        return f"levels written: {len(table['levels'])} (write from 2 to 5)"
    if table["weight"] not in _WEIGHTS:
        return f"its weight is {table['weight']:g} (write 1, 2 or 3)"
    spec = JudgeSpec(name="dimensions", settings={"dimensions": {name: table}})
    return "; ".join(f"{one.fault} ({one.remedy})" for one in lint_judge("draft", spec))


def _shown(answers: Sequence[JudgedAnswer], good: float) -> list[JsonValue]:
    """Return some answers as the model is shown them: good, bad and unlabelled ones in turn."""
    kinds: dict[bool | None, list[JsonValue]] = {True: [], False: [], None: []}
    for row in answers:
        if row.sample is not None and row.sample.answer:
            is_good = majority(row.opinions, good)
            human_opinion: dict[str, JsonValue] = (
                {} if is_good is None else {"people_say": "good" if is_good else "bad"}
            )
            texts = {"question": row.sample.question, "answer": row.sample.answer}
            kinds[is_good].append(
                {**{name: cut_text(text, _LONGEST_SHOWN) for name, text in texts.items()}, **human_opinion}
            )
    in_turn = (one for several in zip_longest(*kinds.values()) for one in several if one is not None)
    return list(islice(in_turn, _MOST_SHOWN))


def _chosen(drafted: Sequence[_Drafted], ratings: Sequence[_Rated]) -> tuple[_Drafted, ...]:
    """Return the dimensions, those dropped that do not tell answers apart as people do."""
    chosen: list[_Drafted] = []
    for one in drafted:
        if one.dropped or len(ratings) < _FEWEST_TOLD_APART:
            chosen.append(one)
            continue
        places = [rated.places.get(one.name, 0.0) for rated in ratings]
        auc, fault = _agreement(places, ratings)
        same = (other for other in chosen if not other.dropped and _is_same(one.name, other.name, ratings))
        if len(set(places)) == 1:
            fault = f"it places all {len(places)} answers alike"
        elif not fault and (other := next(same, None)) is not None:
            fault = f"it says what {other.name!r} says"
        chosen.append(replace(one, auc=auc, dropped=fault))
    return tuple(chosen)


def _agreement(places: Sequence[float], ratings: Sequence[_Rated]) -> tuple[float | None, str]:
    """Return how well a dimension separates good from bad, and why that is too little; nothing without labels."""
    pairs = [(one.is_good, place) for one, place in zip(ratings, places, strict=True) if one.is_good is not None]
    goods = sum(is_good for is_good, _ in pairs)
    bads = len(pairs) - goods
    auc = rank_metrics([is_good for is_good, _ in pairs], [place for _, place in pairs]).auc
    if auc is None or min(goods, bads) < _FEWEST_OF_A_KIND:
        return None, ""
    beyond_chance = (auc - 0.5) / sqrt((goods + bads + 1) / (12 * goods * bads))
    if beyond_chance >= _UNLIKELY:
        return auc, ""
    auc_sentence = f"it puts a good answer above a bad one in {auc:.0%}, of {goods} good and {bads} bad"
    return auc, f"{auc_sentence}: " + (
        "people say the opposite" if beyond_chance <= -_UNLIKELY else "that may be chance"
    )


def _is_same(one: str, other: str, ratings: Sequence[_Rated]) -> bool:
    alike = sum(rated.places.get(one) == rated.places.get(other) for rated in ratings)
    return alike >= _SAME * len(ratings)


def _notes(rows: Sequence[JudgedAnswer], ratings: Sequence[_Rated]) -> Iterator[str]:
    if len(rows) > len(ratings):
        yield f"{len(rows) - len(ratings)} of {len(rows)} answers were not rated, for want of calls or of a reply"
    if len(ratings) < _FEWEST_TOLD_APART:
        yield f"answers rated: {len(ratings)}, so that nothing says whether the dimensions tell any apart"
        return
    kinds = [one.is_good for one in ratings]
    if min(kinds.count(True), kinds.count(False)) < _FEWEST_OF_A_KIND:
        yield "too few labels of both kinds: kept is what tells the answers apart, whether people agree or not"
    yield "chosen on these answers: try the judge on others before it guards anything"


def _text(text: str) -> str:
    return json.dumps(text.replace("\x7f", ""), ensure_ascii=False)
