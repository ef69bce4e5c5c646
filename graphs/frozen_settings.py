"""Settings that are frozen, and whose errors are one line each with the remedy."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from graphs.setting_guesses import instead_of
from judges.errors import ConfigurationError, shortened
from judges.sample import canonical_field

ALIKE, EACH = "the same for every candidate", "one for each candidate"
"""Names of the two forms of an override, which pydantic adds to the place of a fault."""

_INNER_PARTS = ("function-", "literal[", "[", ALIKE, EACH)
"""How the parts of a fault's place begin that only pydantic knows of."""

_REMEDIES = {
    "augment": ", or a function from the refinement so far to messages",
    "prices": ", {'model name': Price(input=..., output=...)}",
}


class FrozenSettings(BaseModel):
    """Frozen settings whose errors are reported in one line."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise ConfigurationError(_one_line(error, type(self))) from None


def _one_line(error: ValidationError, settings: type[BaseModel]) -> str:
    kind = settings.__name__.lower()
    fault = error.errors(include_url=False)[0]
    name = str(fault["loc"][0]) if fault["loc"] else ""
    if fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
        hint = _hint(name, fault["input"], settings)
        return f"there is no {kind} setting {shortened(name)} (given {shortened(fault['input'])}); {hint}"
    message = fault["msg"].removeprefix("Value error, ")
    if not name:
        return message
    location = ".".join(part for part in map(str, fault["loc"]) if not part.startswith(_INNER_PARTS))
    remedy = _REMEDIES.get(location, "")
    return (
        f"{kind} setting {location}: {message[0].lower()}{message[1:]}{remedy} (given {shortened(fault['input'])})"
    )


def _hint(name: str, value: object, settings: type[BaseModel]) -> str:
    """Return where a name belongs that is no setting, or what to write instead."""
    if name == "evidence" or canonical_field(name) is not None:
        return "evidence comes with each question: invoke(question, evidence={'reference': '...'})"
    if instead := instead_of(name, value, settings.model_fields):
        return instead
    near = get_close_matches(name, settings.model_fields, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(settings.model_fields))}"
