"""Ranking: where the answer stands among others, by a prompt of one's own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar, Unpack

from pydantic import Field

from judges.catalogue.model_judge import ModelJudge, ModelSettings
from judges.catalogue.parts.items import cut, numbered_items
from judges.catalogue.parts.needed import answer_in, question_of
from judges.catalogue.parts.one_question import checked_text
from judges.entry import Entry
from judges.errors import CannotJudge, shortened
from judges.prompting.questions import Question, ReplySchema
from judges.requests import Deliberation
from judges.runtime.validation import whole_number
from judges.sample import Sample
from judges.verdict import Verdict


class Ranked(ReplySchema):
    """Candidates in order, by their numbers."""

    rationale: str = Field(description="text: your reasons, before the order")
    order: list[int] = Field(description="list of whole numbers: each candidate once, from best to worst")
    feedback: str = Field(description="text: what would make the worst candidates better; empty if nothing")


class Ranking(ModelJudge):
    """Judge by a prompt of one's own where the answer stands among others.

    The others are the texts under `rivals`, or the one under `rival`, in the sample's metadata. They are shown in
    an order that depends on their texts alone, so that the answer is not always the first; equal ones are shown
    once. The value is the answer's rank from 1, the best; score = (candidates - rank) / (candidates - 1), and 0.5
    without a call where all candidates are equal. Items are the candidates in their order.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        prompt: What makes a candidate better, in words.
        allowed: How many candidates there must be, the answer included; None takes any number from 2.
        settings: See `judges.catalogue.model_judge.ModelSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    entry: ClassVar[Entry] = Entry(
        name="ranking",
        aliases=("RankingMetric", "ragas.ranking_metric", "select-best", "select_best"),
        asks="Where does the answer stand among its rivals by your prompt?",
        needs=("response", "metadata"),
        calls="1; 0 where all candidates are equal",
        scale="rank from 1, low is good",
        source="as in ragas 0.4",
        differs="The rank of the answer is the verdict; each candidate stands exactly once in the order.",
        tags=("custom", "own prompt", "compare", "best of n"),
        examples=('prompt="The shorter answer is better."', "allowed=3"),
    )
    pack = "ranking"

    def __init__(
        self, model: object = None, *, prompt: str, allowed: int | None = None, **settings: Unpack[ModelSettings]
    ) -> None:
        criteria = checked_text(prompt, setting="prompt")
        self._count = None if allowed is None else whole_number(allowed, setting="allowed", least=2)
        self._question: Question[Ranked] = Question(prompt=self.pack, reply=Ranked, fills={"criteria": criteria})
        super().__init__(model, questions=(self._question,), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask once."""
        answer, rivals = answer_in(sample), _rivals_in(sample)
        if self._count not in (None, len(rivals) + 1):
            raise CannotJudge("invalid_sample", f"there are {len(rivals) + 1} candidates, not {self._count}")
        candidates = sorted({answer, *rivals}, key=_place)
        if len(candidates) == 1:
            return self.verdict(
                0.5, value=1, feedback=self.say("better", sample), detail="all candidates are equal"
            )
        data = {**question_of(sample), "candidates": numbered_items(candidates, called="text")}
        reply = yield from self.ask(self._question, sample, data, check=_each_once(len(candidates)))
        return self._conclude(sample, reply, candidates.index(answer) + 1, candidates)

    def _conclude(self, sample: Sample, reply: Ranked, number: int, candidates: Sequence[str]) -> Verdict:
        """Return the verdict on the candidate with a number."""
        rank, worst = reply.order.index(number) + 1, len(candidates)
        items = [_ranked(candidates[other - 1], place, worst) for place, other in enumerate(reply.order, 1)]
        feedback = (reply.feedback or self.say("better", sample)) if rank > 1 else ""
        score = (worst - rank) / (worst - 1)
        return self.verdict(score, value=rank, rationale=reply.rationale, feedback=feedback, items=tuple(items))


def _rivals_in(sample: Sample) -> list[str]:
    """Return the other candidates.

    Raises:
        CannotJudge: `invalid_sample`, if there are none.
    """
    rivals = sample.metadata.get("rivals", sample.metadata.get("rival"))
    candidates = [rivals] if isinstance(rivals, str) else rivals
    texts = candidates if isinstance(candidates, list) else []
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        fault = "nothing to rank the answer against; give other texts as metadata={'rivals': [...]}"
        raise CannotJudge("invalid_sample", fault)
    return [str(text) for text in texts]


def _place(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _each_once(count: int) -> Any:
    def check(reply: Ranked) -> str | None:
        right = sorted(reply.order) == list(range(1, count + 1))
        return None if right else f"order: {shortened(reply.order)}; each number from 1 to {count} is wanted once"

    return check


def _ranked(text: str, place: int, worst: int) -> Verdict:
    return Verdict.scored((worst - place) / (worst - 1), value=place, subject=cut(text))
