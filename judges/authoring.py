"""Everything a judge of one's own is made of, in one place; docs/writing-a-judge.md shows how.

A judge is a class with a generator `deliberate`, which yields requests (`Ask`, `Embed`, `Consult`, `Apply`) and
returns a `Verdict`. `ModelJudge` adds what the catalogue's judges share: questions whose prompts are data in
several languages, a pass mark, feedback, an `Entry` that names it.
"""

from judges.catalogue.metric import ComputedMetric, Metric, MetricSettings, ModelJudge, ModelSettings, all_of
from judges.catalogue.parts.claims import (
    YesNo,
    YesNos,
    bullets,
    in_order,
    numbered_items,
    one_each,
    reasons,
    share,
    yes_no_verdict,
)
from judges.catalogue.parts.fields import answer_in, contexts_in, question_in, question_of, reference_in
from judges.entry import Entry, Explanation
from judges.errors import AskFailed, CannotJudge
from judges.judge import Judge
from judges.model import ModelRequest, ModelResponse
from judges.models.resolve import as_embeddings, as_model
from judges.prompting.prompts import Question, ReplySchema
from judges.requests import Apply, Ask, Consult, Deliberation, Embed, ask, consult
from judges.runtime.validation import check_allowed
from judges.sample import Sample
from judges.settings import means
from judges.verdict import Rating, Verdict

__all__ = [
    "Apply",
    "Ask",
    "AskFailed",
    "CannotJudge",
    "ComputedMetric",
    "Consult",
    "Deliberation",
    "Embed",
    "Entry",
    "Explanation",
    "Judge",
    "Metric",
    "MetricSettings",
    "ModelJudge",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "Question",
    "Rating",
    "ReplySchema",
    "Sample",
    "Verdict",
    "YesNo",
    "YesNos",
    "all_of",
    "answer_in",
    "as_embeddings",
    "as_model",
    "ask",
    "bullets",
    "check_allowed",
    "consult",
    "contexts_in",
    "in_order",
    "means",
    "numbered_items",
    "one_each",
    "question_in",
    "question_of",
    "reasons",
    "reference_in",
    "share",
    "yes_no_verdict",
]
