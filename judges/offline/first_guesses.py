"""What other libraries call the arguments of an evaluation: an error says what they are called here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

_OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("dataset", "data", "examples", "rows", "test_cases", "testset"), "samples"),
    **dict.fromkeys(("metrics", "scorers", "evaluators", "judge", "scoring_functions"), "judges"),
    **dict.fromkeys(("llm", "judge_model", "evaluator_llm"), "model"),
    **dict.fromkeys(("concurrency", "max_workers", "num_workers", "num_threads", "workers"), "max_concurrency"),
    **dict.fromkeys(("column_map", "column_mapping", "columns"), "map"),
    **dict.fromkeys(("callback", "on_row", "progress_callback"), "on_result"),
    **dict.fromkeys(("output", "output_path", "output_file"), "out"),
}

P = ParamSpec("P")
R = TypeVar("R")


def naming_arguments(evaluating: Callable[P, R]) -> Callable[P, R]:
    """Return the same function, whose error about an argument that others have says what it is called here."""
    known = inspect.signature(evaluating).parameters.keys()

    def check(arguments: Iterable[str]) -> None:
        for name in arguments:
            own = _OTHER_NAMES.get(name)
            if own in known and name not in known:
                raise TypeError(f"{evaluating.__name__}() has no argument {name!r}; here it is {own}=...")

    @wraps(evaluating)
    def checked(*args: P.args, **arguments: P.kwargs) -> R:
        check(arguments)
        return evaluating(*args, **arguments)

    @wraps(evaluating)
    async def achecked(*args: P.args, **arguments: P.kwargs) -> Any:
        check(arguments)
        return await cast("Any", evaluating)(*args, **arguments)

    return cast("Callable[P, R]", achecked if inspect.iscoroutinefunction(evaluating) else checked)
