"""Each judge as a named run in a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    get_callback_manager_for_config,
    patch_config,
    var_child_runnable_config,
)

from graphs import langchain_private
from judges.drive import Observer, observer
from judges.judge import Judge
from judges.runtime.context import setting
from judges.sample import Sample
from judges.verdict import Verdict


def trace_judges(config: RunnableConfig) -> AbstractContextManager[None]:
    """Record every judge called in a `with` block, members of a panel included, as its own run under `config`.

    Without callbacks this does nothing.
    """
    if not langchain_private.listeners(config):
        return nullcontext()
    outer = observer.get()
    if outer is None:
        return setting(observer, lambda judge, sample: _run_of(judge, sample, config))
    return setting(observer, lambda judge, sample: _observed_twice(outer, judge, sample, config))


@contextmanager
def _observed_twice(
    outer: Observer, judge: Judge, sample: Sample, config: RunnableConfig
) -> Iterator[Callable[[Verdict], None]]:
    with outer(judge, sample) as to_outer, _run_of(judge, sample, config) as to_run:

        def on_verdict(verdict: Verdict) -> None:
            to_run(verdict)
            to_outer(verdict)

        yield on_verdict


@contextmanager
def _run_of(judge: Judge, sample: Sample, config: RunnableConfig) -> Iterator[Callable[[Verdict], None]]:
    parent = var_child_runnable_config.get() or config
    run = get_callback_manager_for_config(parent).on_chain_start(
        None, sample.model_dump(mode="json", exclude_defaults=True), name=judge.name
    )
    verdicts: list[Verdict] = []
    try:
        with langchain_private.use_config(patch_config(parent, callbacks=run.get_child())):
            yield verdicts.append
    except BaseException as error:
        run.on_chain_error(error)
        raise
    run.on_chain_end({} if not verdicts else verdicts[-1].model_dump(mode="json", exclude_defaults=True))
