"""Agents as judges: compiled LangGraph graphs over messages, read without importing LangGraph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judges.errors import AskFailed, ConfigurationError
from judges.media import WITHOUT_MEDIA
from judges.models.render import frame, fresh_nonce, render_data
from judges.sample import Sample

_REMINDER = "Judge the response as your instructions say."
_RESPONSE, _INTERRUPT = "structured_response", "__interrupt__"


def without_memory(runnable: Any) -> Any:
    """Return the runnable; a graph without its checkpointer, so that a judge never remembers what it judged."""
    bound = getattr(runnable, "bound", None)
    if bound is not None and hasattr(runnable, "model_copy"):
        return runnable.model_copy(update={"bound": without_memory(bound)})
    has_memory = _is_graph(runnable) and bool(runnable.checkpointer)
    return runnable.copy({"checkpointer": None}) if has_memory else runnable


def input_for(runnable: object, sample: Sample) -> dict[str, Any]:
    """Return what to invoke a runnable with: the sample's fields; an agent gets them in a message."""
    fields = sample.model_dump(mode="json", exclude_none=True)
    channels = _channels_of(runnable)
    if not is_agent(runnable):
        return fields
    evidence = sample.model_dump(mode="json", exclude_none=True, exclude_defaults=True, exclude=WITHOUT_MEDIA)
    message = {"role": "user", "content": frame(render_data(evidence), fresh_nonce(), _REMINDER)}
    return {**{name: value for name, value in fields.items() if name in channels}, "messages": [message]}


def is_agent(runnable: object) -> bool:
    """Whether a runnable is a compiled graph over messages."""
    return "messages" in _channels_of(runnable)


def grade_in(output: object, *, judge: str) -> object:
    """Return the grade in what a runnable returned: an agent's `structured_response`, otherwise all of it.

    Raises:
        ConfigurationError: If an agent stopped for a human where nothing could resume it.
        AskFailed: With the reason `"invalid_output"` if an agent returned messages alone.
    """
    if not isinstance(output, Mapping):
        return output
    if _INTERRUPT in output:
        raise ConfigurationError(
            f"the judge {judge!r} stopped to ask a human, and nothing could resume it; give a checkpointer to the "
            f"loop"
        )
    if output.get(_RESPONSE) is not None:
        return output[_RESPONSE]
    if "messages" in output and not {"rating", "score", "passed"} & set(output):
        raise AskFailed(
            "invalid_output",
            f"{judge!r} is an agent that returned no {_RESPONSE!r}; make it by "
            f"create_agent(..., response_format=...) of a class with a rating, a score or passed",
        )
    return output


def _channels_of(runnable: object) -> Mapping[str, object]:
    bound = getattr(runnable, "bound", None)
    if bound is not None:
        return _channels_of(bound)
    channels = getattr(runnable, "channels", None) if _is_graph(runnable) else None
    return channels if isinstance(channels, Mapping) else {}


def _is_graph(runnable: object) -> bool:
    return any(kind.__name__ == "Pregel" for kind in type(runnable).__mro__)
