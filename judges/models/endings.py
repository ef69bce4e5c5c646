"""Why a reply ended, in the words of any provider: finished, cut, filtered, or broken off.

Every provider has words of its own, and new ones appear, so neither the good nor the bad ones can be listed whole.
But what ends well says so: its ending consists of words such as "stop", "end", "complete" and "tool calls", as in
"end_turn", "COMPLETE", "FinishReason.STOP", "eos_token" and "stopStringFound". Whatever holds any other word
("user_cancel", "ERROR_TOXIC", "unfinished", "pause_turn") did not end well, as far as anybody knows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

Ending = Literal["finished", "cut", "filtered", "broken"]

_ENDS = """
    alternative answer by call called calling calls complete completed completion criteria done end ended ending
    endoftext endofturn eog eom eos eosfound eot final finish finished finishreason found function functioncall
    functions generation hit id im json match matched message met model natural none normal object of ok output
    reached reason regular response return s schema sentence sequence sequences status stop stopped stopping
    stopreason stopsequence stream string strings succeeded success successful successfully text the token
    tokens tool toolcall toolcalls tools tooluse turn use used with word words
"""
_FINISHED = frozenset(_ENDS.split())
"""Words of which a good ending consists."""

_FILTERED = re.compile(
    r"armor|black_?list|block|censor|content|filter|flag|forbid|guard|harm|moderat|polic|prohibit|recitat|refus|"
    r"reject|safe|sensitiv|spii|toxic|violat"
)
"""Parts of words for a reply that was filtered or refused: asking again does not help."""

_CUT = re.compile(r"context|cut|exceed|length|limit|max|truncat")
_FINISH_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason", "finish_details")
"""Fields of a reply's metadata that say why it ended."""

_UNFINISHED = ("incomplete", "failed", "cancelled", "in_progress", "queued")
"""Bad values of `status` in OpenAI's Responses API; elsewhere the name may mean anything."""

_LONGEST = 100
"""Most characters of an ending that are looked at."""


@lru_cache(maxsize=256)
def ending_of(reason: str) -> Ending:
    """Classify a provider's word for why a reply ended; an empty one, as local servers send, is good."""
    words = _words(reason)
    if not reason or (words and len(reason) <= _LONGEST and _FINISHED.issuperset(words)):
        return "finished"
    joined = "_".join(words)
    if _FILTERED.search(joined):
        return "filtered"
    return "cut" if _CUT.search(joined) else "broken"


def _words(reason: str) -> list[str]:
    """Return the words of `reason` in lower case: `maxTokensReached` has three, as has `MAX_TOKENS_REACHED`."""
    return re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", reason[:_LONGEST]).lower())


def reason_in(value: object) -> str:
    """Return a provider's field for why a reply ended as text: from a word, an enumeration or `{"type": ...}`."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return next((text for key in ("type", "reason") if isinstance(text := value.get(key), str)), "unreadable")
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else str(value)


def finish_reason_of(metadata: Mapping[str, Any]) -> str:
    """Return why a reply ended, under whichever name its provider uses; where several say so, a bad one.

    Args:
        metadata: Metadata of the reply, such as a LangChain message's `response_metadata`.
    """
    own = next((metadata[name] for name in _FINISH_REASONS if metadata.get(name)), None)
    status = metadata.get("status")
    reasons = [reason_in(own), reason_in(metadata.get("incomplete_details") or None)]
    reasons.append(status if status in _UNFINISHED else "not done" if metadata.get("done") is False else "")
    return next((reason for reason in reasons if ending_of(reason) != "finished"), reasons[0])
