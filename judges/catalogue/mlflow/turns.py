"""Base of the judges that look at the turns of a conversation, all of them numbered, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Unpack

from pydantic import JsonValue

from judges.catalogue.model_judge import ModelJudge, ModelSettings
from judges.catalogue.parts.exchange import exchange_in, turns_of, with_numbers
from judges.catalogue.parts.items import YesNos, bullets, cut, in_order, one_each, reasons, share
from judges.messages import Conversation, Role
from judges.prompting.questions import Question
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict


class Turns(ModelJudge):
    """A judge that gives a verdict on every turn of one side, all of them in one call.

    The score is the share of turns that pass, and it passes at 1 unless `threshold` is given;
    with `variant="compat"` it is 1 if all turns pass, else 0.

    Attributes:
        side: Whose turns are numbered: those of the user, or of the assistant.
        reply: Schema of the reply, a list of numbered items.
    """

    side: ClassVar[Role] = "assistant"
    reply: ClassVar[type[Any]] = YesNos
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
            return Verdict.without_score("no_response", f"the {self.side} says nothing")
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
        advice = self.say("failed", sample, turns=bullets(failed, longest=600)) if failed else ""
        score = float(not failed) if self.compat else self.score(items)
        return self.verdict(score, rationale=reasons(items), feedback=advice, items=tuple(items))

    def score(self, items: Sequence[Verdict]) -> float:
        """Return the score of the conversation."""
        return share(items)
