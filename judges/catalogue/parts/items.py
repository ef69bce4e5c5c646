"""Numbered items: several texts are sent with their numbers, and each number gets its verdict.

Sent as numbers, none can be left out, invented or counted twice without being noticed; a faulty list is asked for
again, and a second one leaves the verdict unscored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import shorten
from typing import Any, Literal, Protocol, Self, TypeVar

from pydantic import Field, JsonValue

from judges.prompting.questions import ReplyCheck, ReplySchema
from judges.verdict import Verdict

_NUMBER = "whole number of the item"
_REASON = "text: why, before the verdict"

Standing = Literal["supported", "contradicted", "absent"]


class YesNo(ReplySchema):
    """A yes or no on one item."""

    number: int = Field(description=_NUMBER)
    reason: str = Field(description=_REASON)
    verdict: bool = Field(description="true or false")


class YesNos(ReplySchema):
    """A yes or no on each item."""

    items: list[YesNo] = Field(description="list of objects, exactly one for each number, in their order")


class Support(ReplySchema):
    """Where one item stands: supported, contradicted or absent."""

    number: int = Field(description=_NUMBER)
    reason: str = Field(description=_REASON)
    verdict: Standing = Field(description="one of supported, contradicted, absent")


class Supports(ReplySchema):
    """Where each item stands: supported, contradicted or absent."""

    items: list[Support] = Field(description="list of objects, exactly one for each number, in their order")


class Mark(ReplySchema):
    """A mark on one item, as the references take it: a number that counts as yes unless it is 0."""

    number: int = Field(description=_NUMBER)
    reason: str = Field(description=_REASON)
    verdict: int = Field(description="1 for yes (supported), 0 for no")


class Marks(ReplySchema):
    """Marks on items, as the references take them: however many there are."""

    items: list[Mark] = Field(description="list of objects, exactly one for each number, in their order")

    @classmethod
    def like(cls, other: Any) -> Self:
        """Write where items stand as marks: 1 for supported."""
        return cls(
            items=[
                Mark(number=one.number, reason=one.reason, verdict=int(one.verdict == "supported"))
                for one in other.items
            ]
        )


class _Numbered(Protocol):
    @property
    def number(self) -> int: ...


N = TypeVar("N", bound=_Numbered)


def numbered(texts: Iterable[str], *, called: str) -> list[JsonValue]:
    """Number texts from 1, as objects of `number` and `called`."""
    return [{"number": number, called: text} for number, text in enumerate(texts, 1)]


def one_each(count: int) -> ReplyCheck:
    """Check that a list has exactly one item for each number from 1 to `count`."""

    def check(reply: Any) -> str | None:
        return fault_in(reply.items, count)

    return check


def fault_in(items: Sequence[_Numbered], count: int, *, called: str = "items") -> str | None:
    """Name what is wrong with the numbers of a list; None if each from 1 to `count` is there once."""
    found = [one.number for one in items]
    known = set(found)
    missing = [str(number) for number in range(1, count + 1) if number not in known]
    if missing:
        return f"{called}: no verdict for number {shorten(', '.join(missing), 60, placeholder=' ...')}"
    if len(found) > count:
        return f"{called}: {len(found)} verdicts for {count} numbers; exactly one for each is wanted"
    return None


def in_order(items: Iterable[N]) -> list[N]:
    """Put items in the order of their numbers."""
    return sorted(items, key=lambda one: one.number)


def yes_or_no(text: str, said: YesNo | Mark) -> Verdict:
    """Give the verdict on one item; a mark other than 0 is a yes."""
    return Verdict.checked(bool(said.verdict), subject=text, rationale=said.reason)


def filled(texts: Iterable[str]) -> tuple[str, ...]:
    """Leave blank texts out, and blanks around the others."""
    return tuple(one.strip() for one in texts if one.strip())


def share(verdicts: Sequence[Verdict]) -> float:
    """Give the share of verdicts that passed, exactly: passed / all."""
    return sum(bool(one.passed) for one in verdicts) / len(verdicts)


def reasons(verdicts: Iterable[Verdict]) -> str:
    """Join what was said of the items that did not pass, or of all if none failed."""
    told = list(verdicts)
    failing = [one for one in told if one.passed is False]
    return "\n".join(f"{one.subject}: {one.rationale}" for one in failing or told if one.rationale)


def bullets(texts: Iterable[str], *, most: int = 20, longest: int = 300) -> str:
    """List texts one a line, each cut to `longest` characters; more than `most` are counted."""
    told = list(texts)
    lines = [f"- {cut(one, most=longest)}" for one in told[:most]]
    return "\n".join(lines + ([f"- ... (+{len(told) - most})"] if len(told) > most else []))


def cut(text: str, *, most: int = 240) -> str:
    """Write a text in one line of at most `most` characters, in scripts with and without blanks."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 4]} ..."
