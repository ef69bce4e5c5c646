"""Several criteria in one call: dimensions with levels and weights, and checklists that are written once."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, Unpack

from pydantic import BaseModel, BeforeValidator, Field, JsonValue, TypeAdapter, ValidationError

from judges.catalogue.general.verifiable import VerifiableInstructions
from judges.catalogue.metric import ModelJudge, ModelSettings
from judges.catalogue.parts.claims import (
    in_order,
    listed_feedback,
    non_blank,
    numbered_items,
    one_each,
    reasons,
    share,
)
from judges.catalogue.parts.fields import answer_in, evidence
from judges.catalogue.parts.questions import checked_text
from judges.errors import CannotJudge, ConfigurationError, first_fault, one_line, unfit
from judges.prompting.prompts import Question, ReplySchema
from judges.requests import Deliberation
from judges.runtime.faults import write_whole
from judges.runtime.validation import SharedByCopies
from judges.sample import Sample
from judges.verdict import Verdict, strict_integer

_LONGEST = 600
_MOST_LISTS = 10_000
"""Lists that are kept in memory where no file holds them; the oldest goes first."""


class _Dimension(BaseModel, extra="forbid", frozen=True):
    """One criterion, its levels and its weight."""

    criteria: Annotated[str, Field(min_length=1)]
    levels: Annotated[dict[int, Annotated[str, Field(min_length=1)]], Field(min_length=2)]
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    def place(self, level: int) -> float:
        """Return where a level lies between the worst, 0, and the best, 1."""
        lowest, highest = min(self.levels), max(self.levels)
        return (level - lowest) / (highest - lowest)


_DIMENSIONS = TypeAdapter(dict[Annotated[str, Field(min_length=1)], _Dimension])


class Dimension(ReplySchema):
    """The level that an answer reaches in one dimension."""

    number: int = Field(description="whole number of the dimension")
    rationale: str = Field(description="text: your reasons, before you rate")
    rating: Annotated[int, BeforeValidator(strict_integer)] = Field(
        description="whole number: one of the levels of this dimension"
    )
    change: str = Field(description="text: what to change for the next level; empty at the highest")


class _Dimensions(ReplySchema):
    """The levels that an answer reaches."""

    items: list[Dimension] = Field(description="list of objects, exactly one for each number, in their order")


_RATE: Question[_Dimensions] = Question(prompt="dimensions", reply=_Dimensions)


class DimensionsJudge(ModelJudge, entry="dimensions", pack="dimensions"):
    """Rate an answer in several dimensions of your own at once, each with described levels and a weight.

    One call, with the reasons before each rating. Score = weighted mean of the places of the levels, from 0 for
    the lowest to 1 for the highest. The feedback is about the dimension that costs the score most.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    pass_mark = 2 / 3

    def __init__(
        self,
        model: object = None,
        *,
        dimensions: Mapping[str, Mapping[str, Any]],
        **settings: Unpack[ModelSettings],
    ) -> None:
        self._dimensions = _checked(dimensions)
        super().__init__(model, questions=(_RATE,), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask once for all dimensions."""
        answer_in(sample)
        described: list[JsonValue] = [
            {"number": number, "dimension": name, "criteria": one.criteria, "levels": _spelt(one.levels)}
            for number, (name, one) in enumerate(self._dimensions.items(), 1)
        ]
        data = {"dimensions": described, **evidence(sample)}
        reply = yield from self.ask(_RATE, sample, data, check=self._fault)
        return self._conclude(sample, in_order(reply.items))

    def _fault(self, reply: _Dimensions) -> str | None:
        fault = one_each(len(self._dimensions))(reply)
        if fault is not None:
            return fault
        for dimension, (name, one) in zip(in_order(reply.items), self._dimensions.items(), strict=True):
            if dimension.rating not in one.levels:
                levels = ", ".join(map(str, sorted(one.levels)))
                rating, number = dimension.rating, dimension.number
                return f"items: {rating} is no level of dimension {number} ({name}); they are {levels}"
        return None

    def _conclude(self, sample: Sample, dimensions: Sequence[Dimension]) -> Verdict:
        rated = list(zip(dimensions, self._dimensions.items(), strict=True))
        items = tuple(
            Verdict.scored(
                one.place(reply.rating),
                threshold=2 / 3,
                value=reply.rating,
                subject=name,
                rationale=reply.rationale,
                feedback=reply.change if reply.rating < max(one.levels) else "",
            )
            for reply, (name, one) in rated
        )
        lost = [one.weight * (1 - one.place(reply.rating)) for reply, (_, one) in rated]
        score = 1 - sum(lost) / sum(one.weight for one in self._dimensions.values())
        weakest = items[max(range(len(items)), key=lost.__getitem__)]
        advice = weakest.feedback or weakest.rationale or ""
        feedback = self.say("weakest", sample, dimension=weakest.subject, change=advice) if max(lost) > 0 else ""
        return self.verdict(score, items=items, rationale=reasons(items), feedback=feedback)


def _checked(dimensions: object) -> dict[str, _Dimension]:
    try:
        read = _DIMENSIONS.validate_python(dimensions)
    except ValidationError as error:
        place, fault = first_fault(error)
        raise ConfigurationError(
            f"dimensions, at {place or 'the top'}: {one_line(fault)}; write "
            f'{{"tone": {{"criteria": "How kind is it?", "levels": {{1: "rude", 2: "kind"}}}}}}'
        ) from error
    if not read:
        raise ConfigurationError("dimensions names at least one, with its criteria and its levels")
    return read


def _spelt(levels: Mapping[int, str]) -> dict[str, JsonValue]:
    return {str(level): levels[level] for level in sorted(levels)}


_Countable = Literal["none", "words", "sentences", "bullets", "paragraphs"]


class _WrittenItem(ReplySchema):
    """One item of a checklist, as a model writes it."""

    ask: str = Field(description="text: one question that yes or no answers; yes is good")
    counts: _Countable = Field(
        description="what the item counts: one of none, words, sentences, bullets, paragraphs; mostly none"
    )
    at_least: int = Field(ge=0, description="whole number: the fewest; 0 if there is no such bound")
    at_most: int = Field(ge=0, description="whole number: the most; 0 if there is no such bound")


class _WrittenItems(ReplySchema):
    """A checklist, as a model writes it."""

    items: list[_WrittenItem] = Field(description="list of objects: the items, from 1 to 12")


class _CheckedItem(ReplySchema):
    """Whether an answer meets one item."""

    number: int = Field(description="whole number of the item")
    reason: str = Field(description="text: why, before the verdict")
    verdict: Literal["yes", "no", "not_applicable"] = Field(description="one of yes, no, not_applicable")
    change: str = Field(description="text: what to change in the answer; empty unless the verdict is no")


class _CheckedItems(ReplySchema):
    """Whether an answer meets each item."""

    items: list[_CheckedItem] = Field(description="list of objects, exactly one for each number, in their order")


_WRITE: Question[_WrittenItems] = Question(prompt="checklist_write", reply=_WrittenItems)
_ANSWER: Question[_CheckedItems] = Question(prompt="checklist", reply=_CheckedItems)
_Source = Literal["request", "system"]


class _Item(BaseModel, extra="forbid", frozen=True):
    """One item of a checklist: a question, and, where a program can decide it, the instruction to check."""

    ask: Annotated[str, Field(min_length=1)]
    check: dict[str, Any] | None = None


_ITEMS: TypeAdapter[tuple[_Item, ...]] = TypeAdapter(Annotated[tuple[_Item, ...], Field(min_length=1)])


class _Lists(SharedByCopies):
    """The checklists of a judge, by the digest of what they are about: in memory, and in a file that people edit.

    A list that is there is never replaced, so that all attempts, and all judges of one file, meet the same items.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._known: dict[str, tuple[_Item, ...]] = {}
        if file is not None and file.exists():
            self._read(file)

    def _read(self, file: Path) -> None:
        try:
            lists = json.loads(file.read_text(encoding="utf-8"))
            for digest, one in lists.items():
                self._known[digest] = _ITEMS.validate_python(one["items"])
                _try_checks(self._known[digest])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigurationError(
                f"{file} is no file of checklists: {one_line(error)}; mend it, or name a new one"
            ) from None

    def get(self, digest: str) -> tuple[_Item, ...] | None:
        """Return a list, if it is known."""
        return self._known.get(digest)

    def keep(self, digest: str, about: str, items: tuple[_Item, ...]) -> tuple[_Item, ...]:
        """Keep a list unless there is one by now, and return the one that counts."""
        if self._file is not None and self._file.exists():
            self._read(self._file)
        listed_items = self._known.setdefault(digest, items)
        if self._file is None and len(self._known) > _MOST_LISTS:
            self._known.pop(next(iter(self._known)), None)
        if self._file is not None and listed_items is items:
            self._write(self._file, digest, about)
        return listed_items

    def _write(self, file: Path, digest: str, about: str) -> None:
        lists: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        dumped = [item.model_dump(exclude_none=True) for item in self._known[digest]]
        lists[digest] = {"about": about, "items": dumped}
        text = json.dumps(lists, ensure_ascii=False, indent=2)
        write_whole(file, f"{text}\n")


class Checklist(ModelJudge, entry="checklist", pack="checklist"):
    """Judge an answer by yes/no items, which are given, or written once for a criterion, system prompt or request.

    What is about one text is written in one call and kept by its digest, so that all attempts and all systems meet
    the same items; with `file` they outlive the process, and people can edit them. Items that count something are
    decided by code, all others answered in one call. Score = yes / (yes + no); items that do not apply are listed
    and do not count. It passes at `threshold`, 1 unless given.

    Raises:
        ConfigurationError: If a setting is out of its range, or the file cannot be read.
    """

    pass_mark = 1.0

    def __init__(
        self,
        model: object = None,
        *,
        items: Sequence[str | Mapping[str, Any]] | None = None,
        criteria: str | None = None,
        about: _Source = "request",
        file: str | Path | None = None,
        **settings: Unpack[ModelSettings],
    ) -> None:
        if items is not None and (criteria is not None or file is not None):
            raise ConfigurationError("items are there already; leave criteria and file out, or items")
        self._items = None if items is None else _read_items(items)
        self._criteria = None if criteria is None else checked_text(criteria, setting="criteria")
        self._about: _Source = about
        self._lists = _Lists(None if file is None else Path(file))
        super().__init__(model, questions=(_ANSWER,) if self._items else (_WRITE, _ANSWER), **settings)
        _try_checks(self._items or ())

    @property
    def calls(self) -> str:
        """One call where the items are given, else two for the first answer of each list."""
        return "1" if self._items else "2"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Write the list if it is not there, check what can be counted, and ask about the rest."""
        answer_in(sample)
        items = self._items or (yield from self._list_for(sample))
        open_items = [item for item in items if item.check is None]
        checked: list[_CheckedItem] = []
        if open_items:
            data: dict[str, JsonValue] = {
                "checklist": numbered_items((item.ask for item in open_items), called="item"),
                **evidence(sample),
            }
            reply = yield from self.ask(_ANSWER, sample, data, check=one_each(len(open_items)))
            checked = in_order(reply.items)
        answers = iter(checked)
        verdicts = tuple(
            _answered(item, next(answers)) if item.check is None else self._counted(item, sample) for item in items
        )
        return self._conclude(sample, verdicts)

    def _list_for(self, sample: Sample) -> Generator[Any, Any, tuple[_Item, ...]]:
        text = self._criteria or _text_about(sample, self._about)
        digest = sha256(f"{self.language_for(sample)}\n{text}".encode()).hexdigest()[:16]
        listed_items = self._lists.get(digest)
        if listed_items is not None:
            return listed_items
        reply = yield from self.ask(_WRITE, sample, {"about": text}, check=_fault_of_list)
        return self._lists.keep(digest, text, tuple(map(_item_of, reply.items)))

    def _counted(self, item: _Item, sample: Sample) -> Verdict:
        judge = VerifiableInstructions(instructions=[item.check or {}], language=self.language_for(sample))
        (counted,) = judge.compute(sample).items
        return counted.model_copy(
            update={"subject": item.ask, "rationale": counted.feedback or self.say("counted", sample)}
        )

    def _conclude(self, sample: Sample, verdicts: tuple[Verdict, ...]) -> Verdict:
        relevant = [verdict for verdict in verdicts if verdict.value != "not_applicable"]
        if not relevant:
            return Verdict.without_score("no_guidelines", "no item applies to this answer", items=verdicts)
        failed = [f"{one.subject} - {one.feedback or one.rationale}" for one in relevant if not one.passed]
        advice = listed_feedback(self, sample, {"failed": failed}, "items", longest=_LONGEST)
        return self.verdict(share(relevant), items=verdicts, rationale=reasons(relevant), feedback=advice)


def _try_checks(items: Sequence[_Item]) -> None:
    """Check at once that the instructions of all items can be read.

    Raises:
        ConfigurationError: If one cannot.
    """
    for item in items:
        if item.check is not None:
            VerifiableInstructions(instructions=[item.check])


def _answered(item: _Item, checked: _CheckedItem) -> Verdict:
    failed = checked.verdict == "no"
    return Verdict.checked(
        not failed,
        value=checked.verdict,
        subject=item.ask,
        rationale=checked.reason,
        feedback=(checked.change.strip() or checked.reason) if failed else "",
    )


def _text_about(sample: Sample, about: _Source) -> str:
    """Return the text that a list is written for.

    Raises:
        CannotJudge: If the sample has none.
    """
    if about == "request":
        texts = [sample.question] if sample.question.strip() else []
    else:
        texts = [message.content for message in sample.conversation if message.role == "system"]
    if not (written := non_blank(texts)):
        code: Any = "no_question" if about == "request" else "no_guidelines"
        raise CannotJudge(code, f"there is no {about} to write a checklist for; or set items=... or criteria=...")
    return "\n\n".join(written)


def _fault_of_list(reply: _WrittenItems) -> str | None:
    if not reply.items or not all(item.ask.strip() for item in reply.items):
        return "items: a checklist has at least one item, none blank"
    for item in reply.items:
        if item.counts != "none" and (not (item.at_least or item.at_most) or 0 < item.at_most < item.at_least):
            return f"items: what counts {item.counts} has at_least, at_most or both, the one not above the other"
    return None


def _item_of(written: _WrittenItem) -> _Item:
    if written.counts == "none":
        return _Item(ask=written.ask)
    bounds = {name: value for name in ("at_least", "at_most") if (value := getattr(written, name))}
    return _Item(ask=written.ask, check={"kind": written.counts, **bounds})


def _read_items(items: Any) -> tuple[_Item, ...]:
    listed = [items] if isinstance(items, str) else list(items) if isinstance(items, Sequence) else [items]
    try:
        return _ITEMS.validate_python([{"ask": item} if isinstance(item, str) else item for item in listed])
    except ValidationError:
        raise unfit('items is a list of questions, or of {"ask": ..., "check": ...}, none blank', items) from None
