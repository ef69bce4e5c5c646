"""What the journal of a trial holds: every answer that was generated, what is true of it, how each arm ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from langchain_core.messages import AnyMessage

from graphs import Attempt, Outcome, Policy
from graphs.answers import best_attempt
from graphs.outcome import sample_of
from judges import Judge, Sample
from judges.offline.run.journal import Journal, is_failure
from judges.offline.run.source import digest_of, row_json
from judges.verdict import Usage
from refine.trials.results import FIRST, Arm, TrialAttempt, TrialRow

_ANSWER = "=answer"
"""Name under which the journal has answers; no arm can be called so."""
_TRUTH = "=truth"
"""Name under which it has what is true of them."""

FAILURES = frozenset({"generator_failed", "judge_failed"})
"""Stop reasons that say nothing about an arm, and may be another next time."""


@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """What a trial does.

    Args:
        questions: The questions, with whatever evidence the judges read.
        generator: Answers them.
        judge: The judge of the loop.
        truth: Says whether an answer is good; None where that is not known.
        truth_key: What tells the truth from another one.
        arms: The arms; the first is that of the first answer alone.
        policy: The policy of the loop.
        draws: How often each question is asked.
        seed: Seed of what the generator draws; None sends none.
    """

    questions: Sequence[Sample]
    generator: object
    judge: Judge
    truth: Judge | None
    truth_key: str
    arms: Sequence[Arm]
    policy: Policy
    draws: int
    seed: int | None

    @property
    def rows(self) -> int:
        """How many rows there are: every draw of every question."""
        return len(self.questions) * self.draws

    def place(self, row: int) -> tuple[int, int]:
        """Return question and draw of a row: all questions stand in a draw before the next one."""
        draw, question = divmod(row, len(self.questions))
        return question, draw

    def question(self, row: int) -> Sample:
        """Return the question of a row."""
        return self.questions[self.place(row)[0]]

    def evidence(self, row: int) -> dict[str, Any]:
        """Return what comes with the question of a row, as fields of a sample."""
        exclude = {"user_input", "response"}
        return self.question(row).model_dump(mode="json", exclude_unset=True, exclude=exclude)

    def sample(self, row: int, answer: Attempt | str) -> Sample:
        """Return the question of a row with an answer to it, as the truth is to see it."""
        question = self.question(row)
        if isinstance(answer, str) or not (answer.steps or answer.evidence):
            text = answer if isinstance(answer, str) else answer.text
            return question.model_copy(update={"response": text, "trajectory": ()})
        return sample_of(question.user_input or "", answer, self.evidence(row))


def answer_key(generator: str, before: Sequence[Attempt], added: Sequence[AnyMessage]) -> str:
    """Return what an answer depends on: two arms that come to the same are given the same answer.

    Args:
        generator: Name of the generator.
        before: The attempts before.
        added: The messages after the conversation.
    """
    digest = blake2b(generator.encode(), digest_size=16)
    for attempt in before:
        digest.update(b"\0attempt " + attempt.text.encode(errors="surrogatepass"))
    for message in added:
        digest.update(f"\0{message.type} {message.content}".encode(errors="surrogatepass"))
    return digest.hexdigest()


class StoredRow:
    """What the journal has of a row.

    Args:
        plan: What the trial does.
        journal: The open journal, as it was indexed when it was opened.
        row: The row.
        without_failed: Whether answers that the judge could not judge count as missing, and truths likewise.
    """

    def __init__(self, plan: TrialPlan, journal: Journal, row: int, *, without_failed: bool = False) -> None:
        self.row = row
        self._plan, self._journal = plan, journal
        self._found: dict[tuple[str, str], dict[str, Any]] = {}
        for record in journal.calls(row):
            if not (without_failed and _has_failed(record.response)):
                self._found[record.judge, record.digest] = record.response  # the last one counts

    def answer(self, key: str) -> Attempt | None:
        """Return an answer with its verdict; None where it is missing."""
        state = self._found.get((_ANSWER, key))
        return None if state is None else Attempt.model_validate(state)

    def add_answer(self, key: str, attempt: Attempt) -> None:
        """Keep an answer with its verdict."""
        self._add(_ANSWER, key, attempt.model_dump(mode="json", exclude={"raw"}))

    def has_truth(self, sample: Sample) -> bool:
        """Return whether it was said what is true of an answer."""
        return (_TRUTH, self._truth_key(sample)) in self._found

    def good(self, sample: Sample) -> bool | None:
        """Return whether an answer is good; None where that is not known."""
        good = self._found.get((_TRUTH, self._truth_key(sample)), {}).get("good")
        return good if isinstance(good, bool) else None

    def add_truth(self, sample: Sample, *, good: bool | None, unscored: str | None) -> None:
        """Keep what is true of an answer."""
        self._add(_TRUTH, self._truth_key(sample), {"good": good, "unscored": unscored})

    def end(self, arm: str, outcome: Outcome, keys: Sequence[str], seconds: float) -> None:
        """Keep how an arm ended; `keys` are those of its answers."""
        failure = outcome.stop_reason if outcome.stop_reason in FAILURES else None
        answer = None if outcome.released is not None or outcome.answer is None else str(outcome.answer.text)
        record = {
            "unscored": failure,
            "answers": list(keys[: len(outcome.attempts)]),
            "released": outcome.released,
            "answer": answer,
            "passed": outcome.passed,
            "stop_reason": outcome.stop_reason,
            "detail": outcome.detail,
        }
        text = json.dumps(record, separators=(",", ":")).encode()
        self._journal.add_cell(self.row, arm, 0, seconds, text, unscored=failure)

    def ended(self, arm: str) -> dict[str, Any] | None:
        """Return how an arm ended; None where it has not."""
        cell = self._journal.cell(self.row, arm)
        record: dict[str, Any] | None = None if cell is None else json.loads(cell[1])
        return record

    def consumed(self, arm: str) -> Usage:
        """Return what an arm that ended consumed, the answers that it shares with others included."""
        record = self.ended(arm)
        attempts = () if record is None else self._attempts(record)
        drafts = [draft for attempt in attempts for draft in (attempt, *attempt.unchosen)]
        judged = [draft.verdict.usage for draft in drafts if draft.verdict is not None]
        return Usage.total([*(draft.usage for draft in drafts), *judged])

    def samples(self) -> Iterator[Sample]:
        """Yield all answers of the arms that ended, with their question; equal ones as often as they came."""
        for arm in self._plan.arms[1:]:
            record = self.ended(arm.name)
            for attempt in () if record is None else self._attempts(record):
                yield self._plan.sample(self.row, attempt)
            if record is not None and record["answer"] is not None:
                yield self._plan.sample(self.row, record["answer"])

    def results(self) -> Iterator[TrialRow]:
        """Yield what came of the row in every arm; nothing where one has not ended."""
        records = {arm.name: self.ended(arm.name) for arm in self._plan.arms[1:]}
        ended = {name: record for name, record in records.items() if record is not None}
        if len(ended) < len(records):
            return
        question, draw = self._plan.place(self.row)
        first = self._attempts(next(iter(ended.values())))[0]
        mark, policy = self._mark(first), self._plan.policy
        yield TrialRow(
            question=question,
            draw=draw,
            arm=FIRST,
            attempts=(mark,),
            question_text=self._plan.question(self.row).question,
            released=1,
            passed=first.verdict is not None and policy.accepts(first.verdict),
            stop_reason=FIRST,
            released_after=(1,) * policy.max_attempts,
        )
        for name, record in ended.items():
            yield self._result(name, record)

    def _result(self, arm: str, record: Mapping[str, Any]) -> TrialRow:
        question, draw = self._plan.place(self.row)
        attempts, answer, released = self._attempts(record), record["answer"], record["released"]
        policy = self._plan.policy
        cut = [best_attempt(attempts[:n], policy) or attempts[n - 1] for n in range(1, len(attempts))]
        rest = [released] * (policy.max_attempts - len(cut))
        return TrialRow(
            question=question,
            draw=draw,
            arm=arm,
            attempts=tuple(map(self._mark, attempts)),
            released=released,
            answer=answer,
            passed=record["passed"],
            stop_reason=record["stop_reason"],
            detail=record["detail"],
            answer_good=None if answer is None else self.good(self._plan.sample(self.row, answer)),
            released_after=(*(attempt.number for attempt in cut), *rest),
        )

    def _attempts(self, record: Mapping[str, Any]) -> list[Attempt]:
        attempts = map(self.answer, record["answers"])
        return [attempt for attempt in attempts if attempt is not None]

    def _mark(self, attempt: Attempt) -> TrialAttempt:
        verdict = attempt.verdict
        usage = attempt.usage if verdict is None else attempt.usage + verdict.usage
        return TrialAttempt(
            number=attempt.number,
            text=attempt.text,
            kind=attempt.kind,
            rating=attempt.rating,
            score=None if verdict is None else verdict.score,
            unscored=None if verdict is None else verdict.unscored,
            feedback=attempt.feedback,
            good=self.good(self._plan.sample(self.row, attempt)),
            calls=usage.calls,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cost=usage.cost,
            seconds=attempt.latency_s + (0.0 if verdict is None else verdict.latency_s),
        )

    def _truth_key(self, sample: Sample) -> str:
        return blake2b(digest_of(row_json(sample)) + self._plan.truth_key.encode(), digest_size=16).hexdigest()

    def _add(self, name: str, key: str, record: dict[str, Any]) -> None:
        text = json.dumps(record, separators=(",", ":")).encode()
        self._journal.add_call(self.row, name, key, text)
        self._found[name, key] = record


def _has_failed(response: Mapping[str, Any]) -> bool:
    """Return whether an answer could not be judged, or the truth of one not be told."""
    verdict = response.get("verdict", response)
    return isinstance(verdict, Mapping) and is_failure(verdict.get("unscored"))
