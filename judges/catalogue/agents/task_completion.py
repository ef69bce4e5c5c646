"""Task completion: how far what the user wanted is done, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.model_judge import ModelJudge, ModelSettings
from judges.catalogue.parts.evidence import transcript
from judges.catalogue.parts.exchange import exchange_in
from judges.catalogue.parts.items import bullets, reasons
from judges.catalogue.parts.one_question import checked_text
from judges.entry import Entry
from judges.prompting.questions import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict

_SCORES = {"done": 1.0, "partly": 0.5, "open": 0.0}


class TaskState(ReplySchema):
    """How far one task is done, and what is left of it."""

    task: str = Field(description="text: the task, in a few words")
    reason: str = Field(description="text: why, before the verdict")
    verdict: Literal["done", "partly", "open"] = Field(description="one of done, partly, open")
    left: str = Field(description="text: what is left to do; empty if it is done")


class TaskStates(ReplySchema):
    """How far each task is done."""

    tasks: list[TaskState] = Field(description="list of objects, one for each task; empty if there is none")


TASKS: Question[TaskStates] = Question(prompt="task_completion", reply=TaskStates)


class TaskCompletion(ModelJudge):
    """Judge how far an agent has done what the user wanted, and name what is left.

    The model lists what the user wants, task by task, and says of each whether it is done, partly done or open, by
    what tools returned and what the answer gives, not by what the agent claims.
    Score = mean over the tasks of 1, 0.5 and 0. Where the user wants nothing (a greeting), it is unscored,
    `no_question`.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        task: The task in words; None takes what the user says.
        settings: See `judges.catalogue.model_judge.ModelSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    entry: ClassVar[Entry] = Entry(
        name="task_completion",
        aliases=(
            "TaskCompletion",
            "TaskCompletionMetric",
            "TaskCompletionEvaluator",
            "TaskAdherenceEvaluator",
            "task_adherence",
            "IntentResolutionEvaluator",
            "intent_resolution",
            "GoalAccuracyMetric",
            "goal_success_rate",
            "TASK_COMPLETION_PROMPT",
            "trajectory:goal-success",
        ),
        asks="How far is what the user wanted done?",
        needs=("user_input",),
        calls="1",
        subject="agent",
        source="as in deepeval (TaskCompletion) and Azure AI evaluation",
        differs="Each task is an item with what is left of it; what tools returned counts, not what is claimed.",
        tags=("agent", "goal", "success", "unfinished", "intent", "task success"),
        examples=('task="Book a table for two."',),
    )
    pack = "task_completion"

    def __init__(
        self, model: object = None, *, task: str | None = None, **settings: Unpack[ModelSettings]
    ) -> None:
        self._task = None if task is None else checked_text(task, setting="task")
        super().__init__(model, questions=(TASKS,), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask how far each task is done."""
        data: dict[str, JsonValue] = {} if self._task is None else {"task": self._task}
        data["conversation"] = transcript(exchange_in(sample))
        reply = yield from self.ask(TASKS, sample, data)
        states = [state for state in reply.tasks if state.task.strip()]
        if not states:
            return Verdict.without_score("no_question", "the user wants nothing to be done")
        return self._conclude(sample, states)

    def _conclude(self, sample: Sample, states: Sequence[TaskState]) -> Verdict:
        items = tuple(_item(state) for state in states)
        left = [
            f"{state.task}: {state.left.strip() or state.reason}" for state in states if state.verdict != "done"
        ]
        advice = self.say("left", sample, tasks=bullets(left, longest=600)) if left else ""
        score = sum(_SCORES[state.verdict] for state in states) / len(states)
        return self.verdict(score, rationale=reasons(items), feedback=advice, items=items)


def _item(state: TaskState) -> Verdict:
    done = state.verdict == "done"
    return Verdict.scored(
        _SCORES[state.verdict],
        threshold=1,
        value=state.verdict,
        subject=state.task,
        rationale=state.reason,
        feedback="" if done else state.left,
    )
