"""Counting the model calls that a chain, an agent or a function makes through LangChain.

Such calls pass no driver of ours, so a callback handler claims each from the allowance before it is made, and
charges what it consumed after it. LangChain is not imported unless it already is: without it nothing can be called
through it.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

from judges.runtime import budget
from judges.runtime.budget import Allowance, CallStopped

_LANGCHAIN = "langchain_core.callbacks"


class metered:  # noqa: N801 - named like a function, as what is used in a `with` statement is
    """Count the calls made in a `with` block on an allowance, and stop the block at a call that is refused.

    Args:
        allowance: The allowance; used for one block.

    Raises:
        judges.runtime.budget.Refused: If a call was refused, in place of whatever became of it inside.
    """

    __slots__ = ("_allowance", "_settings")

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._settings = (budget.within(allowance), _observing(allowance))

    def __enter__(self) -> None:
        for setting in self._settings:
            setting.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        for setting in reversed(self._settings):
            setting.__exit__(kind, error, place)
        if error is None:
            self._allowance.release()
            return
        self._allowance.close()
        if self._allowance.refusal is not None and isinstance(error, Exception | CallStopped | BaseExceptionGroup):
            raise self._allowance.refusal from None


def ledger() -> Allowance:
    """Return an allowance without limits of its own, to count what one function consumes; see `metered`."""
    outer = budget.current()
    return Allowance(prices=None if outer is None else outer.prices)


def _observing(allowance: Allowance) -> AbstractContextManager[None]:
    if _LANGCHAIN not in sys.modules:
        return nullcontext()
    from judges.models.providers.langchain_runs import counting_calls  # noqa: PLC0415 - imports LangChain

    return counting_calls(allowance)
