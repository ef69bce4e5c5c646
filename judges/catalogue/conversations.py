"""Judges of whole conversations: completeness, retention, role, frustration; and of each turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.metric import ModelJudge, ModelSettings
from judges.catalogue.parts.claims import YesNos, cut, in_order, listed_feedback, one_each, reasons, share
from judges.catalogue.parts.fields import exchange_in, transcript, turns_of, with_numbers
from judges.catalogue.parts.questions import OneQuestion
from judges.catalogue.parts.text import for_retriever
from judges.errors import CannotJudge, unfit
from judges.messages import Conversation, Role
from judges.prompting.prompts import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict


class _JudgeOfTurns(ModelJudge):
    """A judge that gives a verdict on every turn of one side, all of them in one call.

    The score is the share of turns that pass, and it passes at 1 unless `threshold` is given;
    with `variant="compat"` it is 1 if all turns pass, else 0.

    Attributes:
        side: Whose turns are numbered: those of the user, or of the assistant.
        reply: Schema of the reply, a list of numbered items.
        absent: Why there is no score where that side says nothing.
    """

    side: ClassVar[Role] = "assistant"
    reply: ClassVar[type[Any]] = YesNos
    absent: ClassVar[Literal["no_response", "no_contexts"]] = "no_response"
    pass_mark = 1.0

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        self._question: Question[Any] = Question(prompt=self.pack, reply=self.reply)
        super().__init__(model, questions=(self._question,), **settings)

    def data(self, sample: Sample, messages: Conversation) -> Mapping[str, JsonValue]:
        """Return what the model is shown, by name; raises `CannotJudge` where something is missing."""
        del sample
        return {"conversation": with_numbers(messages, on=self.side)}

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask once."""
        messages = exchange_in(sample)
        turns = turns_of(self.side, messages)
        if not turns:
            return Verdict.without_score(self.absent, f"the {self.side} says nothing")
        reply = yield from self.ask(
            self._question, sample, self.data(sample, messages), check=one_each(len(turns))
        )
        verdicts = [self.item(cut(turn), item) for turn, item in zip(turns, in_order(reply.items), strict=True)]
        return self.conclude(sample, [verdict for verdict in verdicts if verdict is not None])

    def item(self, turn: str, reply_item: Any) -> Verdict | None:
        """Return the verdict on a turn; None if there is nothing to judge in it."""
        return Verdict.checked(reply_item.verdict, subject=turn, rationale=reply_item.reason)

    def conclude(self, sample: Sample, items: Sequence[Verdict]) -> Verdict:
        """Return the verdict on the conversation; the feedback names the turns that failed, and why."""
        failed = [f"{item.subject} - {item.rationale}" for item in items if not item.passed]
        advice = listed_feedback(self, sample, {"failed": failed}, "turns", longest=600)
        score = float(not failed) if self.compat else self.score(items)
        return self.verdict(score, rationale=reasons(items), feedback=advice, items=tuple(items))

    def score(self, items: Sequence[Verdict]) -> float:
        """Return the score of the conversation."""
        return share(items)


class _UserRequest(ReplySchema):
    """What became of what the user asked for in one message."""

    number: int = Field(description="whole number of the message")
    reason: str = Field(description="text: why, before the verdict")
    verdict: Literal["addressed", "open", "nothing_asked"] = Field(
        description="one of addressed, open, nothing_asked"
    )


class _Requests(ReplySchema):
    """What became of what the user asked for, message by message."""

    items: list[_UserRequest] = Field(description="list of objects, exactly one for each number, in their order")


class ConversationCompleteness(
    _JudgeOfTurns, entry="mlflow.conversation_completeness", pack="conversation_completeness"
):
    """Judge whether every request of the user was fully addressed by the end of the conversation.

    Score = messages whose requests were all addressed / messages that ask for something; it passes only if all
    were, unless `threshold` says otherwise. Where nothing was asked for, the verdict is unscored, `no_question`.

    With `variant="compat"` the score is mlflow's yes or no: 1 if all were addressed, else 0.
    """

    side: ClassVar[Role] = "user"
    reply: ClassVar[type[Any]] = _Requests

    def item(self, turn: str, reply_item: Any) -> Verdict | None:
        """Return the verdict on a message; None if it asks for nothing."""
        if reply_item.verdict == "nothing_asked":
            return None
        addressed = reply_item.verdict == "addressed"
        return Verdict.checked(addressed, value=reply_item.verdict, subject=turn, rationale=reply_item.reason)

    def conclude(self, sample: Sample, items: Sequence[Verdict]) -> Verdict:
        """Return the verdict on the conversation, unscored if the user asks for nothing."""
        if not items:
            return Verdict.without_score("no_question", "the user asks for nothing")
        return super().conclude(sample, items)


class KnowledgeRetention(_JudgeOfTurns, entry="mlflow.knowledge_retention", pack="knowledge_retention"):
    """Judge whether the assistant ever forgets or contradicts what the user said earlier.

    The worst answer decides: score = 1 if none forgets or contradicts anything, else 0.
    """

    def score(self, items: Sequence[Verdict]) -> float:
        """Return 1 if every answer passed, else 0."""
        return float(all(item.passed for item in items))


class RoleAdherence(_JudgeOfTurns, entry="mlflow.role_adherence", pack="role_adherence"):
    """Judge whether every answer of the assistant keeps to the role it was given.

    Score = answers in the role / answers; it passes only if all are, unless `threshold` says otherwise. Where no
    role is given, the verdict is unscored, `no_guidelines`.

    With `variant="compat"` the score is mlflow's yes or no: 1 if all are in the role, else 0.

    Raises:
        ConfigurationError: If the role is blank, or another setting is out of its range.
    """

    metadata_keys = ("role",)
    """The key of the role that a sample's assistant plays."""

    def __init__(
        self, model: object = None, *, role: str | None = None, **settings: Unpack[ModelSettings]
    ) -> None:
        value: object = role
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise unfit("role is the role in words, or None", role)
        super().__init__(model, **settings)
        self._role = role

    def data(self, sample: Sample, messages: Conversation) -> Mapping[str, JsonValue]:
        """Return the role, and the conversation without system messages."""
        role = self._role or _role_in(sample)
        others = tuple(message for message in messages if message.role != "system")
        return {"role": role, "conversation": with_numbers(others, on=self.side)}


def _role_in(sample: Sample) -> str:
    role = sample.metadata.get("role")
    if isinstance(role, str) and role.strip():
        return role
    instructions = "\n\n".join(turn.content for turn in sample.messages if turn.role == "system").strip()
    if not instructions:
        raise CannotJudge("no_guidelines", "there is no role: give role=, metadata['role'] or a system message")
    return instructions


class UserFrustration(OneQuestion, entry="mlflow.user_frustration", pack="user_frustration"):
    """Judge whether the user becomes frustrated with the assistant, and whether that is resolved by the end.

    The value is `"none"`, `"resolved"` or `"unresolved"`; the score, high where things are good, 1, 0.5 or 0.
    """

    labels: ClassVar[Mapping[str, float]] = MappingProxyType({"none": 1.0, "resolved": 0.5, "unresolved": 0.0})

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the whole conversation."""
        return {"conversation": transcript(exchange_in(sample))}


_Aggregate = Literal["mean", "worst"]


class _PerTurn(_JudgeOfTurns):
    """A judge of every answer of the assistant; the score is their mean, or that of the worst.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    def __init__(
        self, model: object = None, *, aggregate: _Aggregate = "mean", **settings: Unpack[ModelSettings]
    ) -> None:
        self._aggregate = aggregate
        super().__init__(model, **settings)

    def score(self, items: Sequence[Verdict]) -> float:
        """Return the mean of the answers, or that of the worst."""
        mean = share(items)
        return mean if self._aggregate == "mean" else float(mean == 1)


class TurnRelevancy(_PerTurn, entry="turn_relevancy", pack="turn_relevancy"):
    """Judge whether every answer of a conversation is relevant to what the user wrote before it."""


class TurnFaithfulness(_PerTurn, entry="turn_faithfulness", pack="turn_faithfulness"):
    """Judge whether every answer of a conversation is faithful to the contexts and tool results."""

    def data(self, sample: Sample, messages: Conversation) -> Mapping[str, JsonValue]:
        """Return the documents and the conversation with its answers numbered.

        Raises:
            CannotJudge: `no_contexts`, if there is neither a context nor a tool result.
        """
        documents: list[JsonValue] = [text for text in sample.retrieved_contexts or () if text.strip()]
        if not documents and not any(message.role == "tool" and message.content.strip() for message in messages):
            raise CannotJudge("no_contexts", "there are neither contexts nor tool results to compare with")
        return {"documents": documents, "conversation": with_numbers(messages, on="assistant")}


class TurnRetrieval(_PerTurn, entry="turn_retrieval", pack="turn_retrieval"):
    """Judge whether every retrieval of a conversation brought what its turn needed.

    What was retrieved are the results of tools, each with the question of the user before it.
    """

    side: ClassVar[Role] = "tool"
    absent = "no_contexts"

    def conclude(self, sample: Sample, items: Sequence[Verdict]) -> Verdict:
        """Return the verdict; the feedback says that no rewrite of the answer helps."""
        verdict = super().conclude(sample, items)
        advice = for_retriever(self, sample, verdict.feedback) if verdict.feedback else ""
        return verdict.model_copy(update={"feedback": advice})
