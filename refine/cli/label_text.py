"""An answer as a person who labels sees it: question, evidence and answer, and nothing that a judge said."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from judges import Sample
from judges.messages import Message

Line = tuple[str, str]
"""A line of the screen: its style, and its text."""

_INDENT = "  "
_TAB = 4
_LEAST_WIDTH = 10


def lines_of(sample: Sample, width: int) -> list[Line]:
    """Return an answer with all that belongs to it as lines that fit into so many columns.

    Control characters are shown as such, so that no answer can write on the screen by itself.
    """
    wrapped: list[Line] = []
    for title, style, text in _parts(sample):
        if wrapped:
            wrapped.append(("", ""))
        wrapped.append(("class:title", title))
        wrapped += [(style, f"{_INDENT}{line}") for line in wrap(text, width - len(_INDENT))]
    return wrapped


def wrap(text: str, width: int) -> list[str]:
    """Return a text in lines of at most so many columns; wide characters take two."""
    width = max(_LEAST_WIDTH, width)
    lines: list[str] = []
    for paragraph in _visible(text).split("\n"):
        lines += _wrapped(paragraph, width)
    return lines


def _wrapped(paragraph: str, width: int) -> list[str]:
    lines, current, used = [], "", 0
    for word in Text(paragraph).plain.split(" "):
        rest, size = word, cell_len(word)
        if current and used + 1 + size <= width:
            current, used = f"{current} {rest}", used + 1 + size
            continue
        if current:
            lines.append(current)
        while cell_len(rest) > width:
            head = _fitting(rest, width)
            lines.append(head)
            rest = rest[len(head) :]
        current, used = rest, cell_len(rest)
    return [*lines, current]


def _fitting(text: str, width: int) -> str:
    """Return as much of the beginning of a text as fits into so many columns, one character at least."""
    used = 0
    for place, character in enumerate(text):
        used += cell_len(character)
        if used > width:
            return text[: max(1, place)]
    return text


def _visible(text: str) -> str:
    """Return a text with tabs as spaces and control characters as their pictures."""
    plain = text.replace("\r\n", "\n").expandtabs(_TAB)
    return "".join(
        character if character == "\n" or character.isprintable() else _picture(character) for character in plain
    )


def _picture(character: str) -> str:
    code = ord(character)
    if code < ord(" "):
        return chr(0x2400 + code)
    return "\u00b7" if character.isspace() else "\ufffd"


def _parts(sample: Sample) -> Iterator[tuple[str, str, str]]:
    """Yield title, style and text of each part; the answer last."""
    conversation = sample.conversation
    earlier = conversation[:-1]
    if earlier:
        yield "CONVERSATION", "class:evidence", "\n".join(map(_said, earlier))
    yield "QUESTION", "class:question", conversation[-1].content if conversation else ""
    if sample.steps:
        yield "STEPS", "class:evidence", "\n".join(map(_said, sample.steps))
    for number, context in enumerate(sample.retrieved_contexts or (), 1):
        yield f"CONTEXT {number}", "class:evidence", context
    if sample.reference:
        yield "REFERENCE", "class:evidence", sample.reference
    if sample.guidelines:
        yield "GUIDELINES", "class:evidence", _rules(sample)
    yield "ANSWER", "class:answer", sample.answer or ""


def _said(message: Message) -> str:
    calls = "".join(f" [calls {call.name}]" for call in message.tool_calls)
    return f"{message.role}: {message.content}{calls}"


def _rules(sample: Sample) -> str:
    guidelines = sample.guidelines or ()
    if isinstance(guidelines, dict):
        return "\n".join(f"{name}: {rule}" for name, rules in guidelines.items() for rule in rules)
    return "\n".join(guidelines)
