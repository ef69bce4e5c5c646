"""Release of an answer in pieces, without I/O: what is judged next, what goes out, when writing ends.

A piece goes out once it and every piece before it is accepted. One that is refused ends the attempt: whatever was
written after it is dropped. The next attempt goes on after what went out, and models repeat themselves: `_Seam`
cuts the beginning of a continuation to what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from langchain_core.messages import AIMessage, AnyMessage

from graphs.answers import Draft, Piece, kind_of_answer
from graphs.generators import Delta
from graphs.pieces import PieceSplitter, open_block
from graphs.policy import Policy
from graphs.refinement import Refinement, evolve
from judges.runtime.budget import Allowance
from judges.verdict import NOTHING_TO_JUDGE, Usage, Verdict


class _Fate(Enum):
    """What becomes of a piece."""

    WAITS = "waits"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    DROPPED = "dropped"


_WITHOUT_EVIDENCE = frozenset({"no_contexts", "no_reference", "no_question", "no_guidelines", "no_rubrics"})
_HOLDS_NOTHING = NOTHING_TO_JUDGE - _WITHOUT_EVIDENCE
"""Why a judge says nothing of a piece that has nothing for it: a greeting makes no claims."""

_LIMITS = ("budget", "deadline")


def _fate_of(verdict: Verdict, policy: Policy) -> _Fate:
    """Return what becomes of a piece by its verdict."""
    if verdict.unscored is None:
        return _Fate.ACCEPTED if policy.accepts(verdict) else _Fate.REFUSED
    if verdict.unscored in _HOLDS_NOTHING:
        return _Fate.ACCEPTED
    is_open = policy.on_judge_error == "accept" and verdict.unscored not in _LIMITS
    return _Fate.ACCEPTED if is_open else _Fate.REFUSED


def is_failure(verdict: Verdict) -> bool:
    """Check whether a judge had something to say of a piece, and failed to."""
    return verdict.unscored is not None and verdict.unscored not in _HOLDS_NOTHING


@dataclass(slots=True)
class _Written:
    text: str
    fate: _Fate = _Fate.WAITS
    verdict: Verdict | None = None
    at_s: float | None = None


class _PieceRelease:
    """The pieces of one attempt, in order.

    Args:
        policy: Says which verdict accepts.
        most_judged: Returns how many pieces are judged at once, by whether the answer has a verdict yet; None
            where none is judged.
    """

    def __init__(self, policy: Policy, *, most_judged: Callable[[bool], int] | None) -> None:
        self._policy = policy
        self._most_judged = most_judged
        self._has_verdict = False
        self._written: list[_Written] = []
        self._asked = 0
        self._out = 0
        self._in_flight = 0
        self.is_complete = False
        """Whether nothing more is written."""

    def add(self, pieces: Sequence[str]) -> None:
        """Take pieces that were written; after a refused one they are dropped."""
        if self.refused is None:
            fate = _Fate.ACCEPTED if self._most_judged is None else _Fate.WAITS
            self._written += [_Written(text, fate) for text in pieces]

    def drop(self, pieces: Sequence[str]) -> None:
        """Take what was written last, and is neither judged nor released."""
        if self.refused is None:
            self._written += [_Written(text, _Fate.DROPPED) for text in pieces]

    def take_due(self) -> range:
        """Return the numbers of the pieces that are to be judged now."""
        if self._most_judged is None or self.refused is not None:
            return range(0)
        waiting = self._written[self._asked :]
        written = self._asked + sum(piece.fate is not _Fate.DROPPED for piece in waiting)
        end = min(written, self._asked + self._most_judged(self._has_verdict) - self._in_flight)
        due = range(self._asked, end)
        self._asked, self._in_flight = max(self._asked, end), self._in_flight + len(due)
        return due

    def texts_until(self, number: int) -> tuple[str, ...]:
        """Return a piece, and those before it."""
        return tuple(piece.text for piece in self._written[: number + 1])

    def judge(self, number: int, verdict: Verdict) -> None:
        """Record the verdict on a piece."""
        self._in_flight, self._has_verdict = self._in_flight - 1, True
        piece = self._written[number]
        piece.verdict, piece.fate = verdict, _fate_of(verdict, self._policy)

    def take_released(self, at_s: float) -> list[str]:
        """Return the pieces that go out now."""
        released = []
        while self._out < len(self._written) and self._written[self._out].fate is _Fate.ACCEPTED:
            self._written[self._out].at_s = at_s
            released.append(self._written[self._out].text)
            self._out += 1
        return released

    @property
    def refused(self) -> int | None:
        """The number of the first piece that is refused, as far as is known."""
        not_out = range(self._out, len(self._written))
        return next((at for at in not_out if self._written[at].fate is _Fate.REFUSED), None)

    @property
    def is_begun(self) -> bool:
        """True if anything went out."""
        return self._out > 0

    @property
    def is_settled(self) -> bool:
        """True if nothing more can go out: all is out, or what comes next is refused."""
        if self._out < len(self._written):
            return self._written[self._out].fate in (_Fate.REFUSED, _Fate.DROPPED)
        return self.is_complete

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All pieces, as they go on record."""
        return tuple(
            Piece(text=piece.text, verdict=piece.verdict, released=number < self._out, at_s=piece.at_s)
            for number, piece in enumerate(self._written)
        )


def verdict_on(pieces: Sequence[Piece], *, before: Sequence[Piece], judge: str) -> Verdict:
    """Return the verdict on an answer whose pieces were all judged: that of the worst, which says what it cost.

    One that a judge failed to give comes before all others.

    Args:
        pieces: Those of the last attempt, whose cost it has.
        before: Those that went out of earlier attempts.
        judge: Name of their judge.
    """
    verdicts = [piece.verdict for piece in (*before, *pieces) if piece.verdict is not None]
    failed = next((verdict for verdict in verdicts if is_failure(verdict)), None)
    scored = [verdict for verdict in verdicts if verdict.score is not None]
    lowest = min(scored, key=lambda verdict: verdict.score or 0.0, default=None)
    worst = lowest if failed is None else failed  # a verdict is true where it passed
    if worst is None:
        worst = Verdict.checked(passed=True, judge=judge, detail="no piece held anything to judge")
    return with_cost_of(pieces, worst.model_copy(update={"usage": Usage(), "latency_s": 0.0}))


def with_cost_of(pieces: Sequence[Piece], verdict: Verdict) -> Verdict:
    """Return a verdict that also has what judging the pieces cost."""
    latency_s = verdict.latency_s + sum(piece.verdict.latency_s for piece in pieces if piece.verdict is not None)
    return verdict.model_copy(update={"usage": verdict.usage + usage_of_pieces(pieces), "latency_s": latency_s})


def usage_of_pieces(pieces: Sequence[Piece]) -> Usage:
    """Return what judging pieces consumed."""
    return Usage.total([piece.verdict.usage for piece in pieces if piece.verdict is not None])


_PLAIN_METADATA = ("model_name", "model_provider", "refine")


def text_alone(answer: AIMessage) -> AIMessage:
    """Return a message of which a piece was refused, without what may quote it: calls, single tokens, audio."""
    reply_metadata = answer.response_metadata
    metadata = {name: reply_metadata[name] for name in _PLAIN_METADATA if name in reply_metadata}
    text = str(answer.text)
    return AIMessage(text, id=answer.id, usage_metadata=answer.usage_metadata, response_metadata=metadata)


def is_late(judged: Refinement) -> bool:
    """Check whether an answer was refused when all its pieces were out, and not because it was cut off."""
    last = judged.attempts[-1]
    is_out = bool(judged.released_pieces) and all(piece.released for piece in last.pieces)
    is_failed = last.verdict is not None and last.verdict.unscored is not None
    return is_out and not is_failed and judged.stop_reason != "accepted" and last.kind != "cut"


REFUSED_LATE = "the answer was refused as a whole when its pieces were out"


def without_replacement(refinement: Refinement) -> Refinement:
    """Return a refinement as it is where no other answer took the place of one that was refused late."""
    reason = refinement.stop_reason
    detail = REFUSED_LATE if reason == "late_refusal" else f"{REFUSED_LATE}; no other was accepted: {reason}"
    return evolve(refinement, held_back="", stop_reason="late_refusal", detail=detail)


_THINK = "<think>"
_THOUGHT = "</think>"
_LEAST_OVERLAP = 6
_LONGEST_COMPARED = 20_000
"""Characters at the end of what was released in which a continuation is looked for."""


class _Seam:
    """Cuts what a continuation repeats, and mends the white space before what is new.

    Args:
        released: The pieces that went out.
        blank: The white space before the piece that was refused, which the next one takes the place of.
    """

    def __init__(self, released: Sequence[str], blank: str) -> None:
        self._released = _normalise("".join(released)[-_LONGEST_COMPARED:])[0].rstrip()
        self._known = [_normalise(piece)[0].strip() for piece in released]
        self._next = 0
        self._blank = blank
        self._text: str | None = "" if released else None
        self._read: tuple[str, list[int]] = ("", [])
        self._length = 0

    def feed(self, text: str, *, is_final: bool = False) -> str:
        """Return what is new of a text, as far as that is known."""
        if self._text is None:
            return text
        self._text += text
        written, ends = self._read = _normalise(text, self._read, at=self._length)
        self._length = len(self._text)
        if not is_final and (not written.strip() or written.rstrip() in self._released):
            return ""
        new, self._text = self._mended(self._text[self._overlap(written, ends) :]), None
        return new

    def _overlap(self, written: str, ends: Sequence[int]) -> int:
        """Return how many characters of a text are the end of what was released."""
        longest = min(len(written), len(self._released))
        for length in range(longest, min(_LEAST_OVERLAP, len(self._released)) - 1, -1):
            if length < 1 or not self._released.endswith(written[:length]):
                continue
            if not (written[length - 1].isalnum() and written[length : length + 1].isalnum()):
                return ends[length - 1]
        return 0

    def _mended(self, new: str) -> str:
        leading_blank = new[: len(new) - len(new.lstrip())]
        if not new.strip() or (leading_blank and ("\n" in leading_blank or "\n" not in self._blank)):
            return new
        return self._blank + new.lstrip()

    def drop_repeated(self, pieces: Sequence[str]) -> list[str]:
        """Return pieces without those at the beginning of a continuation that were released, in order."""
        new_pieces = list(pieces)
        while new_pieces and self._next < len(self._known):
            piece = _normalise(new_pieces[0])[0].strip()
            if piece not in self._known[self._next :]:
                self._next = len(self._known)
                break
            self._next = self._known.index(piece, self._next) + 1
            del new_pieces[0]
        return new_pieces


def _normalise(text: str, before: tuple[str, list[int]] = ("", []), *, at: int = 0) -> tuple[str, list[int]]:
    """Return a text without case and with single blanks, and where each of its characters ends in the text.

    Args:
        text: The text, or what comes next of one.
        before: What was returned for what came before it, which is changed in place.
        at: How long that was.
    """
    read, ends = before[0], before[1] if at else []
    written: list[str] = []
    for end, character in enumerate(text, at + 1):
        if character.isspace():
            if not ends:
                continue
            if (written[-1] if written else read[-1]) == " ":
                ends[-1] = end
                continue
        folded = " " if character.isspace() else character.casefold()
        written += folded
        ends += [end] * len(folded)
    return read + "".join(written), ends


class _AnswerText:
    """The text of an attempt on its way to pieces: without thoughts, without what is repeated.

    Args:
        policy: Says how long pieces are.
        released: The pieces that went out before.
        blank: The white space before the piece that was refused.
    """

    def __init__(self, policy: Policy, released: Sequence[str], blank: str) -> None:
        self._splitter = PieceSplitter(
            least=policy.piece_chars, most=policy.piece_chars_most, block=open_block("".join(released))
        )
        self._seam = _Seam(released, blank)
        self._thought: str | None = ""
        self.has_thought = False
        """Whether the text began with thoughts, which are no part of the answer."""

    def feed(self, text: str) -> list[str]:
        """Return the pieces that are whole now."""
        new = self._seam.feed(self._without_thought(text))
        return self._seam.drop_repeated(self._splitter.feed(new)) if new else []

    def close(self) -> list[str]:
        """Return the pieces that are left at the end."""
        text = self._without_thought("", is_final=True)
        new = self._seam.feed(text, is_final=True)
        return self._seam.drop_repeated([*self._splitter.feed(new), *self._splitter.close()])

    def _without_thought(self, text: str, *, is_final: bool = False) -> str:
        """Return a text without thoughts at its beginning; nothing while it is unknown whether there are any."""
        if self._thought is None:
            return text
        self._thought += text
        begun = self._thought.lstrip()
        if not is_final and len(begun) < len(_THINK) and _THINK.startswith(begun):
            return ""
        if not begun.startswith(_THINK):
            text, self._thought = self._thought, None
            return text
        _, end, after = begun.partition(_THOUGHT)
        if end:
            text, self._thought, self.has_thought = after.lstrip(), None, True
            return text
        return begun if is_final else ""


_CHARS_OF_A_TOKEN = 4
"""Characters of a prompt that make a token, where an aborted stream leaves nothing else to count."""


class AnswerChanged(Exception):  # noqa: N818 - says what happened
    """A generator began its answer anew, or returned another one, when pieces of it were out."""


class PieceAttempt:
    """One attempt while it is written: its text on the way to pieces, and what goes out of it.

    Args:
        policy: As for `_PieceRelease`, like `most_judged`.
        released: The pieces that went out before, as for `_AnswerText`, like `blank`.
        clock: Returns the seconds since the question.
        steps: What led to the answer, as far as it is known before.

    Attributes:
        prompt_chars: Characters of the prompt.
        deltas: Chunks of text so far.
        draft: The whole draft; None where it did not come to one.
        void: What was judged of an answer that was begun anew, of which nothing was out, or of pieces that
            nobody waits for any more.
        stop: Ends what goes on in threads.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        released: Sequence[str],
        blank: str,
        most_judged: Callable[[bool], int] | None,
        clock: Callable[[], float],
        steps: tuple[AnyMessage, ...],
    ) -> None:
        def begin() -> tuple[_PieceRelease, _AnswerText]:
            return _PieceRelease(policy, most_judged=most_judged), _AnswerText(policy, released, blank)

        self._begin = begin
        self.release, self.text = begin()
        self.clock, self.steps = clock, steps
        self.prompt_chars = self.deltas = 0
        self.draft: Draft | None = None
        self.void = Usage()
        self.stop: Callable[[], object] = tuple  # does nothing
        self._held: list[str] = []
        self._is_held, self._is_continued = False, bool(released)
        self._judging: dict[int, Allowance] = {}
        self._calls: tuple[tuple[str | None, Usage], ...] = ()

    def _begin_anew(self) -> None:
        if self.release.is_begun:
            raise AnswerChanged("the answer is another one than that of which pieces are out")
        self.leave_judging()
        self.void += usage_of_pieces(self.release.pieces)
        self.release, self.text = self._begin()
        self.deltas, self._held, self._is_held = 0, [], False

    def count_judging(self, number: int) -> Allowance:
        """Return what counts the calls that judge the piece of a number."""
        return self._judging.setdefault(number, Allowance())

    def leave_judging(self) -> None:
        """Let calls that judge pieces, and that nobody waits for any more, ask no model; those made count."""
        pieces = self.release.pieces
        left = [allowance for number, allowance in self._judging.items() if pieces[number].verdict is None]
        for allowance in left:
            allowance.close()
            self.void += Usage(calls=allowance.spent.calls)
        self._judging = {}

    def hear(self, delta: Delta) -> None:
        """Take what the generator wrote; from the first call of a tool on it is held back."""
        if delta.is_anew and self.deltas:
            self._begin_anew()
        self._calls = delta.calls or self._calls
        self._is_held = self._is_held or delta.is_call
        if delta.text:
            self.deltas += 1
            if self._is_held:
                self._held.append(delta.text)
            else:
                self.release.add(self.text.feed(delta.text))

    def end(self, draft: Draft, *, is_last: bool) -> None:
        """Take the whole draft; of one that was cut off and has a next one, the last piece is not judged."""
        self.draft = draft
        if not self.deltas and draft.answer.text:
            self.hear(Delta(str(draft.answer.text)))
        if kind_of_answer(draft.answer) == "cut" and not is_last:
            self.release.drop(self.text.close())
        elif not (draft.fault or draft.skip_reason):
            self.release.add(self.text.feed("".join(self._held)))
            rest = self.text.close()
            if self._is_continued or self.release.pieces or "".join(rest).strip():  # else nothing was said
                self.release.add(rest)
        self.release.is_complete = True

    def estimate(self) -> tuple[str | None, Usage]:
        """Return what an aborted call consumed: what is known of it, and as many tokens as there were chunks."""
        name, reported_usage = self._calls[-1] if self._calls else (None, Usage())
        sent = reported_usage.input_tokens or max(1, self.prompt_chars // _CHARS_OF_A_TOKEN)
        return name, Usage.of_call(sent, max(1, self.deltas, reported_usage.output_tokens))
