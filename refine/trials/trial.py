"""`trial` and `atrial`: the same questions through several arms, in the folder of a run that survives a crash."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

from graphs import Bounds, Loop, Policy, PolicySettings, build_loop
from graphs.graph import judge_for
from graphs.policy import policy_of
from judges import BadSample, ConfigurationError, Judge, Sample, as_judge
from judges.catalogue.names import one_judge
from judges.errors import shortened
from judges.fingerprint import fingerprint
from judges.offline import Progress, read_rows
from judges.offline.dataset.reading import RowInput, read_sample
from judges.offline.run.evaluate import finish
from judges.offline.run.journal import full_disk_told, locked, make_folder
from judges.offline.run.outputs import SUMMARY
from judges.offline.run.source import row_json
from judges.runtime.validation import naming_settings, whole_number
from judges.settings import MADE_WITH
from refine.trials.engine import ArmLimits, TrialRun, name_of
from refine.trials.manifest import MANIFEST, TrialManifest
from refine.trials.results import BASELINE, DEFAULT_ARMS, FIRST, Arm, Trial, read_arms, write_answers
from refine.trials.store import TrialPlan

_ANY = Bounds(max_criteria_chars=sys.maxsize)
"""What a question brings is from whoever makes the trial, not from a stranger: guidelines of a row are welcome."""

_COSTS = frozenset({"prices"})
"""Settings of a policy that change no answer."""

_Questions = str | Path | Iterable[RowInput | str]
"""A file of rows, or the rows; a text among them is a question."""


class _TrialSettings(PolicySettings, total=False):
    """The keywords of `trial` and `atrial`; see there."""

    truth: object
    arms: str | Sequence[str | Arm]
    out: str | Path | None
    draws: int
    temperature: float | None
    seed: int | None
    baseline: str | None
    limit: int | None
    max_arm_calls: int | None
    max_arm_cost: float | None
    max_concurrency: int
    retry_failed: bool
    on_progress: Callable[[Progress], object] | None
    policy: Policy | Mapping[str, Any] | None
    command: dict[str, Any] | None


@naming_settings("trial(questions, generator, judge, truth=...)")
def trial(questions: _Questions, generator: object, judge: object, **settings: Unpack[_TrialSettings]) -> Trial:
    """Send the same questions through several arms, and say what each of them mends and breaks.

    The first answer to a question is generated once, and all arms go on from it, each with as many generations as
    the others (`max_attempts`). Within an arm the loop's `judge` decides whether to go on; whether an answer is
    good is for `truth` alone to say. Called again with the same folder it does what is missing.

    Args:
        questions: A file of rows, or rows: samples, mappings, or texts.
        generator: A chat model, its name, or whatever else `SelfRefine` takes.
        judge: The judge of the loop.
        truth: Another judge, whose pass mark says whether an answer is good; None leaves it to labels.
        arms: `first` (the first answer alone), `loop` (the policy as it is), a named form of a retry,
            `stronger=MODEL`, or an `Arm` of your own.
        out: Folder of the trial; None keeps nothing.
        draws: How often each question is asked, each time with another seed.
        temperature: Of the generator; None is its own.
        seed: Seed of the draws, sent to generators that take one; None sends none.
        baseline: The arm to compare with; None is `fresh` where it is an arm, else `first`.
        limit: How many questions are asked; None is all.
        max_arm_calls: Model calls of an arm, over all questions and those of the judge included, after which no
            further question begins; called again with more it goes on.
        max_arm_cost: The same in US dollars.
        max_concurrency: How many answers are generated or judged at once.
        retry_failed: Whether arms in which generator or judge failed are tried again.
        on_progress: Called with the progress after each arm of a question.
        policy: The policy of the loop.
        command: The options of the command line, by which `refine resume` can go on.
        settings: Settings of `Policy`, instead of a policy: `max_attempts=3`, ...

    Raises:
        ConfigurationError: If an argument cannot be used, or the folder holds another trial.
        BadSample: If a question cannot be read.
    """
    return finish(atrial(questions, generator, judge, **settings))


@naming_settings("await atrial(questions, generator, judge, truth=...)")
async def atrial(
    questions: _Questions,
    generator: object,
    judge: object,
    *,
    truth: object = None,
    arms: str | Sequence[str | Arm] = DEFAULT_ARMS,
    out: str | Path | None = None,
    draws: int = 1,
    temperature: float | None = None,
    seed: int | None = 0,
    baseline: str | None = None,
    limit: int | None = None,
    max_arm_calls: int | None = None,
    max_arm_cost: float | None = None,
    max_concurrency: int = 8,
    retry_failed: bool = False,
    on_progress: Callable[[Progress], object] | None = None,
    policy: Policy | Mapping[str, Any] | None = None,
    command: dict[str, Any] | None = None,
    **settings: Unpack[PolicySettings],
) -> Trial:
    """Run a trial without blocking the event loop; otherwise as `trial`."""
    counts = {"draws": draws, "max_concurrency": max_concurrency, "max_arm_calls": max_arm_calls}
    for name, count in counts.items():
        if count is not None:
            whole_number(count, setting=name)
    chosen = _checked_policy(policy_of(policy, settings), temperature)
    loop_judge = judge_for(generator, judge)
    true_judge = None if truth is None else _checked_truth(truth, loop_judge)
    plan = TrialPlan(
        questions=_read_questions(questions, limit),
        generator=generator,
        judge=loop_judge,
        truth=true_judge,
        truth_key="" if true_judge is None else fingerprint(true_judge),
        arms=read_arms(arms),
        policy=chosen,
        draws=draws,
        seed=seed,
    )
    named = _baseline(plan.arms, baseline)
    manifest = _manifest(plan, named, temperature, command)
    with _folder(out) as folder, _opened(folder, manifest):
        run = TrialRun(
            plan,
            folder,
            _loops(plan),
            retry_failed=retry_failed,
            on_progress=on_progress,
            limits=ArmLimits(calls=max_arm_calls, cost=max_arm_cost),
        )
        await run.run(max_concurrency)
        result = _result(run, plan, named, None if out is None else folder)
        if true_judge is None:
            write_answers(folder, run.answers())
        result.write(folder)
        return result


def _result(run: TrialRun, plan: TrialPlan, baseline: str, folder: Path | None) -> Trial:
    return Trial(
        rows=tuple(run.rows()),
        arms=tuple(arm.name for arm in plan.arms),
        baseline=baseline,
        max_attempts=plan.policy.max_attempts,
        failed=dict(sorted(run.failed.items())),
        stopped=run.stopped,
        folder=folder,
    )


def _checked_policy(policy: Policy, temperature: float | None) -> Policy:
    """Return the policy of the loop, with the temperature of all attempts.

    Raises:
        ConfigurationError: If arms under it would not be comparable, or nothing could be compared.
    """
    if policy.max_attempts < 2:  # noqa: PLR2004 - the first and one more
        raise ConfigurationError("a trial is about retries: max_attempts is a whole number from 2")
    if policy.candidates > 1 or policy.shadow or policy.sample_rate < 1 or policy.on_exhausted == "interrupt":
        raise ConfigurationError(
            "a trial goes with a loop of one candidate that judges every answer; leave out candidates, shadow, "
            "sample_rate and on_exhausted='interrupt'"
        )
    if temperature is None:
        return policy
    if policy.overrides:
        raise ConfigurationError(
            "temperature=... stands beside overrides, which set it by attempt; leave one of the two out"
        )
    return Policy(
        **{name: getattr(policy, name) for name in policy.model_fields_set},
        overrides={1: {"temperature": temperature}},
    )


def _read_questions(questions: _Questions, limit: int | None) -> list[Sample]:
    """Return the questions as samples.

    Raises:
        ConfigurationError: If there is none.
        BadSample: If one cannot be read, or asks nothing.
    """
    rows: Iterable[Any] = read_rows(questions) if isinstance(questions, str | Path) else questions
    samples = []
    for index, row in enumerate(islice(rows, limit)):
        sample = read_sample({"question": row} if isinstance(row, str) else row)
        if isinstance(sample, BadSample):
            raise sample
        if not sample.user_input:
            raise BadSample(f"row {index}: it has no question; give one, or say which column holds it")
        samples.append(sample)
    if not samples:
        raise ConfigurationError("there are no questions; give at least one")
    return samples


def _checked_truth(truth: object, judge: Judge) -> Judge:
    """Return the truth as a judge.

    Raises:
        ConfigurationError: If it is the loop's own judge, which would mark its own work.
    """
    read = one_judge(truth) if isinstance(truth, str) else as_judge(truth)
    members = tuple(getattr(read, "judges", {}).values())
    if _without_name(judge) in {_without_name(read), *(map(_without_name, members) if len(members) == 1 else ())}:
        raise ConfigurationError(
            f"the truth is the loop's own judge {judge.name!r}, which would mark its own work; give another "
            f"judge, or none, and label the answers afterwards"
        )
    return read


def _without_name(judge: Judge) -> str:
    """Return a fingerprint of a judge that is the same whatever it is called."""
    made = getattr(judge, MADE_WITH, None)
    if not isinstance(made, Mapping):
        return fingerprint(judge)
    return fingerprint(type(judge), {name: value for name, value in made.items() if name != "name"})


def _baseline(arms: Sequence[Arm], baseline: str | None) -> str:
    names = [arm.name for arm in arms]
    if baseline is None:
        return BASELINE if BASELINE in names else FIRST
    if baseline not in names:
        raise ConfigurationError(f"baseline={shortened(baseline)} is none of the arms {', '.join(names)}")
    return baseline


def _loops(plan: TrialPlan) -> dict[str, Loop]:
    """Return the loop of each arm; one alone is built with the checks of a loop, so that they warn once."""
    loops = {
        arm.name: Loop(plan.generator, plan.judge, arm.policy(plan.policy), name=arm.name) for arm in plan.arms
    }
    return {**loops, FIRST: build_loop(plan.generator, plan.judge, plan.policy, name=FIRST)}


def _manifest(
    plan: TrialPlan, baseline: str, temperature: float | None, command: dict[str, Any] | None
) -> TrialManifest:
    digest = blake2b(digest_size=16)
    for sample in plan.questions:
        digest.update(row_json(sample) + b"\n")
    for part in (plan.judge, plan.truth):
        for model in () if part is None else part.models:
            getattr(model, "_model", None)  # a model by name is set up now: its fingerprint has its settings
    return TrialManifest(
        questions=digest.hexdigest(),
        count=len(plan.questions),
        generator=name_of(plan.generator),
        judge=fingerprint(plan.judge),
        truth=plan.truth_key or None,
        arms={arm.name: _described(arm) for arm in plan.arms},
        baseline=baseline,
        draws=plan.draws,
        temperature=temperature,
        seed=plan.seed,
        policy=fingerprint({name: getattr(plan.policy, name) for name in plan.policy.model_fields_set - _COSTS}),
        command=command,
    )


def _described(arm: Arm) -> str:
    if arm.generator is not None:
        return f"asks {name_of(arm.generator)}"
    if arm.augment is None:
        return ""
    return arm.augment if isinstance(arm.augment, str) else fingerprint(arm.augment)


@contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    if out is None:
        with TemporaryDirectory(prefix="refine-trial-") as temporary:
            yield Path(temporary)
        return
    if not str(out).strip():
        raise ConfigurationError("the folder of a trial is empty text; name one, such as trials/one")
    yield Path(out)


@contextmanager
def _opened(folder: Path, manifest: TrialManifest) -> Iterator[None]:
    """Begin a trial in its folder, or go on with it: hold its lock, and check that it is the same.

    Raises:
        ConfigurationError: If the folder holds something else, is in use, or something changed.
    """
    if (folder / "run.json").exists():
        raise ConfigurationError(f"{folder} holds a run of `refine evaluate`; choose another folder")
    make_folder(folder)
    with full_disk_told(folder), locked(folder):
        if (folder / MANIFEST).exists():
            changes = manifest.changes(TrialManifest.read(folder))
            if changes:
                raise ConfigurationError(
                    f"changed since {folder} began: {'; '.join(changes)}; undo it, or choose another folder"
                )
            (folder / SUMMARY).unlink(missing_ok=True)
        manifest.write(folder)
        yield
