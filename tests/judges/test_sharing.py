"""Work that several judges need of one sample is done once; nothing else is shared."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.outputs import ChatResult
from pydantic import PrivateAttr

from judges import ConfigurationError, Helpfulness, Judge, Panel, Repeat, Sample, Verdict, as_judge
from judges.catalogue.ragas.answer_correctness import SemanticSimilarity
from judges.catalogue.ragas.faithfulness import Faithfulness
from judges.offline import aevaluate, evaluate
from judges.runtime.observation import Shared, current, shared_work
from judges.testing import ScriptedEmbeddings, ScriptedModel
from tests.catalogue.filling import FillingModel
from tests.kit import Shown, Way, ask, both_ways, items, replying

SAMPLE: dict[str, Any] = {
    "user_input": "Where is the tower?",
    "response": "The tower is in Paris.",
    "retrieved_contexts": ["The tower is in Paris."],
    "reference": "It is in Paris.",
}


async def judge_sample(way: Way, judge: Judge, sample: dict[str, Any] = SAMPLE) -> Verdict:
    """Judge, sync or async."""
    return await ask(judge, way, sample)


def two(model: object, **settings: Any) -> Panel:
    """Return a panel of two judges that ask the same."""
    return Panel([Faithfulness(model, name=name, **settings) for name in ("one", "other")])


@both_ways
async def test_a_panel_pays_for_shared_questions_once(way: Way) -> None:
    """Claims and their verdicts are requested once for both members; what was shared is counted in `cached`."""
    verdict = await judge_sample(way, two(model := FillingModel()))
    assert len(model.prompts) == 2
    assert [item.score for item in verdict.items] == [1, 1]
    assert verdict.items[0].items == verdict.items[1].items
    assert (verdict.usage.calls, verdict.usage.cached) == (2, 2)
    alone = await judge_sample(way, Faithfulness(FillingModel()))
    assert verdict.usage.tokens == alone.usage.tokens


@both_ways
async def test_a_failure_is_shared_too(way: Way) -> None:
    """A question that failed is not asked again by the next member."""
    model = ScriptedModel([ValueError("no")], cycle=True)
    verdict = await judge_sample(way, two(model))
    assert len(model.prompts) == 1
    assert [item.unscored for item in verdict.items] == ["judge_failed", "judge_failed"]
    assert verdict.usage.calls == 1


@both_ways
@pytest.mark.parametrize("strict_first", [True, False])
async def test_a_reply_that_nobody_checked_is_not_shared_with_who_checks(
    way: Way,
    strict_first: bool,  # noqa: FBT001 - a case
) -> None:
    """An incomplete list is enough for the lenient judge, and never reaches the strict one."""

    def reply(data: Shown) -> dict[str, Any]:
        return {"claims": ["a", "b", "c"]} if "text" in data else items("supported")

    model = replying(reply)
    lenient = Faithfulness(model, missing="unsupported", name="lenient")
    strict = Faithfulness(model, name="strict")
    verdict = await judge_sample(way, Panel([strict, lenient] if strict_first else [lenient, strict]))
    outcomes = {item.judge: item.unscored or f"{item.score:.3f}" for item in verdict.items}
    assert outcomes == {"strict": "invalid_output", "lenient": "0.333"}


async def test_a_sync_call_from_within_the_loop_waits_for_nobody_on_it() -> None:
    """A function judge that calls another judge, blocking, fetches by itself what that one is fetching."""
    inner = Faithfulness(FillingModel(), name="inner")

    @as_judge
    async def outer(sample: Sample) -> bool:
        return bool(inner(sample).passed)

    verdict = await asyncio.wait_for(Panel([inner, outer]).acall(SAMPLE), 20)
    assert [item.unscored for item in verdict.items] == [None, None]


PANELS: dict[str, tuple[int, Callable[[FillingModel], Judge]]] = {
    "two opinions": (2, lambda model: Panel([Helpfulness(model, name=name) for name in ("one", "other")])),
    "another language": (
        4,
        lambda model: Panel([Faithfulness(model), Faithfulness(model, name="o", language="zh")]),
    ),
    "claims alone are alike": (
        3,
        lambda model: Panel([Faithfulness(model), Faithfulness(model, name="compat", variant="compat")]),
    ),
    "runs are independent": (6, lambda model: Repeat(Faithfulness(model), n=3)),
}


@both_ways
@pytest.mark.parametrize("kind", PANELS)
async def test_what_differs_is_not_shared(way: Way, kind: str) -> None:
    """Neither what is an opinion, nor another language, form or run; the next call of a judge asks again."""
    calls, make = PANELS[kind]
    judge = make(model := FillingModel())
    for times in (1, 2):
        assert (await judge_sample(way, judge)).usage.calls == calls
        assert len(model.prompts) == times * calls


@both_ways
async def test_another_model_is_asked_itself(way: Way) -> None:
    """Its answers may be others."""
    panel = Panel([Faithfulness(FillingModel()), Faithfulness(FillingModel(), name="other")])
    verdict = await judge_sample(way, panel)
    assert (verdict.usage.calls, verdict.usage.cached) == (4, 0)


@both_ways
async def test_the_judges_of_a_row_share_and_rows_do_not(way: Way) -> None:
    """Over a dataset the scope is the row, even where rows are equal."""
    model = FillingModel()
    judges = {name: Faithfulness(model) for name in ("one", "other")}
    rows = [SAMPLE, SAMPLE, SAMPLE]
    results = evaluate(rows, judges) if way == "sync" else await aevaluate(rows, judges)
    assert len(model.prompts) == 2 * len(rows)
    assert results.summary["one"].usage.calls + results.summary["other"].usage.calls == 2 * len(rows)


@both_ways
async def test_texts_are_embedded_once(way: Way) -> None:
    """Vectors are shared like replies."""
    embeddings = ScriptedEmbeddings(lambda _: [1.0])
    panel = Panel([SemanticSimilarity(embeddings, name=name) for name in ("one", "other")])
    assert (await judge_sample(way, panel)).passed
    assert len(embeddings.batches) == 1


def test_a_scope_is_open_for_a_block() -> None:
    """A nested block shares the outer scope; after the last block none is open."""
    assert current.get().shared is None
    with shared_work():
        outer = current.get().shared
        with shared_work():
            assert current.get().shared is outer
        assert current.get().shared is outer
    assert current.get().shared is None
    with shared_work():
        assert current.get().shared is not outer


def test_many_threads_fetch_once() -> None:
    """All receive the answer, and exactly one of them fetches it."""
    shared, fetched = Shared(), threading.Semaphore(1)
    together = threading.Barrier(8, timeout=10)

    def fetch() -> str:
        assert fetched.acquire(blocking=False)
        return "answer"

    def get() -> tuple[str, bool]:
        together.wait()
        return shared.get("key", fetch)

    with ThreadPoolExecutor(8) as pool:
        answers = [future.result() for future in [pool.submit(get) for _ in range(8)]]
    assert {answer for answer, _ in answers} == {"answer"}
    assert sorted(reused for _, reused in answers) == [False] + [True] * 7


async def test_a_cancelled_fetch_is_taken_over() -> None:
    """A waiting task fetches instead; the cancelled task stays cancelled."""
    shared, started = Shared(), asyncio.Event()

    async def stuck() -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    async def quick() -> str:
        return "answer"

    first = asyncio.create_task(shared.aget("key", stuck))
    await started.wait()
    waiting = [asyncio.create_task(shared.aget("key", quick)) for _ in range(3)]
    await asyncio.sleep(0)
    first.cancel()
    answers = await asyncio.gather(*waiting)
    assert {answer for answer, _ in answers} == {"answer"}
    assert [reused for _, reused in answers].count(False) == 1
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_cancelled_waiter_stops_nobody() -> None:
    """The fetch continues for the others."""
    shared, go_on = Shared(), asyncio.Event()

    async def fetch() -> str:
        await go_on.wait()
        return "answer"

    first, second, third = [asyncio.create_task(shared.aget("key", fetch)) for _ in range(3)]
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    go_on.set()
    assert [await first, await third] == [("answer", False), ("answer", True)]
    assert second.cancelled()


def test_a_fetch_that_raises_is_taken_over() -> None:
    """A waiting thread fetches by itself; the error is raised where it arose, and a later call asks again."""
    shared, started, fail = Shared(), threading.Event(), threading.Event()

    def failing() -> str:
        started.set()
        fail.wait(10)
        raise ConfigurationError("wrong")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(shared.get, "key", failing)
        started.wait(10)
        second = pool.submit(shared.get, "key", lambda: "answer")
        fail.set()
        assert second.result(10) == ("answer", False)
        with pytest.raises(ConfigurationError):
            first.result(10)
    judge = Faithfulness(ScriptedModel([ConfigurationError("no key"), {"claims": []}, {"claims": []}]))
    with pytest.raises(ConfigurationError, match="no key"):
        judge(SAMPLE)
    assert judge(SAMPLE).unscored == "no_claims"


class Stuck(ScriptedModel):
    """A model that never answers."""

    _asked: asyncio.Event = PrivateAttr(default_factory=asyncio.Event)

    def __init__(self) -> None:
        super().__init__([])

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        self._asked.set()
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("members", [2, 12])
async def test_a_panel_that_is_cancelled_ends(members: int) -> None:
    """Members that wait for another member's request are cancelled too, and the next call works."""
    stuck = Stuck()
    panel = Panel([Faithfulness(stuck, name=str(number)) for number in range(members)])
    task = asyncio.create_task(panel.acall(SAMPLE))
    await stuck._asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await two(FillingModel()).acall(SAMPLE)).usage.calls == 2
