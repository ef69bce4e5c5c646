"""Counting the model calls that a chain, an agent or a function makes through LangChain.

Such calls pass no driver of ours, so a callback handler claims each from the allowance before it is made, and
charges what it consumed after it. LangChain is not imported unless it already is: without it nothing can be called
through it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from judges.runtime import budget
from judges.runtime.budget import Allowance, CallStopped

_LANGCHAIN = "langchain_core.callbacks"


@contextmanager
def metered(allowance: Allowance) -> Iterator[None]:
    """Count the calls made in a block on an allowance, and stop the block at a call that is refused.

    Raises:
        judges.runtime.budget.Refused: If a call was refused, in place of whatever became of it inside.
    """
    try:
        with budget.within(allowance), _observing(allowance):
            yield
    except BaseException as error:
        allowance.close()
        if allowance.refusal is None or not isinstance(error, Exception | CallStopped | BaseExceptionGroup):
            raise
        raise allowance.refusal from None
    allowance.release()


def ledger() -> Allowance:
    """Return an allowance without limits of its own, to count what one function consumes; see `metered`."""
    outer = budget.current()
    return Allowance(prices=None if outer is None else outer.prices)


def _observing(allowance: Allowance) -> AbstractContextManager[None]:
    if _LANGCHAIN not in sys.modules:
        return nullcontext()
    from judges.models.providers.langchain_calls import observing  # noqa: PLC0415 - imports LangChain

    return observing(allowance)
