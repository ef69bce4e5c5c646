"""Judges of a question, before there is an answer: which judge can be one, and what it is shown."""

from __future__ import annotations

from collections.abc import Mapping

from judges.compose import FileJudges, Resolve, resolve_names
from judges.compose.panel import CompositeJudge, Panel, as_judge
from judges.entry import Explanation
from judges.errors import ConfigurationError
from judges.judge import Judge
from judges.model import JudgeModel
from judges.requests import Consult, Deliberation
from judges.sample import Sample, canonical_field
from judges.verdict import Verdict


class QuestionJudge(Judge):
    """Shows a judge the question alone: as the conversation, or, to one that reads an answer alone, in its place.

    Args:
        judge: The judge.

    Raises:
        ConfigurationError: If it needs more than the question.
    """

    def __init__(self, judge: Judge) -> None:
        before = judge.before_answer()
        self._judge = judge if before is None else before
        self._as_answer = before is None and _reads_answer_alone(judge)
        self.name = judge.name

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        """The models that the judge asks."""
        return self._judge.models

    def explain(self) -> Explanation:
        """Describe the judge."""
        return self._judge.explain()

    def deliberate(self, sample: Sample) -> Deliberation:
        """Consult the judge about the question."""
        question = sample.question
        if not question.strip():  # an empty message after others, or none but a tool's result
            messages = () if isinstance(sample.user_input, str | None) else sample.user_input
            question = "\n".join(one.content for one in messages if one.role in ("user", "tool"))
        if not question.strip():
            return Verdict.without_score("no_question", "there is no question to judge")
        shown = {"response": question} if self._as_answer else {"user_input": sample.user_input}
        verdict: Verdict = yield Consult(self._judge, Sample(**shown))
        return verdict


def as_input_judge(candidate: object, *, resolve: Resolve = resolve_names) -> Judge:
    """Return a judge of questions made from whatever `as_judge` takes; of several all must pass.

    It is one that needs the question alone (`user_input`), or a text alone (`response`), such as checks, personal
    data and harm, which is then shown the question; or one that knows attacks before there is an answer, such as
    `prompt_injection`.

    Args:
        candidate: What to make one of.
        resolve: What loads judges by name.

    Raises:
        ConfigurationError: If it is no judge, or one that needs an answer or evidence beside the question.
    """
    if isinstance(candidate, str | list | tuple | Mapping):
        candidate = resolve(candidate)
    if isinstance(candidate, FileJudges):
        candidate = dict(candidate)
    if isinstance(candidate, Mapping):
        members = {name: as_input_judge(as_judge(member, name=name)) for name, member in candidate.items()}
        return next(iter(members.values())) if len(members) == 1 else Panel(members, name="input")
    if isinstance(candidate, list | tuple):
        judges = [as_input_judge(member) for member in candidate]
        return judges[0] if len(judges) == 1 else Panel(judges, name="input")
    judge = as_judge(candidate)
    return judge if isinstance(judge, QuestionJudge) else QuestionJudge(judge)


def _reads_answer_alone(judge: Judge) -> bool:
    """Check whether a judge is to be shown the question in place of an answer.

    Raises:
        ConfigurationError: If it can judge no question.
    """
    leaves = list(_leaves(judge))
    needs = [{canonical_field(need) or need for need in leaf.explain().needs} for leaf in leaves]
    kinds = {frozenset(need) for need in needs}
    if kinds <= {frozenset(), frozenset({"user_input"})}:
        return False
    if kinds <= {frozenset({"response"})}:
        return True
    if len(leaves) > 1:
        raise ConfigurationError(
            f"{judge.name!r} is made of judges that read different things; give an input judge's members as a list"
        )
    raise ConfigurationError(
        f"{judge.name!r} is no judge of the question alone: it needs {' and '.join(sorted(needs[0]))}; name one "
        f"that needs the question or a text, such as prompt_injection, harm or pii_leakage"
    )


def _leaves(judge: Judge) -> list[Judge]:
    if not isinstance(judge, CompositeJudge):
        return [judge]
    return [leaf for member in judge.judges.values() for leaf in _leaves(member)]
