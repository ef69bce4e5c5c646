"""What follows a refusal: another attempt, the same answer with what was refused masked, or no answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from langchain_core.messages import AIMessage

from graphs.answers import kind_of_answer
from graphs.policy import OnRefusal, Policy
from judges.errors import ConfigurationError, shortened
from judges.judge import Judge
from judges.verdict import Verdict

CALL_AS_TEXT = "call_as_text"
"""In the metadata of an answer, true says that its text is the arguments of a tool's call, which nobody masks."""

_REASONS = ("finish_reason", "stop_reason", "model_name", "model", "status", "id")
"""What the metadata of a mended answer keep: other fields may repeat the text, as log probabilities do."""


def check_judges(policy: Policy, judge: Judge) -> None:
    """Check that `on_refusal`, where it is by judge, names judges there are.

    Raises:
        ConfigurationError: If not.
    """
    if isinstance(policy.on_refusal, str):
        return
    known = tuple(dict.fromkeys(_names_in(judge)))
    for name in policy.on_refusal:
        if name not in known:
            raise ConfigurationError(
                f"on_refusal names the judge {shortened(name)}, and there is none; there are {', '.join(known)}"
            )


def _names_in(judge: Judge) -> Iterator[str]:
    """Yield the names of a judge and of those inside it."""
    yield judge.name
    inner = getattr(judge, "judges", None)
    for name, member in inner.items() if isinstance(inner, Mapping) else ():
        yield name
        yield from _names_in(member)


def action_on(verdict: Verdict, policy: Policy) -> OnRefusal:
    """Return what follows a refusal: the strictest that is set for a judge that refused."""
    if isinstance(policy.on_refusal, str):
        return policy.on_refusal
    wanted = {policy.on_refusal.get(name, "retry") for name in _refusers(verdict, policy)}
    for action in ("block", "retry", "mend_or_block", "mend"):
        if action in wanted:
            return action
    return "retry"


def _refusers(verdict: Verdict, policy: Policy) -> Iterator[str]:
    """Yield the names of the judges that refused: those that the policy names, else the innermost ones."""
    named = isinstance(policy.on_refusal, Mapping) and verdict.judge in policy.on_refusal
    members = [one for one in verdict.items if one.judge and one.judge != verdict.judge]
    refused = [one for one in members if one.rating is not None and not one.reaches(policy.success_rating)]
    if named or not refused:
        yield verdict.judge
    else:
        for one in refused:
            yield from _refusers(one, policy)


def mended_answer(answer: AIMessage, verdict: Verdict) -> AIMessage | None:
    """Return an answer with what a judge refused masked; None where it has no mask, or masking would break it.

    What stands beside its text, such as its reasoning, may repeat what is masked, and is left out. Calls of tools
    are never masked, and JSON stays JSON.
    """
    text = verdict.replacement
    is_text = kind_of_answer(answer) == "text" and not answer.response_metadata.get(CALL_AS_TEXT)
    if text is None or not is_text or text == str(answer.text) or not text.strip():
        return None
    if _is_json(str(answer.text)) and not _is_json(text):
        return None
    metadata = {name: value for name in _REASONS if (value := answer.response_metadata.get(name)) is not None}
    return AIMessage(text, id=answer.id, response_metadata=metadata)


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
