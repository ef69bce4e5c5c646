"""A certificate as a file: what was promised about a loop, and of which loop.

Reading one needs no numpy, since the loop does so before it answers. Its id is a digest of its content, which
shows that a file was changed, not who wrote it: keep certificates where you keep your configuration.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, JsonValue, ValidationError

from judges.errors import ConfigurationError, shortened
from judges.runtime.faults import write_whole
from judges.verdict import HIGHEST


class Subject(BaseModel, frozen=True, extra="forbid"):
    """The loop that a certificate is about: whatever its promise depends on, as far as that can be known.

    Args:
        judge: Name of the judge.
        judge_digest: Fingerprint of the judge: its class, prompts, packs, settings and models; empty if unknown.
        judge_models: Names of the models it asks.
        judge_models_digest: Fingerprint of these models with their settings; empty if unknown.
        generator: Name of the generator.
        generator_digest: Fingerprint of the generator, as far as it can be read; empty if it cannot.
        generator_known: Whether that covers all of it; it does not for a function or an agent.
        policy: Settings of the loop that differ from the defaults, and always `max_attempts`, `patience` and
            `feedback`, a digest of what the generator is shown on a retry. What has no influence on the answers
            that pass is left out.
    """

    judge: str = ""
    judge_digest: str = ""
    judge_models: tuple[str, ...] = ()
    judge_models_digest: str = ""
    generator: str = ""
    generator_digest: str = ""
    generator_known: bool = False
    policy: Mapping[str, JsonValue] = {}

    @property
    def max_attempts(self) -> int | None:
        """Most attempts of the loop; None if unknown."""
        value = self.policy.get("max_attempts")
        return value if isinstance(value, int) else None

    @property
    def patience(self) -> int | None:
        """Attempts without a gain after which the loop stops; None: it does not."""
        value = self.policy.get("patience")
        return value if isinstance(value, int) else None

    def changes(self, now: Subject) -> list[str]:
        """Return what is known to differ in the loop `now`, in words."""
        return [*self._judge_changes(now), *self._generator_changes(now), *self._policy_changes(now)]

    def doubts(self, now: Subject) -> list[str]:
        """Return what cannot be compared, in words."""
        return [] if self.generator_known and now.generator_known else [f"the generator {now.generator!r}"]

    def _judge_changes(self, now: Subject) -> Iterator[str]:
        if not (self.judge_digest and now.judge_digest):
            yield (
                "the fingerprint of the judge is not known"
                if self.judge_digest
                else "it does not say of which judge"
            )
        elif self.judge_models_digest != now.judge_models_digest:
            if self.judge_models != now.judge_models:
                yield f"the judge's model was {_names(self.judge_models)} and is {_names(now.judge_models)}"
            else:
                yield f"the settings of the judge's model {_names(now.judge_models)} changed"
        elif self.judge_digest != now.judge_digest:
            if self.judge != now.judge:
                yield f"the judge was {self.judge!r} and is {now.judge!r}"
            else:
                yield f"the prompts, packs or settings of the judge {now.judge!r} changed"

    def _generator_changes(self, now: Subject) -> Iterator[str]:
        if "" in (self.generator_digest, now.generator_digest) or self.generator_digest == now.generator_digest:
            return
        if self.generator != now.generator:
            yield f"the generator was {self.generator!r} and is {now.generator!r}"
        else:
            yield f"the settings or the code of the generator {now.generator!r} changed"

    def _policy_changes(self, now: Subject) -> Iterator[str]:
        names = {*self.policy, *now.policy}
        if self.policy.get("feedback") != now.policy.get("feedback"):
            yield "what the generator is shown on a retry (augment) changed"
            names -= {"augment"}
        for name in sorted(names - {"feedback"}):
            before, after = self.policy.get(name, _DEFAULT), now.policy.get(name, _DEFAULT)
            if before != after:
                yield f"{name} was {_value(before)} and is {_value(after)}"


def _share(share: float) -> str:
    """Return a share as people write it: 95 %, 97.5 %, 99.17 %."""
    return f"{float(f'{100 * share:.4g}'):g} %"


_DEFAULT = "the default"
_SECOND = 2


def _names(models: tuple[str, ...]) -> str:
    return ", ".join(map(repr, models)) or "none"


def _value(value: object) -> str:
    return str(value) if value == _DEFAULT else shortened(value)


_NEVER = 5
"""The rating from which an escalation never ends, as there is none."""
_TINY = 0.001
"""What is printed as less than this."""
TestMethod = Literal["sequence", "fallback", "anytime", "assisted", "weighted"]


class CertifiedRow(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """What the calibration said of one policy of the chain.

    Args:
        policy: Its threshold, or, of an escalation, the least rating accepted from each judge, 5 for never.
        released: Answers it releases in the calibration runs.
        bad: Those that people call bad, and those without a label.
        rate: bad / released; None where nothing is released.
        upper: Exact upper bound of the share of bad ones.
        p: Exact p-value of "the share of bad ones is above alpha"; None where it was not tested.
        e: Evidence that holds at any look.
        status: What follows: `"certified"`, `"refused"`, `"too_few"` or `"not_tested"`.
        release_rate: Share of the runs in which it releases an answer.
        release_interval: Its 95 % interval.
        mean_attempts: Mean attempts a run.
        shares: Of an escalation: share of the runs that each judge decides, and last that people do.
        cost: Of an escalation, where known: mean cost of judging a run, in US dollars.
        first_good: Runs whose first answer was good, where it is promised how many of them come out bad.
        broken: Of these, runs whose released answer is bad.
        broken_upper: Exact upper bound of their share.
    """

    policy: float | tuple[float, ...]
    released: int = Field(ge=0)
    bad: int = Field(ge=0)
    rate: float | None = None
    upper: float | None = None
    p: float | None = None
    e: float | None = None
    status: Literal["certified", "refused", "too_few", "not_tested"]
    release_rate: float | None = None
    release_interval: tuple[float, float] | None = None
    mean_attempts: float | None = None
    shares: tuple[float, ...] = ()
    cost: float | None = None
    first_good: int | None = None
    broken: int | None = None
    broken_upper: float | None = None

    @property
    def breaks_text(self) -> str:
        """How many good first answers come out bad; empty where nothing is promised about them."""
        if self.broken_upper is None:
            return ""
        return (
            f"{self.broken} of {self.first_good} good first answers come out bad, at most {self.broken_upper:.1%}"
        )

    @property
    def policy_text(self) -> str:
        """The policy in words."""
        if isinstance(self.policy, tuple):
            return " / ".join("never" if least >= _NEVER else f"{least:g}" for least in self.policy)
        return f"{self.policy:g}"


_HEADER = ("from", "passed", "bad", "share", "at most", "p", "status", "of the runs", "tries")


def aligned_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table: its first column is aligned to the left, and all others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *rest in rows:
        cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()


def _cells(row: CertifiedRow, *, anytime: bool) -> tuple[str, ...]:
    interval = row.release_interval
    bounds = "" if interval is None else f" ({100 * interval[0]:.0f}-{interval[1]:.0%})"
    evidence = row.e if anytime else row.p
    return (
        row.policy_text,
        str(row.released),
        str(row.bad),
        "-" if row.rate is None else f"{row.rate:.1%}",
        "-" if row.upper is None else f"{row.upper:.1%}",
        _evidence_text(evidence, anytime=anytime),
        row.status.replace("_", " "),
        "" if row.release_rate is None else f"{row.release_rate:.0%}{bounds}",
        "" if row.mean_attempts is None else f"{row.mean_attempts:.2f}",
    )


def _evidence_text(evidence: float | None, *, anytime: bool) -> str:
    if evidence is None:
        return "-"
    return f"E {evidence:.2g}" if anytime else f"{evidence:.2g}" if evidence >= _TINY else f"<{_TINY}"


def _stages(shares: Sequence[float]) -> str:
    *judges, people = shares
    decided = ", ".join(f"judge {number} releases {share:.0%}" for number, share in enumerate(judges, 1))
    return f"{decided}, people decide {people:.0%}"


_FORMAT: Literal["selfrefine certificate"] = "selfrefine certificate"
_VERSION: Literal[1] = 1

_ID_LENGTH = 32
_LARGEST_FILE = 10_000_000
_AGAIN = "certify again with `refine certify`"

Kind = Literal["rating", "score", "escalation"]
Risk = Literal["released", "per_question"]
Estimand = Literal["traffic", "questions"]


class IssuedCertificate(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """A certificate, or the finding that nothing is certified, as it is written to a file.

    Args:
        id: Digest of everything else.
        kind: Whether the threshold is on ratings, on scores, or the policy is an escalation of judges.
        subject: The loop it is about.
        threshold: The certified success rating (4.9: 4 with a score of at least .9) or score, or the place of the
            escalation in the chain; None if nothing is certified.
        alpha: Largest tolerated share of bad answers.
        delta: Probability that the promise does not hold, as spent here.
        break_at_most: The second promise: of first answers that were good at most this share comes out bad; None
            where that is not promised.
        final_bad: Share of bad ones among the loops' final answers with labels, shown or not; None if unknown.
        delta_in_all: The probability that was asked for; `delta` is its share where labels are used again.
        use_of_labels: Which certificate on these labels it is, from 1.
        method: See `judges.offline.statistics.Certificate`.
        harm: Where harm is graded: that of an answer which people rate 1, 2, 3 and 4, each 0 to 1; else empty.
        risk: `"released"`: of the answers that pass at most alpha are bad. `"per_question"`: of all questions at
            most alpha get a bad answer.
        estimand: `"traffic"`: of answers as often as they are asked. `"questions"`: of questions, each once, as
            all certificates of earlier versions.
        assumes: What it takes for granted besides; empty for nothing.
        good: Least human rating that is good.
        runs: Calibration runs; of questions one for each.
        released: Of these, runs in which the certified policy, or the best one, releases an answer.
        bad: Of these, bad ones.
        labels: Labels used.
        labels_digest: Digest of these labels and of what they are about.
        rows: The whole table, strictest policy first.
        reachable_alpha: If nothing is certified: the alpha that the best policy would have met. Not a certificate.
        labels_needed: If nothing is certified: labelled runs that probably suffice, by what is true of the best
            policy's answers; None where no number suffices.
        answer_models: Models that answered in the calibration runs, as providers name them; empty if unknown.
        notes: What a reader must know besides.
        recorded_from: Time of the first run, where known, in ISO format.
        recorded_until: Time of the last.
        issued_at: When it was issued, in ISO format.
        written_by: Version of the library.
    """

    format: Literal["selfrefine certificate"] = _FORMAT
    version: Literal[1] = _VERSION
    id: str = ""
    kind: Kind = "rating"
    subject: Subject
    threshold: float | None
    alpha: float = Field(gt=0, lt=1)
    delta: float = Field(gt=0, lt=1)
    delta_in_all: float = Field(gt=0, lt=1)
    break_at_most: float | None = Field(default=None, gt=0, lt=1)
    final_bad: float | None = None
    use_of_labels: int = Field(default=1, ge=1)
    method: TestMethod
    harm: tuple[float, ...] = ()
    risk: Risk = "released"
    estimand: Estimand = "questions"
    assumes: str = ""
    good: float
    runs: int = Field(ge=0)
    released: int = Field(ge=0)
    bad: int = Field(ge=0)
    labels: int = Field(ge=0)
    labels_digest: str
    rows: tuple[CertifiedRow, ...]
    reachable_alpha: float | None = None
    labels_needed: int | None = None
    answer_models: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    recorded_from: str | None = None
    recorded_until: str | None = None
    issued_at: str
    written_by: str

    def __str__(self) -> str:
        above, columns, rows, below = self.report_parts
        return "\n".join([above, "", *aligned_lines([columns, *rows]), "", below])

    @property
    def report_parts(self) -> tuple[str, list[str], list[list[str]], str]:
        """The report: what stands above its table, the headings and the rows of that, and what stands below."""
        is_anytime = self.method in {"anytime", "assisted"}
        cells = [_cells(row, anytime=is_anytime) for row in self.rows]
        shown = [place for place in range(len(_HEADER)) if any(row[place] for row in cells)]
        table = [[row[place] for place in shown] for row in cells]
        return "\n".join(self._verdict()), [_HEADER[place] for place in shown], table, "\n".join(self._terms())

    def _terms(self) -> Iterator[str]:
        """Yield who decides and what is broken, where that is part of the promise, and what it rests on."""
        for row in self.rows:
            if row.shares:
                yield f"{row.policy_text}: {_stages(row.shares)}"
            if row.breaks_text:
                yield f"{row.policy_text}: {row.breaks_text}"
        units = "runs" if self.estimand == "traffic" else "questions"
        yield f"{self.runs} {units}, {self.labels} labels; {_METHODS[self.method]}"
        if self.delta < self.delta_in_all:
            yield f"Asked for {_share(1 - self.delta_in_all)}: {self._use}"
        if self.assumes and self.threshold is None:
            yield f"ASSUMES {self.assumes}"
        yield from self.notes
        if self.certified:
            yield (
                "It holds for questions like these, this judge, these prompts and models, and this loop; a change "
                "voids it. It says nothing about answers that did not pass, nor about any single answer."
            )

    @property
    def _use(self) -> str:
        """Why the certificate is held to more than was asked for."""
        again = self.use_of_labels
        sure = f"this certificate must hold at {_share(1 - self.delta)}"
        if again == 1:
            return f"these labels may be used again, so {sure}; --once spends all on it."
        times = "once" if again == _SECOND else f"{again - 1} times"
        return f"these labels were used {times} before, so {sure}."

    @property
    def coverage(self) -> str:
        """How many of the answers that people were shown in the calibration runs the promise is about."""
        row = next((row for row in self.rows if row.policy == self.threshold), None)
        if row is None or row.release_rate is None:
            return ""
        covered = round(row.release_rate * self.runs)
        return (
            f"{covered} of {self.runs} answers shown are covered; nothing is promised of those that did not pass "
            f"or were not judged."
        )

    def _verdict(self) -> Iterator[str]:
        if self.threshold is not None:
            yield f"CERTIFIED{' ON AN ASSUMPTION' if self.assumes else ''}  {self.policy_name}"
            yield f"{self.promise[0].upper()}{self.promise[1:]}."
            if self.assumes:
                yield f"ASSUMES {self.assumes}"
            if self.coverage:
                yield self.coverage
            return
        yield "NOT CERTIFIED  this is an answer: no threshold keeps the promise that was asked for"
        yield f"Asked for: at most {self.alpha:.1%} bad, with confidence {1 - self.delta_in_all:.1%}."
        if self.reachable_alpha is not None:
            yield f"The best one would have passed at {self.reachable_alpha:.1%} (not a certificate)."
        yield self.needed
        if self.withheld_at_least is not None:
            yield (
                f"Of the final answers {self.final_bad:.1%} are bad: whatever the judge, at least "
                f"{self.withheld_at_least:.1%} must be withheld."
            )

    @property
    def withheld_at_least(self) -> float | None:
        """Share of answers that any judge must withhold to keep the promise; None where that is none, or unknown.

        Of a share mu of bad answers (mu - alpha) / (1 - alpha) at least, reached by one that never errs.
        """
        if self.final_bad is None or self.harm or self.final_bad <= self.alpha:
            return None
        if self.risk == "per_question":
            return self.final_bad - self.alpha
        return (self.final_bad - self.alpha) / (1 - self.alpha)

    @property
    def needed(self) -> str:
        """What would be needed where nothing is certified, as a sentence; empty where something is."""
        if self.certified:
            return ""
        breaking = self._breaking
        if breaking is not None:
            return breaking
        if self.labels_needed is not None:
            more = max(self.labels_needed - min(self.released, self.labels), 1)
            return (
                f"About {self.labels_needed} released and labelled answers are needed, {more} more than now, if "
                f"the share of bad ones stays as it is."
            )
        rates = [row.rate for row in self.rows if row.rate is not None]
        if rates and min(rates) < self.alpha:
            return (
                "More than 3,000 labels would be needed: the share of bad answers is close to what is tolerated."
            )
        return (
            "More labels will not do: at least as many answers are bad as are tolerated. Mend judge or generator."
        )

    @property
    def _breaking(self) -> str | None:
        """What stands in the way where the first promise would hold alone."""
        level = self.break_at_most
        for row in self.rows if level is not None else ():
            if level is None or row.upper is None or row.upper > self.alpha:
                continue
            if row.broken_upper is None or row.broken_upper > level:
                least = math.ceil(round(math.log(self.delta) / math.log(1 - level), 9))
                return (
                    f"The promise about bad answers would hold alone. Of {row.first_good} good first answers "
                    f"{row.broken} came out bad; {least} with none broken are the least that certify {level:.1%}."
                )
        return None

    @classmethod
    def issue(cls, **fields: Any) -> Self:
        """Return a certificate with its id."""
        draft = cls(**fields)
        return draft.model_copy(update={"id": draft.digest()})

    @classmethod
    def read(cls, source: object) -> Self:
        """Return a certificate from its file, or one that is read already.

        Raises:
            ConfigurationError: If there is none, or it was changed, or is another program's; in one line.
        """
        if isinstance(source, cls):
            return source
        if not isinstance(source, str | os.PathLike):
            raise ConfigurationError(f"certificate is the path of a certificate.json, not {shortened(source)}")
        path = Path(source)
        data = _json_of(path)
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise ConfigurationError(
                f"{path} is no certificate of selfrefine; give the file `refine certify` wrote"
            )
        if data.get("version") != _VERSION:
            raise ConfigurationError(
                f"{path} has version {shortened(data.get('version'))}, and this selfrefine reads {_VERSION}; "
                f"update selfrefine, or {_AGAIN}"
            )
        try:
            certificate = cls.model_validate(data)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            place = ".".join(map(str, fault["loc"]))
            raise ConfigurationError(f"{path} cannot be read, at {place!r}: {fault['msg']}; {_AGAIN}") from None
        if certificate.id != _digest({name: value for name, value in data.items() if name != "id"}):
            raise ConfigurationError(f"{path} was changed after it was issued: its id does not fit; {_AGAIN}")
        return certificate

    def write(self, path: str | Path) -> None:
        """Write it to a file in place of what that holds."""
        target = Path(path)
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=2, allow_nan=False)
        try:
            write_whole(target, f"{text}\n")
        except OSError as error:
            raise ConfigurationError(
                f"{target} cannot be written: {error.strerror}; choose another --out"
            ) from error

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON data."""
        return self.model_dump(mode="json")

    def digest(self) -> str:
        """Return the id that fits the content."""
        return _digest(self.model_dump(mode="json", exclude={"id"}))

    @property
    def certified(self) -> bool:
        """True if anything is certified."""
        return self.threshold is not None

    @property
    def promises_share(self) -> bool:
        """True if the promise is about a share of bad answers among those that pass, which audits can watch."""
        return not self.harm and self.risk == "released"

    @property
    def success_rating(self) -> int:
        """The success rating it allows a loop.

        Raises:
            ConfigurationError: If it certifies nothing, or no success rating; in one line.
        """
        name, value = self.acceptance
        if name != "success_rating":
            raise ConfigurationError(
                f"certificate {self.id[:8]} is about a score: the loop accepts by {name}={value:g}"
            )
        return math.floor(value)

    @property
    def settings(self) -> dict[str, float]:
        """The settings of a loop that it allows: a success rating, a success score, or both, for 4.9 say.

        Raises:
            ConfigurationError: If it certifies nothing, or an escalation of judges; in one line.
        """
        return accepting(*self.acceptance)

    @property
    def acceptance(self) -> tuple[Literal["success_rating", "success_score"], float]:
        """The setting of a loop that it allows, and its value.

        Raises:
            ConfigurationError: If it certifies nothing, or an escalation of judges; in one line.
        """
        if self.threshold is None:
            raise ConfigurationError(
                f"certificate {self.id[:8]} says that nothing is certified at alpha {self.alpha:.1%}; label more "
                f"runs and certify again, or leave the certificate out and set success_rating yourself"
            )
        if self.kind == "escalation":
            raise ConfigurationError(
                f"certificate {self.id[:8]} is about an escalation of judges, and a loop accepts by the rating or "
                f"the score of one; {self._remedy}"
            )
        if self.kind == "score":
            return "success_score", self.threshold
        return "success_rating", self.threshold

    @property
    def _remedy(self) -> str:
        """How a loop comes to a certificate of its own, where this one is of another kind."""
        policy = self.rows[int(self.threshold or 0)].policy
        first = policy[0] if isinstance(policy, tuple) else policy
        judge = "the last judge alone" if first > HIGHEST else f"judges.Escalation([...], sure={first:g})"
        return f"give the loop {judge} as its judge, record it, and certify that by rating"

    @property
    def policy_name(self) -> str:
        """What is certified, in words."""
        if self.threshold is None:
            return "nothing"
        if self.kind == "escalation":
            return f"escalation, least ratings {self.rows[int(self.threshold)].policy_text}"
        loop = {} if self.subject.max_attempts is None else {"max_attempts": self.subject.max_attempts}
        return ", ".join(f"{name}={value:g}" for name, value in {**self.settings, **loop}.items())

    @property
    def promise(self) -> str:
        """The promise as a sentence."""
        if self.threshold is None:
            return f"nothing is certified at alpha = {self.alpha:.1%}"
        over = "answers that pass" if self.risk == "released" else "questions"
        if self.harm:
            scale = ", ".join(f"{rating}: {loss:g}" for rating, loss in enumerate(self.harm, 1))
            return (
                f"the {over} do at most {self.alpha:.1%} of the worst harm on average, with confidence "
                f"{1 - self.delta_in_all:.1%} (harm by people's rating: {scale})"
            )
        what = "are bad" if self.risk == "released" else "get a bad answer"
        breaks = ""
        if self.break_at_most is not None:
            breaks = f" and at most {self.break_at_most:.1%} of first answers that were good come out bad, both"
        of = "questions counted as often as asked" if self.estimand == "traffic" else "each question counted once"
        sure = f"with confidence {1 - self.delta_in_all:.1%}"
        return f"at most {self.alpha:.1%} of the {over} {what},{breaks} {sure}, {of}"


_METHODS = {
    "sequence": "exact test, strictest first",
    "fallback": "exact test, with shares of delta",
    "anytime": "e-values, which hold at any look",
    "assisted": "e-values with the judge as control variate, which hold at any look",
    "weighted": "Hoeffding-Bentkus bound, for weights and graded harm",
}


def accepting(name: Literal["success_rating", "success_score"], threshold: float) -> dict[str, float]:
    """Return a threshold as settings of a loop; a rating of 4.9 is one of 4 with a score of at least .9."""
    if name == "success_score":
        return {name: threshold}
    rating = math.floor(threshold)
    return {name: rating, **({"success_score": round(threshold - rating, _DIGITS)} if threshold > rating else {})}


_DIGITS = 6


def _json_of(path: Path) -> object:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise ConfigurationError(
                f"{path} is too large for a certificate; give the file `refine certify` wrote"
            )
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"there is no certificate {str(path)!r} ({error.strerror}); {_AGAIN}") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(f"{path} is no certificate of selfrefine, and no JSON; {_AGAIN}") from None


def _digest(content: Mapping[str, object]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]
