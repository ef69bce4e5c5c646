"""Role adherence: whether the assistant keeps to the role it was given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Unpack

from pydantic import JsonValue

from judges.catalogue.mlflow.turns import Turns
from judges.catalogue.model_judge import ModelSettings
from judges.catalogue.parts.exchange import with_numbers
from judges.entry import Entry
from judges.errors import CannotJudge, ConfigurationError, shortened
from judges.messages import Conversation
from judges.sample import Sample


class RoleAdherence(Turns):
    """Judge whether every answer of the assistant keeps to the role it was given.

    Score = answers in the role / answers; it passes only if all are, unless `threshold` says otherwise. Where no
    role is given, the verdict is unscored, `no_guidelines`.

    With `variant="compat"` the score is mlflow's yes or no: 1 if all are in the role, else 0.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        role: The role in words; None takes `metadata["role"]` of the sample, or else its system messages.
        settings: See `judges.catalogue.model_judge.ModelSettings`.

    Raises:
        ConfigurationError: If the role is blank, or another setting is out of its range.
    """

    entry: ClassVar[Entry] = Entry(
        name="mlflow.role_adherence",
        aliases=(
            "role_adherence",
            "RoleAdherence",
            "ConversationalRoleAdherence",
            "RoleAdherenceMetric",
            "RoleViolationMetric",
        ),
        asks="Does every answer of the assistant keep to the role it was given?",
        needs=("user_input",),
        calls="1",
        subject="conversation",
        source="mlflow 3",
        differs="One verdict for each answer, so that the feedback names those out of the role; the role may come "
        "from the system message.",
        tags=("multi-turn", "dialogue", "chat", "persona", "character", "role play", "system prompt"),
        examples=('role="a patient teacher"',),
    )
    pack = "role_adherence"

    def __init__(
        self, model: object = None, *, role: str | None = None, **settings: Unpack[ModelSettings]
    ) -> None:
        value: object = role
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise ConfigurationError(f"role is the role in words, or None, not {shortened(role)}")
        super().__init__(model, **settings)
        self._role = role

    def data(self, sample: Sample, messages: Conversation) -> Mapping[str, JsonValue]:
        """Return the role, and the conversation without system messages."""
        role = self._role or _role_in(sample)
        others = tuple(message for message in messages if message.role != "system")
        return {"role": role, "conversation": with_numbers(others, on=self.side)}

    @property
    def metadata_keys(self) -> tuple[str, ...]:
        """The key of the role that a sample's assistant plays."""
        return ("role",)


def _role_in(sample: Sample) -> str:
    role = sample.metadata.get("role")
    if isinstance(role, str) and role.strip():
        return role
    instructions = "\n\n".join(turn.content for turn in sample.messages if turn.role == "system").strip()
    if not instructions:
        raise CannotJudge("no_guidelines", "there is no role: give role=, metadata['role'] or a system message")
    return instructions
