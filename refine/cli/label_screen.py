"""The screen of `refine label`: one answer, keys for what one thinks of it, and how far one is."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import ConditionalContainer, FormattedTextControl, HSplit, Layout, VSplit, Window
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

from judges import ConfigurationError
from judges.offline.trust.labelling import Labelling
from refine.cli.label_text import Line, lines_of

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


class LabelScreen:
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
        self._status: Line = ("class:dim", "The judge's verdict is hidden. Every key is saved at once.")
        self._note = Buffer(multiline=False)
        self._noting = False
        self._lines: tuple[object, list[Line]] = (None, [])
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
        lines, height = self._wrapped(), self._height
        self._top = max(0, min(self._top, len(lines) - height))
        visible = lines[self._top : self._top + height]
        return [(style, f" {text}\n") for style, text in visible]

    def _wrapped(self) -> list[Line]:
        item, width = self._labelling.current, self.app.output.get_size().columns
        if item is None:
            return []
        key = (item.key, width)
        if self._lines[0] != key:
            self._lines = (key, lines_of(item.sample, width - 2))
        return self._lines[1]

    @property
    def _height(self) -> int:
        return max(1, self.app.output.get_size().rows - _CHROME)

    def _status_line(self) -> StyleAndTextTuples:
        style, text = self._status
        below = len(self._wrapped()) - self._top - self._height
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
        on("home")(lambda: self._scroll(-len(self._wrapped())))
        on("end")(lambda: self._scroll(len(self._wrapped())))
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
