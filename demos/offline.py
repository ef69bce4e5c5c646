"""How far can a verdict be believed? From a chatbot's answers to a promise in writing, and what that is not.

A loop around the support chatbot of a shop is recorded, people label its answers, and the labels say how often the
judge errs, which success rating keeps a promise, what voids that promise, and what other settings would have done.
Chatbot, judge and labels are shipped with the demo, so it needs no key and no network; all figures are computed.
"""

from __future__ import annotations

import argparse
import json
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from pydantic import TypeAdapter

from demos.command import Options
from demos.screen import Screen, Tone, pips, quantity, screen
from judges import ConfigurationError, Judge, Rubric
from judges.offline import IssuedCertificate
from judges.testing import ScriptedModel
from refine import Outcome, SelfRefine

if TYPE_CHECKING:
    from judges.offline import Alignment, IssuedCertificate, LoopReplay
    from judges.offline.statistics import Figure

AGREEMENT = (
    "In brackets: where the true share lies, with 95 % confidence. Kappa is the agreement beyond chance: 0 is "
    "chance, 1 is always."
)
CERTIFICATE = ("shown from", "loops", "shown", "bad", "share bad", "at most (95 %)", "finding")
CURVE = ("attempt", "judged", "passed", "passed by now", "95 % interval")
POLICIES = ("rating", "attempts", "shown", "bad among them", "attempts made", "known")

_GOOD = 3
_FINDINGS = {
    "certified": "keeps it",
    "refused": "does not",
    "too_few": "too few",
    "not_tested": "not tested",
}


def _doubled(labels: Path) -> tuple[int, int]:
    """Return how many answers two people labelled, and on how many they agree whether it is good."""
    people: dict[object, list[bool]] = {}
    for line in labels.read_text(encoding="utf-8").splitlines():
        label = json.loads(line)
        people.setdefault((label["outcome_id"], label["attempt"]), []).append(label["rating"] >= _GOOD)
    twice = [opinions for opinions in people.values() if len(opinions) > 1]
    return len(twice), sum(len(set(opinions)) == 1 for opinions in twice)


def _agreement_entries(alignment: Alignment) -> Iterator[tuple[str, str]]:
    """Yield the short report of agreement, as labels and texts."""
    figures = alignment.agreement.figures
    yield "labelled", f"{alignment.labelled} answers to {alignment.questions} questions"
    kappa = figures["pass_kappa"]
    if kappa.value is not None:
        yield "agreement", f"{_share(figures['agreement'])} same verdict, kappa {kappa.value:.2f}"
    yield "good ones", f"{_share(figures['tpr'])} pass"
    yield "bad ones", f"{_share(figures['tnr'])} are refused"
    by_rating = alignment.agreement.reliability.items()
    parts = [f"{rating}: {figure.value:.0%}" for rating, figure in by_rating if figure.value is not None]
    yield "by rating", f"people call good, of those rated {', '.join(parts)}"
    if alignment.people is not None and alignment.people.ceiling is not None:
        yield (
            "people",
            f"agree among themselves with kappa {alignment.people.ceiling:.2f}, the ceiling for any judge",
        )
    for note in alignment.notes:
        yield "", note


def _certificate_rows(certificate: IssuedCertificate) -> list[tuple[str, ...]]:
    """Return the table of a certificate, strictest threshold first."""
    return [
        (
            f"rating {row.policy_text}",
            str(certificate.runs),
            str(row.released),
            str(row.bad),
            _percent(row.rate),
            _percent(row.upper),
            _FINDINGS[row.status],
        )
        for row in certificate.rows
    ]


def _curve_rows(replay: LoopReplay) -> list[tuple[str, ...]]:
    """Return how many loops have passed by each attempt."""
    return [
        (
            str(point.attempt),
            str(point.at_risk),
            str(point.passed),
            f"{point.cumulative:.0%}",
            f"{point.low:.0%} to {point.high:.0%}",
        )
        for point in replay.curve
    ]


def _policy_rows(replay: LoopReplay) -> list[tuple[str, ...]]:
    """Return what each policy would have done, the one in force first; of those without patience."""
    return [
        (
            f"{policy.success_rating}{' (now)' if policy.in_force else ''}",
            str(policy.max_attempts),
            _range(policy.release_rate, ".0%"),
            _range(policy.bad_rate, ".1%"),
            _range(policy.mean_attempts, ".2f"),
            policy.status,
        )
        for policy in replay.policies
        if policy.patience is None
    ]


def _range(bounds: tuple[float, float] | None, form: str) -> str:
    if bounds is None:
        return "-"
    low, high = (format(bound, form) for bound in bounds)
    return low if low == high else f"{low} to {high}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _share(figure: Figure) -> str:
    if figure.value is None:
        return f"undefined ({figure.reason})"
    bounds = "" if figure.low is None or figure.high is None else f" ({figure.low:.0%} to {figure.high:.0%})"
    return f"{figure.value:.0%}{bounds}"


Part = Literal["pilot", "main", "live"]

_FILE = Path(__file__).with_name("support.jsonl")
_PASSES = 4
_CRITERIA = "Is the answer right, complete, and does it say what the customer is to do next?"
_LEVELS = {
    1: "wrong, rude, or no answer",
    2: "an answer that leaves the customer where they were",
    3: "right, but something that matters is missing",
    4: "right and complete",
}


@dataclass(frozen=True)
class _SupportAnswer:
    """One answer of the chatbot.

    Args:
        answer: Its text.
        rating: What the judge says of it, 1 to 4.
        missing: What the judge misses in it.
        labels: What people say of it, 1 to 4, by name; none for questions that come after the certificate.
    """

    answer: str
    rating: int
    missing: str = ""
    labels: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _SupportQuestion:
    """One question of a customer.

    Args:
        part: `pilot` and `main` are recorded and labelled; `live` comes after the certificate.
        question: Its text.
        answers: What the chatbot says, attempt by attempt.
    """

    part: Part
    question: str
    answers: tuple[_SupportAnswer, ...]


def _support_questions() -> list[_SupportQuestion]:
    """Return the shipped questions with answers, ratings and labels."""
    with _FILE.open(encoding="utf-8") as lines:
        return [TypeAdapter(_SupportQuestion).validate_python(json.loads(line)) for line in lines]


def _chatbot(questions: Sequence[_SupportQuestion]) -> ScriptedModel:
    """Return a chat model that answers the questions: after each refusal with the next of its answers."""
    answers = {question.question: question.answers for question in questions}

    def reply(messages: list[BaseMessage]) -> str:
        question, *rest = (message.text for message in messages)
        own, refusals = answers[question], "\n".join(rest)
        refused = [number for number, one in enumerate(own) if one.missing and one.missing in refusals]
        return own[min(max(refused, default=-1) + 1, len(own) - 1)].answer

    return ScriptedModel(reply, name="support-bot-1")


def _support_judge(
    questions: Sequence[_SupportQuestion], *, model: str = "judge-model-1", criteria: str = _CRITERIA
) -> Rubric:
    """Return the judge: a rubric with its real prompt, asked of a model whose ratings are shipped.

    Args:
        questions: The questions whose answers it rates.
        model: Name of the model.
        criteria: What it judges by.
    """
    by_question = {question.question: question.answers for question in questions}

    def reply(messages: list[BaseMessage]) -> dict[str, object]:
        prompt = "\n".join(message.text for message in messages)
        own = next(answers for question, answers in by_question.items() if question in prompt)
        return _reply(max((one for one in own if one.answer in prompt), key=lambda one: len(one.answer)))

    return Rubric(
        ScriptedModel(reply, name=model), criteria=criteria, levels=_LEVELS, name="support-quality", language="en"
    )


def _reply(answer: _SupportAnswer) -> dict[str, object]:
    if answer.rating == _PASSES:
        return {"rationale": "Right, complete, and clear about the next step.", "rating": 4, "feedback": ""}
    return {"rationale": f"What is amiss: {answer.missing}.", "rating": answer.rating, "feedback": answer.missing}


_PILOT, _RECORD, _LABELS = "pilot.jsonl", "attempts.jsonl", "attempts.labels.jsonl"
_CERTIFICATE, _RUN, _REPORT = "certificate.json", "run", "report.html"
_MAX_ATTEMPTS = 3
_ALPHA, _DELTA = 0.10, 0.05
_NOBODY = "I pass this on to a colleague, who answers by mail today."


@dataclass(frozen=True, kw_only=True)
class _Stage:
    """What all steps share."""

    display: Screen
    folder: Path
    questions: Sequence[_SupportQuestion]
    bot: BaseChatModel
    judge: Judge
    seed: int

    def of(self, part: Part) -> list[_SupportQuestion]:
        return [question for question in self.questions if question.part == part]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; the exit code is 0 if all went as it tells, 1 if not, 2 if it could not be run."""
    parser = Options("demos.offline", __doc__)
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="where everything is written; default: a new one"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seeds all resampling; default 0")
    return parser.run(_run, arguments)


def _run(options: argparse.Namespace) -> int:
    folder = options.out or Path(tempfile.mkdtemp(prefix="refine-offline-"))
    return demonstrate(folder, seed=options.seed)


def demonstrate(folder: Path, *, seed: int = 0, judge: Judge | None = None) -> int:
    """Go the whole way from recorded loops to a certified one and a report, and return the exit code.

    Args:
        folder: Where everything is written; it is created if it does not exist.
        seed: Seeds all resampling.
        judge: Judges the recorded loops; by default the scripted one.

    Raises:
        ConfigurationError: If the folder holds a record already, which must not be added to.
    """
    if (folder / _RECORD).exists():
        raise ConfigurationError(f"{folder / _RECORD} is there already; choose another --out, or delete it first")
    folder.mkdir(parents=True, exist_ok=True)
    questions = _support_questions()
    stage = _Stage(
        display=screen(),
        folder=folder,
        questions=questions,
        bot=_chatbot(questions),
        judge=judge or _support_judge(questions),
        seed=seed,
    )
    stage.display.line("Scripted chatbot and judge, shipped labels; no key, no network.", "dim")
    _record(stage)
    _label(stage)
    _align(stage)
    certificate = _certify(stage)
    went_well = certificate.certified and _guard(stage, certificate) and _change(stage)
    _replay(stage)
    went_well = _report(stage) and went_well
    _promise(stage, certificate)
    return 0 if went_well else 1


def _step(stage: _Stage, heading: str, sentence: str, *, table: bool = False) -> None:
    """Begin a step; a table that follows brings an empty line of its own."""
    stage.display.line()
    stage.display.rule(heading)
    stage.display.line(sentence)
    if not table:
        stage.display.line()


def _record(stage: _Stage) -> None:
    """Refine the questions as the deployed loop will, but with the strictest success rating."""
    _step(
        stage,
        "1  Record",
        f"The chatbot answers, the judge asks for better, {_MAX_ATTEMPTS} attempts at most, and each is written "
        "down. The strictest rating, 4, is asked for: what a laxer loop would have shown is then known, too.",
    )
    stage.display.entry("folder", str(stage.folder), "strong")
    days: tuple[tuple[Part, str, str], ...] = (("pilot", _PILOT, "first day"), ("main", _RECORD, "then"))
    for part, file, label in days:
        loop = SelfRefine(
            stage.bot, stage.judge, success_rating=4, max_attempts=_MAX_ATTEMPTS, record=stage.folder / file
        )
        outcomes = [loop.refine(question.question) for question in stage.of(part)]
        attempts = sum(len(outcome.attempts) for outcome in outcomes)
        passed = sum(outcome.passed for outcome in outcomes)
        text = f"{quantity(len(outcomes), 'question')}, {attempts} attempts, {passed} accepted: {file}"
        stage.display.entry(label, text)


def _label(stage: _Stage) -> None:
    """Write the shipped labels where `refine label` leaves a person's."""
    from judges.offline import read_rows  # noqa: PLC0415 - as in the other steps

    _step(
        stage,
        "2  Label",
        "People say what is good, one key for each answer, without seeing what the judge said. A second person "
        "takes some of the same, so that you learn how far people agree.",
    )
    stage.display.entry("command", f"refine label {_RECORD} --by ann", "strong")
    shipped = {answer.answer: answer.labels for question in stage.questions for answer in question.answers}
    for file in (_PILOT, _RECORD):
        lines = [
            {
                "user_input": sample.question,
                "response": sample.answer,
                "outcome_id": sample.metadata["outcome_id"],
                "attempt": sample.metadata["attempt"],
                "by": person,
                "rating": rating,
            }
            for sample in read_rows(stage.folder / file)
            for person, rating in shipped[sample.answer or ""].items()
        ]
        labels = stage.folder / file.replace(".jsonl", ".labels.jsonl")
        labels.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    twice, same = _doubled(stage.folder / _LABELS)
    stage.display.entry(
        "here", f"shipped labels; two people labelled {twice} answers, and agree on {same} of them"
    )


def _align(stage: _Stage) -> None:
    """Compare the judge with people."""
    from judges.offline import align  # noqa: PLC0415 - loads numpy

    _step(
        stage,
        "3  Align",
        "The labels say how often the judge is wrong, and whether a higher rating means a better answer.",
    )
    alignment = align(stage.folder / _RECORD, alpha=_ALPHA, delta=_DELTA, seed=stage.seed)
    for label, text in _agreement_entries(alignment):
        stage.display.entry(label, text)
    stage.display.line(AGREEMENT, "dim")
    stage.display.entry("command", f"refine align {_RECORD} --full", "strong")


def _certify(stage: _Stage) -> IssuedCertificate:
    """Certify on too few loops, which gives nothing, and on enough."""
    from judges.offline import certify  # noqa: PLC0415 - loads numpy

    display = stage.display
    _step(
        stage,
        "4  Certify",
        f"Which success rating keeps this promise: at most {_ALPHA:.0%} of the answers shown are bad, with "
        f"confidence {1 - _DELTA:.0%}? First from the few loops of the first day.",
        table=True,
    )
    pilot = certify(stage.folder / _PILOT, alpha=_ALPHA, delta=_DELTA, once=True)
    display.table(CERTIFICATE, _certificate_rows(pilot))
    display.line("CERTIFIED" if pilot.certified else "NOT CERTIFIED. That is an answer, not an error.", "fair")
    display.line(pilot.needed)
    display.line()
    display.line("Then from the loops that were recorded after that, none of which is among the first.")
    certificate = certify(stage.folder / _RECORD, alpha=_ALPHA, delta=_DELTA, laxest=True, once=True)
    certificate.write(stage.folder / _CERTIFICATE)
    display.table(CERTIFICATE, _certificate_rows(certificate))
    tone: Tone = "good" if certificate.certified else "bad"
    display.line(f"{'CERTIFIED' if certificate.certified else 'NOT CERTIFIED'}  {certificate.policy_name}", tone)
    display.line(f"{certificate.promise[0].upper()}{certificate.promise[1:]}.")
    display.entry("written", f"{_CERTIFICATE}, id {certificate.id}")
    display.entry("command", f"refine certify {_RECORD} --laxest --once", "strong")
    return certificate


def _guard(stage: _Stage, certificate: IssuedCertificate) -> bool:
    """Answer new questions with the certified loop, and return whether what passed bears the certificate's id."""
    display = stage.display
    _step(
        stage,
        "5  Guard",
        "The loop takes its success rating from the certificate, and each answer that it covers bears its id. "
        "What does not pass is not shown: a fixed text is.",
    )
    outcomes = []
    loop = _certified(stage, stage.judge)
    for question in stage.of("live"):
        outcome = loop.refine(question.question)
        outcomes.append(outcome)
        display.line(question.question, "strong")
        display.entry("attempts", "  ".join(pips(attempt.rating) for attempt in outcome.attempts))
        display.entry(
            "shown", "" if outcome.answer is None else outcome.answer.text, "good" if outcome.passed else "fair"
        )
        display.entry("", _standing(outcome), "dim")
    return all((outcome.certificate == certificate.id) == outcome.passed for outcome in outcomes)


def _standing(outcome: Outcome) -> str:
    covered = "passed" if outcome.passed else "did not pass: the promise says nothing about it"
    return covered if outcome.certificate is None else f"{covered}; certificate {outcome.certificate[:8]}"


def _certified(stage: _Stage, judge: Judge, *, max_attempts: int = _MAX_ATTEMPTS) -> SelfRefine:
    return SelfRefine(
        stage.bot,
        judge,
        certificate=stage.folder / _CERTIFICATE,
        max_attempts=max_attempts,
        on_exhausted="fallback",
        fallback=_NOBODY,
    )


def _change(stage: _Stage) -> bool:
    """Change what the promise rests on, and return whether every change is refused."""
    _step(
        stage,
        "6  Change something",
        "The promise is about this judge, its prompt, its model, this chatbot and this loop. With another one the "
        "loop does not start.",
    )
    changes: dict[str, Callable[[], SelfRefine]] = {
        "prompt": lambda: _certified(stage, _support_judge(stage.questions, criteria="Is the answer polite?")),
        "model": lambda: _certified(stage, _support_judge(stage.questions, model="judge-model-2")),
        "attempts": lambda: _certified(stage, stage.judge, max_attempts=_MAX_ATTEMPTS + 2),
    }
    refused = 0
    for label, start in changes.items():
        try:
            start()
            stage.display.entry(label, "the loop starts, and must not", "bad")
        except ConfigurationError as error:
            refused += 1
            stage.display.entry(label, f"refused: {error}")
    return refused == len(changes)


def _replay(stage: _Stage) -> None:
    """Say what other settings would have done."""
    from judges.offline import replay  # noqa: PLC0415 - loads numpy

    _step(
        stage,
        "7  Replay",
        "The same record says whether the loop helps, by people's labels: the judge's own opinion of it proves "
        "nothing. Then what each attempt brings, and what other settings would have done.",
    )
    result = replay(stage.folder / _RECORD, seed=stage.seed)
    if result.benefit is not None:
        stage.display.line(result.benefit.headline, "strong")
        for label, text in result.benefit.entries():
            stage.display.entry(label, text)
    stage.display.table(CURVE, _curve_rows(result))
    stage.display.table(POLICIES, _policy_rows(result))
    stage.display.line(
        "A range stands where the record ends before such a loop would have: more is not known. Settings that are "
        "chosen here need fresh labels to be certified.",
        "dim",
    )
    stage.display.entry("command", f"refine replay {_RECORD}", "strong")


def _report(stage: _Stage) -> bool:
    """Judge the record again, write the report, and return whether the judge says the same as online."""
    from judges.offline import evaluate, load_run, read_rows  # noqa: PLC0415 - as in the other steps
    from refine import write_report  # noqa: PLC0415 - as above

    _step(
        stage,
        "8  Report",
        "The judge reads the recorded answers again, and one page holds it all: open it in a browser.",
    )
    samples = list(read_rows(stage.folder / _RECORD))
    evaluate(samples, stage.judge, run=stage.folder / _RUN)
    same = sum(
        row.verdicts[stage.judge.name].rating == sample.metadata["rating"]
        for row, sample in zip(load_run(stage.folder / _RUN).rows, samples, strict=True)
    )
    folder = stage.folder
    write_report(
        [folder / _RUN],
        folder / _REPORT,
        labels=folder / _LABELS,
        attempts=folder / _RECORD,
        certificate=folder / _CERTIFICATE,
        title="Support desk",
        seed=stage.seed,
    )
    stage.display.entry("same", f"{same} of {len(samples)} verdicts equal those given online")
    stage.display.entry("page", str(stage.folder / _REPORT), "strong")
    command = f"refine report {_RUN} --attempts {_RECORD} --certificate {_CERTIFICATE}"
    stage.display.entry("command", f"cd {shlex.quote(str(stage.folder))} && {command} --labels {_LABELS}")
    return same == len(samples)


def _promise(stage: _Stage, certificate: IssuedCertificate) -> None:
    display = stage.display
    display.line()
    display.rule("What is promised, and what is not")
    display.line(f"Promised: {certificate.promise}.", "good")
    display.line(
        f"Not promised: anything about a single answer; about answers that did not pass; about questions of "
        f"another kind than the {certificate.runs} recorded ones; about next month, when models behind a name may "
        f"have changed: `refine monitor` watches that. And bad is what the people who labelled call bad."
    )
    display.line("More: docs/trust.md", "dim")


if __name__ == "__main__":
    raise SystemExit(main())
