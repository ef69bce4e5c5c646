"""Agent goal accuracy: whether the user's goal is reached at the end of a conversation."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.model_judge import ModelJudge, ModelSettings
from judges.catalogue.parts.evidence import transcript
from judges.catalogue.parts.exchange import exchange_in, turns_of
from judges.catalogue.parts.needed import reference_in
from judges.entry import Entry
from judges.prompting.questions import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict

_GOAL = "text: what the user wants to have in the end"
_END = "text: what the agent has brought about in the end"
_REASON = "text: why, before the verdict"
_FEEDBACK = "text: what the agent should do next; empty if nothing"


class Goal(ReplySchema):
    """What the user wants."""

    user_goal: str = Field(description=_GOAL)


class GoalOutcome(ReplySchema):
    """What the user wants, and what was brought about."""

    user_goal: str = Field(description=_GOAL)
    end_state: str = Field(description=_END)


class Reached(ReplySchema):
    """Whether a goal is reached."""

    end_state: str = Field(description=_END)
    reason: str = Field(description=_REASON)
    verdict: bool = Field(description="true or false")
    feedback: str = Field(description=_FEEDBACK)


class Agreed(ReplySchema):
    """Whether what was wanted is what was brought about."""

    reason: str = Field(description=_REASON)
    verdict: bool = Field(description="true or false")
    feedback: str = Field(description=_FEEDBACK)


class AgreedMark(ReplySchema):
    """Whether what was wanted is what was brought about, as the reference takes it."""

    reason: str = Field(description=_REASON)
    verdict: Literal["0", "1"] = Field(description='text: "1" for true, "0" for false')
    feedback: str = Field(description=_FEEDBACK)

    @classmethod
    def from_reply(cls, other: Any) -> Self:
        """Write a yes or no as a mark."""
        return cls(reason=other.reason, verdict="1" if other.verdict else "0", feedback=other.feedback)


GOAL: Question[Goal] = Question(prompt="agent_goal_accuracy_goal", reply=Goal, shared=True)
REACHED: Question[Reached] = Question(prompt="agent_goal_accuracy_reached", reply=Reached)
OUTCOME: Question[GoalOutcome] = Question(prompt="agent_goal_accuracy_outcome", reply=GoalOutcome, shared=True)
AGREED: Question[Any] = Question(prompt="agent_goal_accuracy_agreed", reply=Agreed, compat=AgreedMark)


class GoalAccuracy(ModelJudge):
    """A judge of whether a goal is reached."""

    pack = "agent_goal_accuracy"

    def conclude(self, sample: Sample, reply: Reached | Agreed | AgreedMark, goal: str, end_state: str) -> Verdict:
        """Return the verdict, with the goal, the end state and the reason as its rationale."""
        reached = reply.verdict in (True, "1")
        rationale = self.say("told", sample, goal=goal, end_state=end_state, reason=reply.reason)
        advice = reply.feedback.strip() or self.say("unreached", sample, end_state=end_state)
        return Verdict.checked(reached, rationale=rationale, feedback="" if reached else advice)


class AgentGoalAccuracyWithReference(GoalAccuracy):
    """Judge whether an agent has brought about what the reference says.

    A model that does not see the reference names the outcome of the whole conversation, tool calls and tool
    results included; then outcome and reference are compared. Score = 1 or 0.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.agent_goal_accuracy_with_reference",
        aliases=("AgentGoalAccuracyWithReference", "agent_goal_accuracy_with_reference"),
        asks="Has the agent brought about what was expected?",
        needs=("user_input", "reference"),
        calls="2",
        scale="yes or no",
        subject="agent",
        source="ragas 0.4",
        differs="A closed yes or no with its reasons and with feedback; a name of its own.",
        tags=("task success", "outcome", "tools"),
        follows="both generations, which agree",
    )

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        super().__init__(model, questions=(OUTCOME, AGREED), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Name the outcome, then compare it with the reference."""
        reference, conversation = reference_in(sample), _conversation(sample)
        outcome = yield from self.ask(OUTCOME, sample, {"conversation": conversation}, check=_blank_fault)
        compared: dict[str, JsonValue] = {"desired_outcome": reference, "arrived_outcome": outcome.end_state}
        reply = yield from self.ask(AGREED, sample, compared)
        return self.conclude(sample, reply, outcome.user_goal, outcome.end_state)


class AgentGoalAccuracyWithoutReference(GoalAccuracy):
    """Judge whether an agent has brought about what the user wanted.

    The goal is inferred from the user's messages alone, so that it cannot be lowered to what was achieved; then
    the whole conversation, tool calls and tool results included, is compared with it. Score = 1 or 0.

    With `variant="compat"` both goal and outcome are inferred from the whole conversation, as in ragas.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.agent_goal_accuracy_without_reference",
        aliases=(
            "AgentGoalAccuracyWithoutReference",
            "agent_goal_accuracy_without_reference",
            "agent_goal_accuracy",
            "AgentGoalAccuracy",
            "ragas.agent_goal_accuracy",
        ),
        asks="Has the agent brought about what the user wanted?",
        needs=("user_input",),
        calls="2",
        scale="yes or no",
        subject="agent",
        source="ragas 0.4",
        differs="The goal is told from the user's messages alone; a closed yes or no with its reasons and with "
        "feedback; a name of its own.",
        tags=("task success", "outcome", "tools"),
        follows="both generations, which agree",
    )

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        compat = settings.get("variant") == "compat"
        questions: tuple[Question[Any], ...] = (OUTCOME, AGREED) if compat else (GOAL, REACHED)
        super().__init__(model, questions=questions, **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Infer what the user wants, then ask whether it was reached."""
        conversation = _conversation(sample)
        if self.compat:
            outcome = yield from self.ask(OUTCOME, sample, {"conversation": conversation}, check=_blank_fault)
            compared: dict[str, JsonValue] = {
                "desired_outcome": outcome.user_goal,
                "arrived_outcome": outcome.end_state,
            }
            agreed = yield from self.ask(AGREED, sample, compared)
            return self.conclude(sample, agreed, outcome.user_goal, outcome.end_state)
        messages: dict[str, JsonValue] = {"user_messages": list(turns_of("user", sample.messages))}
        goal = (yield from self.ask(GOAL, sample, messages, check=_blank_fault)).user_goal
        data: dict[str, JsonValue] = {"goal": goal, "conversation": conversation}
        reply = yield from self.ask(REACHED, sample, data, check=_blank_fault)
        return self.conclude(sample, reply, goal, reply.end_state)


def _conversation(sample: Sample) -> list[JsonValue]:
    return transcript(exchange_in(sample))


def _blank_fault(reply: Goal | GoalOutcome | Reached) -> str | None:
    texts = (getattr(reply, name, name) for name in ("user_goal", "end_state"))
    return None if all(text.strip() for text in texts) else "user_goal and end_state must not be blank"
