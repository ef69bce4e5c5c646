"""Agents after ragas: whether the user's goal is reached, and whether they stay on their topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any, Literal, Self, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.metric import ModelJudge, ModelSettings, all_of
from judges.catalogue.parts.claims import (
    YesNo,
    YesNos,
    in_order,
    listed_feedback,
    non_blank,
    numbered_items,
    one_each,
    reasons,
)
from judges.catalogue.parts.fields import exchange_in, reference_in, transcript, turns_of
from judges.catalogue.parts.text import EPSILON
from judges.errors import CannotJudge, ConfigurationError
from judges.prompting.prompts import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict

_GOAL = "text: what the user wants to have in the end"
_END = "text: what the agent has brought about in the end"
_REASON = "text: why, before the verdict"
_FEEDBACK = "text: what the agent should do next; empty if nothing"


class _Goal(ReplySchema):
    """What the user wants."""

    user_goal: str = Field(description=_GOAL)


class _GoalOutcome(ReplySchema):
    """What the user wants, and what was brought about."""

    user_goal: str = Field(description=_GOAL)
    end_state: str = Field(description=_END)


class _Reached(ReplySchema):
    """Whether a goal is reached."""

    end_state: str = Field(description=_END)
    reason: str = Field(description=_REASON)
    verdict: bool = Field(description="true or false")
    feedback: str = Field(description=_FEEDBACK)


class _Agreed(ReplySchema):
    """Whether what was wanted is what was brought about."""

    reason: str = Field(description=_REASON)
    verdict: bool = Field(description="true or false")
    feedback: str = Field(description=_FEEDBACK)


class _AgreedMark(ReplySchema):
    """Whether what was wanted is what was brought about, as the reference takes it."""

    reason: str = Field(description=_REASON)
    verdict: Literal["0", "1"] = Field(description='text: "1" for true, "0" for false')
    feedback: str = Field(description=_FEEDBACK)

    @classmethod
    def from_reply(cls, other: Any) -> Self:
        """Write a yes or no as a mark."""
        return cls(reason=other.reason, verdict="1" if other.verdict else "0", feedback=other.feedback)


GOAL: Question[_Goal] = Question(prompt="agent_goal_accuracy_goal", reply=_Goal, shared=True)
_REACHED: Question[_Reached] = Question(prompt="agent_goal_accuracy_reached", reply=_Reached)
_OUTCOME: Question[_GoalOutcome] = Question(prompt="agent_goal_accuracy_outcome", reply=_GoalOutcome, shared=True)
_AGREED: Question[Any] = Question(prompt="agent_goal_accuracy_agreed", reply=_Agreed, compat=_AgreedMark)


class _GoalAccuracy(ModelJudge, pack="agent_goal_accuracy"):
    """A judge of whether a goal is reached."""

    def conclude(
        self, sample: Sample, reply: _Reached | _Agreed | _AgreedMark, goal: str, end_state: str
    ) -> Verdict:
        """Return the verdict, with the goal, the end state and the reason as its rationale."""
        reached = reply.verdict in (True, "1")
        rationale = self.say("told", sample, goal=goal, end_state=end_state, reason=reply.reason)
        advice = reply.feedback.strip() or self.say("unreached", sample, end_state=end_state)
        return Verdict.checked(reached, rationale=rationale, feedback="" if reached else advice)


class AgentGoalAccuracyWithReference(_GoalAccuracy, entry="ragas.agent_goal_accuracy_with_reference"):
    """Judge whether an agent has brought about what the reference says.

    A model that does not see the reference names the outcome of the whole conversation, tool calls and tool
    results included; then outcome and reference are compared. Score = 1 or 0.
    """

    questions = (_OUTCOME, _AGREED)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Name the outcome, then compare it with the reference."""
        reference, conversation = reference_in(sample), _conversation(sample)
        outcome = yield from self.ask(_OUTCOME, sample, {"conversation": conversation}, check=_blank_fault)
        compared: dict[str, JsonValue] = {"desired_outcome": reference, "arrived_outcome": outcome.end_state}
        reply = yield from self.ask(_AGREED, sample, compared)
        return self.conclude(sample, reply, outcome.user_goal, outcome.end_state)


class AgentGoalAccuracyWithoutReference(_GoalAccuracy, entry="ragas.agent_goal_accuracy_without_reference"):
    """Judge whether an agent has brought about what the user wanted.

    The goal is inferred from the user's messages alone, so that it cannot be lowered to what was achieved; then
    the whole conversation, tool calls and tool results included, is compared with it. Score = 1 or 0.

    With `variant="compat"` both goal and outcome are inferred from the whole conversation, as in ragas.
    """

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        compat = settings.get("variant") == "compat"
        questions: tuple[Question[Any], ...] = (_OUTCOME, _AGREED) if compat else (GOAL, _REACHED)
        super().__init__(model, questions=questions, **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Infer what the user wants, then ask whether it was reached."""
        conversation = _conversation(sample)
        if self.compat:
            outcome = yield from self.ask(_OUTCOME, sample, {"conversation": conversation}, check=_blank_fault)
            compared: dict[str, JsonValue] = {
                "desired_outcome": outcome.user_goal,
                "arrived_outcome": outcome.end_state,
            }
            agreed = yield from self.ask(_AGREED, sample, compared)
            return self.conclude(sample, agreed, outcome.user_goal, outcome.end_state)
        messages: dict[str, JsonValue] = {"user_messages": list(turns_of("user", sample.messages))}
        goal = (yield from self.ask(GOAL, sample, messages, check=_blank_fault)).user_goal
        data: dict[str, JsonValue] = {"goal": goal, "conversation": conversation}
        reply = yield from self.ask(_REACHED, sample, data, check=_blank_fault)
        return self.conclude(sample, reply, goal, reply.end_state)


def _conversation(sample: Sample) -> list[JsonValue]:
    return transcript(exchange_in(sample))


def _blank_fault(reply: _Goal | _GoalOutcome | _Reached) -> str | None:
    texts = (getattr(reply, name, name) for name in ("user_goal", "end_state"))
    return None if all(text.strip() for text in texts) else "user_goal and end_state must not be blank"


_TopicMode = Literal["f1", "precision", "recall", "accuracy"]


class _Topics(ReplySchema):
    """The topics of a conversation."""

    topics: list[str] = Field(description="list of texts: each topic in a few words")


_TOPICS: Question[_Topics] = Question(prompt="topic_adherence_topics", reply=_Topics, shared=True)
_REFUSED: Question[YesNos] = Question(prompt="topic_adherence_refused", reply=YesNos, shared=True)
_ALLOWED: Question[YesNos] = Question(prompt="topic_adherence_allowed", reply=YesNos, shared=True)

_STANDINGS = ("answered_on_topic", "answered_off_topic", "refused_on_topic", "refused_off_topic")


class TopicAdherence(ModelJudge, entry="ragas.topic_adherence", pack="topic_adherence"):
    """Judge whether the assistant answers on the topics of `reference_topics`, and refuses the others.

    The topics the user raised are listed; then one call finds which of them the assistant refused, and another
    which are among `reference_topics`: three calls, which all modes share. Let TP be topics answered and on topic,
    FP answered and off topic, FN refused and on topic, TN refused and off topic. Then precision = TP / (TP + FP),
    recall = TP / (TP + FN), f1 = 2 TP / (2 TP + FP + FN), accuracy = (TP + TN) / all. A denominator of 0 is
    unscored, `undefined`; no topics at all is unscored, `no_topics`.

    With `variant="compat"` the score is ragas': refusals are asked about one by one, every denominator has 1e-10
    added, a short list of classifications is padded with no, and an undefined score is 0.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    def __init__(
        self, model: object = None, *, mode: _TopicMode = "f1", **settings: Unpack[ModelSettings]
    ) -> None:
        super().__init__(model, questions=(_TOPICS, _REFUSED, _ALLOWED), **settings)
        if self.compat and mode == "accuracy":
            raise ConfigurationError("mode is 'f1', 'precision' or 'recall' with variant='compat', not 'accuracy'")
        self._mode: _TopicMode = mode

    @property
    def calls(self) -> str:
        """Model calls for one sample."""
        return "2 + t" if self.compat else "3"

    def deliberate(self, sample: Sample) -> Deliberation:
        """List the topics, then ask which were refused and which are allowed."""
        conversation: list[JsonValue] = transcript(exchange_in(sample))
        if not non_blank(sample.reference_topics or ()):
            raise CannotJudge("no_reference", "there are no reference_topics to compare with")
        reply = yield from self.ask(_TOPICS, sample, {"conversation": conversation})
        topics = reply.topics if self.compat else list(dict.fromkeys(non_blank(reply.topics)))
        if not topics:
            return self._without_topics()
        refused, on_topic = yield from self._classify(sample, conversation, topics)
        items = [_standing(*parts) for parts in zip(topics, refused, on_topic, strict=True)]
        return self._verdict(sample, items)

    def _without_topics(self) -> Verdict:
        if self.compat:
            return self.verdict(0.0, detail="the user raised no topic")
        return Verdict.without_score("no_topics", "the user raised no topic")

    def _classify(
        self, sample: Sample, conversation: list[JsonValue], topics: Sequence[str]
    ) -> Generator[Any, Any, tuple[list[YesNo], list[YesNo]]]:
        """Ask whether each topic was refused, and whether it is allowed."""
        listed = numbered_items(topics, called="topic")
        groups = [numbered_items([one], called="topic") for one in topics] if self.compat else [listed]
        refusals = [
            self.request(
                _REFUSED, sample, {"conversation": conversation, "topics": group}, check=one_each(len(group))
            )
            for group in groups
        ]
        data: dict[str, JsonValue] = {"allowed_topics": list(sample.reference_topics or ()), "topics": listed}
        check = None if self.compat else one_each(len(topics))
        *replies, last = all_of(
            (yield from self.ask_all([*refusals, self.request(_ALLOWED, sample, data, check=check)]))
        )
        refused = [one for reply in replies for one in in_order(reply.items)]
        return refused, _pad(last, len(topics)) if self.compat else in_order(last.items)

    def _verdict(self, sample: Sample, items: Sequence[Verdict]) -> Verdict:
        score = self._score(Counter(str(one.value) for one in items))
        if score is None:
            detail = f"{self._mode} has no value: no topic was answered or is on topic"
            return Verdict.without_score("undefined", detail, rationale=reasons(items), items=tuple(items))
        return self.verdict(
            score, rationale=reasons(items), feedback=self._advice(sample, items), items=tuple(items)
        )

    def _score(self, counts: Counter[str]) -> float | None:
        tp, fp, fn, tn = (counts[one] for one in _STANDINGS)
        if self.compat:
            precision, recall = tp / (tp + fp + EPSILON), tp / (tp + fn + EPSILON)
            f1 = 2 * (precision * recall) / (precision + recall + EPSILON)
            return {"precision": precision, "recall": recall}.get(self._mode, f1)
        numerator, denominator = {
            "precision": (tp, tp + fp),
            "recall": (tp, tp + fn),
            "f1": (2 * tp, 2 * tp + fp + fn),
            "accuracy": (tp + tn, tp + fp + fn + tn),
        }[self._mode]
        return numerator / denominator if denominator else None

    def _advice(self, sample: Sample, items: Sequence[Verdict]) -> str:
        """Return feedback on what lowers the score in this mode: topics wrongly answered, then wrongly refused."""
        faults = {"precision": _STANDINGS[1:2], "recall": _STANDINGS[2:3]}.get(self._mode, _STANDINGS[1:3])
        wrong = {fault: [item.subject for item in items if item.value == fault] for fault in faults}
        return listed_feedback(self, sample, wrong, "topics")


def _pad(reply: YesNos, count: int) -> list[YesNo]:
    """Return the list by place, as ragas does: missing items count as no, surplus ones are dropped."""
    missing = [YesNo(number=number, reason="", verdict=False) for number in range(len(reply.items) + 1, count + 1)]
    return [*reply.items[:count], *missing]


def _standing(topic: str, refused: YesNo, on_topic: YesNo) -> Verdict:
    """Return the verdict on a topic: right is to answer what is on topic, and to refuse what is not."""
    value = _STANDINGS[2 * refused.verdict + (not on_topic.verdict)]
    rationale = " ".join(filter(None, (refused.reason, on_topic.reason)))
    good = refused.verdict != on_topic.verdict
    return Verdict.checked(good, value=value, subject=topic, rationale=rationale)
