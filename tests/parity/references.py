"""The metrics of ragas itself, scored on verdicts that are given instead of asked for."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

os.environ["RAGAS_DO_NOT_TRACK"] = "true"  # read when ragas is imported; it would report its use otherwise

Replies = Callable[[str, str], Mapping[str, Any]]
"""Gives a reply for the name of the schema asked for and the text of the prompt."""


def answering(replies: Replies) -> Any:
    """Make a model for ragas that replies with what `replies` gives."""
    from ragas.llms.base import InstructorBaseRagasLLM  # noqa: PLC0415 - in an optional group

    class Given(InstructorBaseRagasLLM):  # type: ignore[misc]  # ragas has no types to go by
        is_async = True

        def generate(self, prompt: str, response_model: Any) -> Any:
            return response_model.model_validate(replies(response_model.__name__, prompt))

        async def agenerate(self, prompt: str, response_model: Any) -> Any:
            return self.generate(prompt, response_model)

    return Given()


async def reference_score(metric: str, row: Mapping[str, Any], replies: Replies | None, **settings: Any) -> float:
    """Score a row with a legacy metric of ragas, by the name of its class; without replies it asks no model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ragas.metrics as reference  # noqa: PLC0415 - in an optional group
        from ragas.dataset_schema import MultiTurnSample, SingleTurnSample  # noqa: PLC0415

        made = getattr(reference, metric)(**settings)
        if replies is not None:
            made.llm = answering(replies)
        if isinstance(row.get("user_input"), list):
            return float(await made.multi_turn_ascore(MultiTurnSample(**row)))
        return float(await made.single_turn_ascore(SingleTurnSample(**row)))


async def collections_score(
    metric: str, row: Mapping[str, Any], replies: Replies | None, **settings: Any
) -> float:
    """Score a row with a metric of `ragas.metrics.collections`, by the name of its class."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ragas.metrics.collections as reference  # noqa: PLC0415 - in an optional group
        from ragas.messages import AIMessage, HumanMessage  # noqa: PLC0415

        model = {} if replies is None else {"llm": answering(replies)}
        made = getattr(reference, metric)(**model, **settings)
        names = inspect.signature(made.ascore).parameters
        fields = {name: value for name, value in row.items() if name in names}
        if isinstance(row.get("user_input"), list):
            kinds = {"human": HumanMessage, "ai": AIMessage}
            fields["user_input"] = [kinds[one["type"]](content=one["content"]) for one in row["user_input"]]
        return float((await made.ascore(**fields)).value)
