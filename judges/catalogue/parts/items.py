"""Numbered items: several texts are sent with their numbers, and each number gets its verdict.

Numbers show when an item is left out, invented or counted twice; a faulty list is asked for again, and a second
faulty one leaves the verdict unscored.
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
    def from_reply(cls, other: Any) -> Self:
        """Convert supports into marks: 1 for supported, else 0."""
        return cls(
            items=[
                Mark(number=item.number, reason=item.reason, verdict=int(item.verdict == "supported"))
                for item in other.items
            ]
        )


class _Numbered(Protocol):
    @property
    def number(self) -> int: ...


N = TypeVar("N", bound=_Numbered)


def numbered_items(texts: Iterable[str], *, called: str) -> list[JsonValue]:
    """Return texts numbered from 1, as objects with the keys `number` and the value of `called`."""
    return [{"number": number, called: text} for number, text in enumerate(texts, 1)]


def one_each(count: int) -> ReplyCheck:
    """Return a check that a reply's list has exactly one item for each number from 1 to `count`."""

    def check(reply: Any) -> str | None:
        return fault_in(reply.items, count)

    return check


def fault_in(items: Sequence[_Numbered], count: int, *, called: str = "items") -> str | None:
    """Describe the fault in the numbers of a list; None if each from 1 to `count` is there once."""
    numbers = {item.number for item in items}
    missing = [str(number) for number in range(1, count + 1) if number not in numbers]
    if missing:
        return f"{called}: no verdict for number {shorten(', '.join(missing), 60, placeholder=' ...')}"
    if len(items) > count:
        return f"{called}: {len(items)} verdicts for {count} numbers; exactly one for each is wanted"
    return None


def in_order(items: Iterable[N]) -> list[N]:
    """Sort items by their numbers."""
    return sorted(items, key=lambda item: item.number)


def yes_no_verdict(text: str, reply: YesNo | Mark) -> Verdict:
    """Return the verdict on one item; a mark other than 0 is a yes."""
    return Verdict.checked(bool(reply.verdict), subject=text, rationale=reply.reason)


def non_blank(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts that are not blank, stripped."""
    return tuple(text.strip() for text in texts if text.strip())


def share(verdicts: Sequence[Verdict]) -> float:
    """Return the share of verdicts that passed: passed / all."""
    return sum(bool(verdict.passed) for verdict in verdicts) / len(verdicts)


def reasons(verdicts: Iterable[Verdict]) -> str:
    """Join the rationales of the items that failed, or of all if none did."""
    items = list(verdicts)
    failed = [item for item in items if item.passed is False]
    return "\n".join(f"{item.subject}: {item.rationale}" for item in failed or items if item.rationale)


def bullets(texts: Iterable[str], *, most: int = 20, longest: int = 300) -> str:
    """List texts one per line, each cut to `longest` characters; those beyond `most` are only counted."""
    items = list(texts)
    lines = [f"- {cut(item, most=longest)}" for item in items[:most]]
    return "\n".join(lines + ([f"- ... (+{len(items) - most})"] if len(items) > most else []))


def cut(text: str, *, most: int = 240) -> str:
    """Return a text as one line of at most `most` characters, in scripts with and without blanks."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 4]} ..."
