"""Conversation completeness: whether everything the user asked for was addressed by the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from judges.catalogue.mlflow.turns import Turns
from judges.entry import Entry
from judges.messages import Role
from judges.prompting.questions import ReplySchema
from judges.sample import Sample
from judges.verdict import Verdict


class UserRequest(ReplySchema):
    """What became of what the user asked for in one message."""

    number: int = Field(description="whole number of the message")
    reason: str = Field(description="text: why, before the verdict")
    verdict: Literal["addressed", "open", "nothing_asked"] = Field(
        description="one of addressed, open, nothing_asked"
    )


class Requests(ReplySchema):
    """What became of what the user asked for, message by message."""

    items: list[UserRequest] = Field(description="list of objects, exactly one for each number, in their order")


class ConversationCompleteness(Turns):
    """Judge whether every request of the user was fully addressed by the end of the conversation.

    Score = messages whose requests were all addressed / messages that ask for something; it passes only if all
    were, unless `threshold` says otherwise. Where nothing was asked for, the verdict is unscored, `no_question`.

    With `variant="compat"` the score is mlflow's yes or no: 1 if all were addressed, else 0.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="mlflow.conversation_completeness",
        aliases=("conversation_completeness", "ConversationCompleteness", "ConversationCompletenessMetric"),
        asks="Was every request of the user fully addressed by the end of the conversation?",
        needs=("user_input",),
        calls="1",
        subject="conversation",
        source="mlflow 3",
        differs="One verdict for each message of the user, so that the feedback names what is still open.",
        tags=("multi-turn", "dialogue", "chat", "unresolved", "open questions"),
    )
    pack = "conversation_completeness"
    side: ClassVar[Role] = "user"
    reply: ClassVar[type[Any]] = Requests

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
