"""Trajectory accuracy: whether an agent's way to its answer makes sense, by a model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Unpack

from pydantic import JsonValue

from judges.catalogue.agents.reference import REFERENCE_KEYS, reference_shown
from judges.catalogue.model_judge import ModelSettings
from judges.catalogue.parts.evidence import transcript
from judges.catalogue.parts.exchange import exchange_in
from judges.catalogue.parts.one_question import OneQuestion
from judges.entry import Entry
from judges.sample import Sample


class TrajectoryAccuracy(OneQuestion):
    """Judge whether an agent's way to its answer makes sense, step by step.

    Where the sample has a reference trajectory (`metadata["reference_trajectory"]`, a list of messages, or
    `reference_tool_calls`), the model is shown it as one good way: another that does the same is as good.

    | value | score | when |
    |---|---|---|
    | sound | 1 | each step follows from what was known, and leads on |
    | wasteful | 2/3 | it gets there, with steps that were not needed |
    | flawed | 1/3 | a step does not follow, or one that is needed is missing |
    | wrong | 0 | it does not lead to what the user wants |

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="trajectory_accuracy",
        aliases=(
            "TrajectoryAccuracy",
            "trajectory",
            "create_trajectory_llm_as_judge",
            "create_async_trajectory_llm_as_judge",
            "TRAJECTORY_ACCURACY_PROMPT",
            "TRAJECTORY_ACCURACY_PROMPT_WITH_REFERENCE",
            "TrajectoryEvalChain",
            "PlanAdherence",
            "StepEfficiency",
        ),
        asks="Does the agent's way to its answer make sense, step by step?",
        needs=("user_input",),
        calls="1",
        reads=("reference_tool_calls",),
        scale="sound, wasteful, flawed, wrong",
        subject="agent",
        source="as in openevals and LangChain",
        differs="Four degrees instead of yes or no; a reference is one good way among others.",
        tags=("agent", "tools", "steps", "path", "plan", "efficiency"),
    )
    pack = "trajectory_accuracy"
    labels = MappingProxyType({"sound": 1.0, "wasteful": 2 / 3, "flawed": 1 / 3, "wrong": 0.0})

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        super().__init__(model, **settings)

    @property
    def metadata_keys(self) -> tuple[str, ...]:
        """The keys of a reference trajectory."""
        return REFERENCE_KEYS

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the whole exchange, and the reference trajectory where there is one."""
        conversation = transcript(exchange_in(sample))
        reference = reference_shown(sample)
        data: dict[str, JsonValue] = {} if reference is None else {"reference_trajectory": reference}
        return {**data, "conversation": conversation}
