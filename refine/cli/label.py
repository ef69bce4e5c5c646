"""The command `refine label`: a person's labels, blind to the verdict, into a file or the record."""

from __future__ import annotations

import getpass
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import ConditionalContainer, FormattedTextControl, HSplit, Layout, VSplit, Window
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.output import Output
from prompt_toolkit.shortcuts import prompt
from prompt_toolkit.styles import Style
from rich.console import Console
from rich.text import Text

from judges import ConfigurationError, Sample
from judges.errors import plural
from judges.messages import Message
from judges.offline.trust.label import Label, LabelFile, LabelItem, Labelling, LabelStore, items_of, labels_in
from judges.offline.trust.rows import JudgedAnswer, labels_file, read_judged
from refine.cli.loops import is_database, open_database
from refine.cli.options import LabelOptions

if TYPE_CHECKING:
    from refine.record import DatabaseRecord


def run_label(options: LabelOptions) -> int:
    """Let a person label, and return the exit code: 0, or 1 where nothing is to be labelled.

    Raises:
        ConfigurationError: If the source cannot be read or holds no answers, there is no terminal, or an option is
            wrong.
    """
    _check_terminal(options)
    if is_database(options.source):
        with open_database(options.source) as record:
            rows = read_judged(list(record.rows()))
            if options.labels is None:
                return _label(options, rows, (), _RecordStore(record), "the record")
    else:
        rows = read_judged(options.source)
    file = options.labels or labels_file(options.source)
    store = LabelFile(file)
    store.repair()
    return _label(options, rows, labels_in(file), store, str(file))


def _label(
    options: LabelOptions, rows: list[JudgedAnswer], labels: Iterable[JudgedAnswer], store: LabelStore, place: str
) -> int:
    earlier = list(labels)
    chosen = rows if options.next_rows is None else _choose(options, rows, earlier)
    if options.audit is not None:
        chosen = _audited(options, rows, options.audit)
    items = items_of(chosen, earlier)
    if not items:
        raise ConfigurationError(
            f"{options.source} holds no answers to label; give rows with questions and answers"
        )
    by = options.by or _own_name()
    labelling = Labelling(items, store, by=by, split=options.split, seed=options.seed)
    if labelling.current is None:
        sys.stderr.write(f"refine: nothing is left to label for {by}{_describe_waiting(labelling)}\n")
        return 1

    _LabelScreen(labelling, source=options.source).run()
    sys.stderr.write(_summary(labelling, place))
    return 0


def label_in_record(
    record: DatabaseRecord, rows: Sequence[JudgedAnswer], people: Mapping[int, int], by: str | None, source: str
) -> None:
    """Let a person label answers of a record, those that they have not labelled and that need another look.

    Args:
        record: Where the labels go.
        rows: The answers.
        people: How many people each needs, by the index of its row.
        by: Who labels; None takes the login.
        source: What the answers are called.
    """
    items = [
        replace(item, people=people[row.index]) for row in rows for item in items_of([row]) if row.index in people
    ]
    labelling = Labelling(items, _RecordStore(record), by=by or _own_name(), split=None, seed=0)
    if labelling.current is not None:
        _LabelScreen(labelling, source=source).run()


def ask_for_another(why: str) -> str | None:
    """Ask which other person is there to label on, and return the name; None for another time."""
    with suppress(EOFError, KeyboardInterrupt):
        return prompt(f"{why}\nWho is it? A name, or Enter for another time: ").strip() or None
    return None


def _choose(options: LabelOptions, rows: list[JudgedAnswer], labels: list[JudgedAnswer]) -> list[JudgedAnswer]:
    from judges.offline.trust.drawing import choose_rows  # noqa: PLC0415 - loads numpy

    return choose_rows(rows, labels, budget=options.next_rows or 1, seed=options.seed)


def _audited(options: LabelOptions, rows: list[JudgedAnswer], most: int) -> list[JudgedAnswer]:
    """Return a random sample of the answers that went out under a certificate and have no label yet.

    Raises:
        ConfigurationError: If there is none.
    """
    drawn = random.Random(options.seed)  # noqa: S311 - a sample, no secret
    covered = [row for row in rows if row.metadata.get("certificate") and row.metadata.get("released")]
    unlabelled_rows = [row for row in covered if not row.opinions]
    if not unlabelled_rows:
        raise ConfigurationError(
            f"{options.source} has no unlabelled answer under a certificate ({len(covered)} have labels); "
            f"--audit is for a loop that runs under one, and records texts"
        )
    return drawn.sample(unlabelled_rows, min(most, len(unlabelled_rows)))


class _RecordStore:
    """Keeps labels in a record, beside the answers."""

    def __init__(self, record: DatabaseRecord) -> None:
        self._record = record

    def add(self, item: LabelItem, label: Label) -> None:
        """Save a label in the record."""
        fields = {name: label.get(name) for name in ("rating", "up", "note", "split")}
        self._record.label(str(item.outcome_id), item.attempt or 1, by=str(label["by"]), **fields)

    def remove(self, item: LabelItem, label: Label) -> None:
        """Delete a label from the record."""
        self._record.label(str(item.outcome_id), item.attempt or 1, by=str(label["by"]))


def _check_terminal(options: LabelOptions) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigurationError(
            f"labelling needs a terminal, and this is none; over ssh give it one: ssh -t HOST refine label "
            f'{options.source}; or write the labels yourself, a line each: {{"outcome_id": ..., "attempt": 1, '
            f'"by": "ann", "rating": 3}}, or with question and answer in place of the two'
        )


def _own_name() -> str:
    with suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    raise ConfigurationError("who labels? give --by NAME")


def _describe_waiting(labelling: Labelling) -> str:
    if not labelling.waiting:
        return ""
    return f"; waiting for a second person (--by NAME): {plural(labelling.waiting, 'answer')}"


def _summary(labelling: Labelling, place: str) -> str:
    rows_left = labelling.total - labelling.labelled
    after = "the same command goes on" if rows_left else "all are labelled"
    count = f"{plural(labelling.labelled_now, 'label')} by {labelling.by} in {place}"
    return f"{count}; {rows_left} left: {after}{_describe_waiting(labelling)}\n"


_Line = tuple[str, str]
"""A line of the screen: its style, and its text."""

_INDENT = "  "
_TAB = 4
_LEAST_WIDTH = 10


def _lines_of(sample: Sample, width: int) -> list[_Line]:
    """Return an answer with all that belongs to it as lines that fit into so many columns.

    Control characters are shown as such, so that no answer can write on the screen by itself.
    """
    wrapped: list[_Line] = []
    for title, style, text in _parts(sample):
        if wrapped:
            wrapped.append(("", ""))
        wrapped.append(("class:title", title))
        wrapped += [(style, f"{_INDENT}{line}") for line in _wrap(text, width - len(_INDENT))]
    return wrapped


def _wrap(text: str, width: int) -> list[str]:
    """Return a text in lines of at most so many columns; wide characters take two."""
    width = max(_LEAST_WIDTH, width)
    console = Console(width=width)
    paragraphs = (Text(part).wrap(console, width, overflow="fold") for part in _visible(text).split("\n"))
    return [line.plain.rstrip() for lines in paragraphs for line in lines or [Text()]]


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


_STYLE = Style.from_dict(
    {
        "title": "bold ansicyan",
        "question": "",
        "answer": "",
        "evidence": "ansibrightblack",
        "bar": "ansigreen",
        "dim": "ansibrightblack",
        "key": "bold",
        "saved": "ansigreen",
        "fault": "bold ansired",
        "note": "ansiyellow",
    }
)
_KEYS = (("1-4", "rating"), ("g b", "good, bad"), ("n", "note"), ("s", "skip"), ("z", "undo"), ("q", "quit"))
_FEW_KEYS = (("1-4 g b", "label"), ("s", "skip"), ("q", "quit"))
_WIDE = 72
"""Columns below which only some keys are named."""

_BAR = 20
_CHROME = 5
"""Lines of the screen that are not the answer's: the head, the status, the keys, and the rules between."""


class _LabelScreen:
    """The screen around one person's labelling.

    Args:
        labelling: What is labelled.
        source: Where the answers come from, as its title.
        terminal_input: Where keys come from, for tests; None is the terminal.
        terminal_output: What is written to, for tests; None is the terminal.
    """

    def __init__(
        self,
        labelling: Labelling,
        *,
        source: str,
        terminal_input: Input | None = None,
        terminal_output: Output | None = None,
    ) -> None:
        self._labelling, self._source = labelling, source
        self._top = 0
        self._status: _Line = ("class:dim", "The judge's verdict is hidden. Every key is saved at once.")
        self._note = Buffer(multiline=False)
        self._noting = False
        self._lines: tuple[object, list[_Line]] = (None, [])
        body = FormattedTextControl(self._body, focusable=True, show_cursor=False)
        noting = Condition(lambda: self._noting)
        self._note_control = BufferControl(self._note)
        note = VSplit(
            [Window(FormattedTextControl([("class:note", "note: ")]), width=6), Window(self._note_control)],
            height=1,
        )
        self._body_window = Window(body, always_hide_cursor=True)
        rows = HSplit(
            [
                Window(FormattedTextControl(self._head), height=1),
                Window(height=1, char="─", style="class:dim"),
                self._body_window,
                Window(height=1, char="─", style="class:dim"),
                ConditionalContainer(note, filter=noting),
                ConditionalContainer(Window(FormattedTextControl(self._status_line), height=1), filter=~noting),
                Window(FormattedTextControl(self._foot), height=1),
            ]
        )
        self.app: Application[None] = Application(
            layout=Layout(rows, focused_element=self._body_window),
            key_bindings=self._bindings(noting),
            style=_STYLE,
            full_screen=True,
            input=terminal_input,
            output=terminal_output,
        )
        self.app.ttimeoutlen = 0.05

    def run(self) -> None:
        """Show answers until nothing is left or the person quits."""
        if self._labelling.current is not None:
            self.app.run()

    # What is shown

    def _head(self) -> StyleAndTextTuples:
        labelling = self._labelling
        share = labelling.labelled / labelling.total if labelling.total else 1.0
        filled = round(_BAR * share)
        split = f"  {labelling.split}" if labelling.split else ""
        return [
            ("class:key", f" {labelling.labelled} of {labelling.total} "),
            ("class:bar", "█" * filled),
            ("class:dim", "░" * (_BAR - filled)),
            ("class:dim", f"  {labelling.by}{split}  {self._source}"),
        ]

    def _body(self) -> StyleAndTextTuples:
        lines, height = self._wrap_answer(), self._height
        self._top = max(0, min(self._top, len(lines) - height))
        visible = lines[self._top : self._top + height]
        return [(style, f" {text}\n") for style, text in visible]

    def _wrap_answer(self) -> list[_Line]:
        item, width = self._labelling.current, self.app.output.get_size().columns
        if item is None:
            return []
        key = (item.key, width)
        if self._lines[0] != key:
            self._lines = (key, _lines_of(item.sample, width - 2))
        return self._lines[1]

    @property
    def _height(self) -> int:
        return max(1, self.app.output.get_size().rows - _CHROME)

    def _status_line(self) -> StyleAndTextTuples:
        style, text = self._status
        below = len(self._wrap_answer()) - self._top - self._height
        more = f"  {below} more lines: space, arrows" if below > 0 else ""
        note = f"  note: {self._note.text}" if self._note.text else ""
        return [(style, f" {text}"), ("class:note", note), ("class:key", more)]

    def _foot(self) -> StyleAndTextTuples:
        if self._noting:
            return [("class:dim", " Enter keeps the note for your next rating, Esc drops it")]
        keys = _KEYS if self.app.output.get_size().columns >= _WIDE else _FEW_KEYS
        return [part for key, what in keys for part in (("class:key", f" {key} "), ("class:dim", f"{what} "))]

    # What keys do

    def _bindings(self, noting: Condition) -> KeyBindings:
        bindings = KeyBindings()

        def on(*keys: str) -> Callable[[Callable[[], None]], None]:
            def bind(action: Callable[[], None]) -> None:
                for key in keys:
                    bindings.add(key, filter=~noting)(lambda _: action())

            return bind

        for rating in range(1, 5):
            on(str(rating))(lambda rating=rating: self._say(rating=rating))  # type: ignore[misc]  # bound at once
        on("g", "u", "+")(lambda: self._say(up=True))
        on("b", "d", "-")(lambda: self._say(up=False))
        on("s", "enter", "right")(self._skip)
        on("z", "backspace", "c-z")(self._undo)
        on("q", "c-c", "c-d")(self._quit)
        on("down", "j")(lambda: self._scroll(1))
        on("up", "k")(lambda: self._scroll(-1))
        on("pagedown", "space")(lambda: self._scroll(self._height - 1))
        on("pageup")(lambda: self._scroll(1 - self._height))
        on("home")(lambda: self._scroll(-len(self._wrap_answer())))
        on("end")(lambda: self._scroll(len(self._wrap_answer())))
        bindings.add("n", filter=~noting)(self._begin_note)
        bindings.add("enter", filter=noting)(self._end_note)
        bindings.add("escape", filter=noting, eager=True)(self._drop_note)
        bindings.add("c-c", filter=noting)(self._drop_note)
        return bindings

    def _say(self, *, rating: int | None = None, up: bool | None = None) -> None:
        label = f"{rating}" if rating is not None else "good" if up else "bad"
        try:
            self._labelling.label(rating=rating, up=up, note=self._note.text)
        except ConfigurationError as error:
            self._status = ("class:fault", f"not saved: {error}")
            return
        self._note.reset()
        self._show_next(f"saved: {label}")

    def _skip(self) -> None:
        self._note.reset()
        self._labelling.skip()
        again = "; only skipped ones are left" if self._labelling.only_skipped else ""
        self._show_next(f"skipped, comes again at the end{again}")

    def _undo(self) -> None:
        try:
            label = self._labelling.undo()
        except ConfigurationError as error:
            self._status = ("class:fault", f"not taken back: {error}")
            return
        if label is None:
            self._status = ("class:fault", "nothing to take back")
            return
        self._note.text = str(label.get("note", ""))
        name = label.get("rating", "good" if label.get("up") else "bad")
        self._show_next(f"taken back: {name}")

    def _show_next(self, status: str) -> None:
        self._top = 0
        self._status = ("class:saved", status)
        if self._labelling.current is None:
            self.app.exit()

    def _scroll(self, lines: int) -> None:
        self._top += lines

    def _quit(self) -> None:
        self.app.exit()

    def _begin_note(self, _: KeyPressEvent) -> None:
        self._noting = True
        self.app.layout.focus(self._note_control)

    def _end_note(self, _: KeyPressEvent) -> None:
        self._noting = False
        self.app.layout.focus(self._body_window)

    def _drop_note(self, event: KeyPressEvent) -> None:
        self._note.reset()
        self._end_note(event)
