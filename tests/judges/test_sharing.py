"""Judges that need the same of one sample pay for it once; nothing else is shared."""

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
from judges.catalogue.ragas.faithfulness import Faithfulness
from judges.catalogue.ragas.semantic_similarity import SemanticSimilarity
from judges.offline import aevaluate, evaluate
from judges.runtime.sharing import Shared, scope, shared_work
from judges.testing import ScriptedEmbeddings, ScriptedModel
from tests.catalogue.filling import FillingModel
from tests.catalogue.scripts import Shown, items, replying

SAMPLE: dict[str, Any] = {
    "user_input": "Where is the tower?",
    "response": "The tower is in Paris.",
    "retrieved_contexts": ["The tower is in Paris."],
    "reference": "It is in Paris.",
}
HOW = pytest.mark.parametrize("how", ["sync", "async"])


async def judged(how: str, judge: Judge, sample: dict[str, Any] = SAMPLE) -> Verdict:
    """Judge, sync or async."""
    return judge(sample) if how == "sync" else await judge.acall(sample)


def two(model: object, **settings: Any) -> Panel:
    """Make a panel of two judges that ask the same."""
    return Panel([Faithfulness(model, name=name, **settings) for name in ("one", "other")])


@HOW
async def test_a_panel_pays_for_shared_questions_once(how: str) -> None:
    """The claims and their verdicts are asked for once; both members have them."""
    verdict = await judged(how, two(model := FillingModel()))
    assert len(model.prompts) == 2
    assert [one.score for one in verdict.items] == [1, 1]
    assert verdict.items[0].items == verdict.items[1].items


@HOW
async def test_the_bill_is_paid_once(how: str) -> None:
    """What was taken from another member costs nothing, and is counted as such."""
    verdict = await judged(how, two(FillingModel()))
    assert (verdict.usage.calls, verdict.usage.cached) == (2, 2)
    alone = await judged(how, Faithfulness(FillingModel()))
    assert verdict.usage.tokens == alone.usage.tokens


@HOW
async def test_a_failure_is_shared_too(how: str) -> None:
    """A question that failed is not asked again by the next member."""
    model = ScriptedModel([ValueError("no")], cycle=True)
    verdict = await judged(how, two(model))
    assert len(model.prompts) == 1
    assert [one.unscored for one in verdict.items] == ["judge_failed", "judge_failed"]
    assert verdict.usage.calls == 1


@HOW
@pytest.mark.parametrize("strict_first", [True, False])
async def test_a_reply_that_nobody_checked_is_not_shared_with_who_checks(
    how: str,
    strict_first: bool,  # noqa: FBT001 - a case
) -> None:
    """A list that leaves claims out suits one judge, and never becomes the verdict of the other."""

    def reply(data: Shown) -> dict[str, Any]:
        return {"claims": ["a", "b", "c"]} if "text" in data else items("supported")

    model = replying(reply)
    lenient = Faithfulness(model, missing="unsupported", name="lenient")
    strict = Faithfulness(model, name="strict")
    verdict = await judged(how, Panel([strict, lenient] if strict_first else [lenient, strict]))
    found = {one.judge: one.unscored or f"{one.score:.3f}" for one in verdict.items}
    assert found == {"strict": "invalid_output", "lenient": "0.333"}


async def test_a_sync_call_from_within_the_loop_waits_for_nobody_on_it() -> None:
    """A function judge that judges with another one, blocking, asks for itself what that one has on its way."""
    inner = Faithfulness(FillingModel(), name="inner")

    @as_judge
    async def outer(sample: Sample) -> bool:
        return bool(inner(sample).passed)

    verdict = await asyncio.wait_for(Panel([inner, outer]).acall(SAMPLE), 20)
    assert [one.unscored for one in verdict.items] == [None, None]


@HOW
async def test_a_question_that_is_not_shared_is_asked_by_each(how: str) -> None:
    """Two judges of helpfulness are two opinions."""
    model = FillingModel()
    panel = Panel([Helpfulness(model, name=name) for name in ("one", "other")])
    assert (await judged(how, panel)).usage.calls == len(model.prompts) == 2


@HOW
@pytest.mark.parametrize(
    "others",
    [
        lambda model: [Faithfulness(model), Faithfulness(FillingModel(), name="other")],
        lambda model: [Faithfulness(model), Faithfulness(model, name="other", language="zh")],
    ],
    ids=["another model", "another language"],
)
async def test_what_differs_is_not_shared(how: str, others: Callable[[FillingModel], list[Judge]]) -> None:
    """Another model, or the same question in another language, is another question."""
    verdict = await judged(how, Panel(others(FillingModel())))
    assert (verdict.usage.calls, verdict.usage.cached) == (4, 0)


@HOW
async def test_what_is_alike_is_shared(how: str) -> None:
    """A compat member shares the claims; it asks for the verdicts in a form of its own."""
    model = FillingModel()
    panel = Panel([Faithfulness(model), Faithfulness(model, name="compat", variant="compat")])
    assert (await judged(how, panel)).usage.calls == len(model.prompts) == 3


@HOW
async def test_the_runs_of_a_repeated_judge_share_nothing(how: str) -> None:
    """Each run is an opinion of its own, decomposition included."""
    model = FillingModel()
    assert (await judged(how, Repeat(Faithfulness(model), n=3))).usage.calls == len(model.prompts) == 6


@HOW
async def test_two_calls_share_nothing(how: str) -> None:
    """The same judge on the same sample asks again."""
    judge = Faithfulness(model := FillingModel())
    assert [(await judged(how, judge)).usage.calls for _ in range(2)] == [2, 2]
    assert len(model.prompts) == 4


@HOW
async def test_the_judges_of_a_row_share_and_rows_do_not(how: str) -> None:
    """Over a dataset the scope is the row, even where rows are equal."""
    model = FillingModel()
    judges = {name: Faithfulness(model) for name in ("one", "other")}
    rows = [SAMPLE, SAMPLE, SAMPLE]
    done = evaluate(rows, judges) if how == "sync" else await aevaluate(rows, judges)
    assert len(model.prompts) == 2 * len(rows)
    assert done.summary["one"].usage.calls + done.summary["other"].usage.calls == 2 * len(rows)


@HOW
async def test_texts_are_embedded_once(how: str) -> None:
    """Vectors are shared like replies."""
    embeddings = ScriptedEmbeddings(lambda _: [1.0])
    panel = Panel([SemanticSimilarity(embeddings, name=name) for name in ("one", "other")])
    assert (await judged(how, panel)).passed
    assert len(embeddings.batches) == 1


def test_a_scope_is_open_for_a_block() -> None:
    """A block inside another shares its scope; behind the last one nothing is open."""
    assert scope() is None
    with shared_work():
        outer = scope()
        with shared_work():
            assert scope() is outer
        assert scope() is outer
    assert scope() is None
    with shared_work():
        assert scope() is not outer


def test_many_threads_fetch_once() -> None:
    """All get the answer, and one of them fetched it."""
    shared, fetched = Shared(), threading.Semaphore(1)
    together = threading.Barrier(8, timeout=10)

    def fetch() -> str:
        assert fetched.acquire(blocking=False)
        return "answer"

    def get() -> tuple[str, bool]:
        together.wait()
        return shared.get("key", fetch)

    with ThreadPoolExecutor(8) as pool:
        answers = [one.result() for one in [pool.submit(get) for _ in range(8)]]
    assert {answer for answer, _ in answers} == {"answer"}
    assert sorted(known for _, known in answers) == [False] + [True] * 7


async def test_a_cancelled_fetch_is_taken_over() -> None:
    """Whoever waits for it fetches instead; the one that was cancelled is cancelled."""
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
    assert [known for _, known in answers].count(False) == 1
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_cancelled_waiter_stops_nobody() -> None:
    """The fetch goes on for the others."""
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
    """A thread that waits for it fetches itself; the error goes to the one whose it is."""
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


def test_a_wrong_set_up_is_raised_and_not_kept() -> None:
    """An error of configuration ends the panel; a later call asks anew."""
    model = ScriptedModel([ConfigurationError("no key"), {"claims": []}, {"claims": []}])
    judge = Faithfulness(model)
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
    """Members that wait for one another's question end with it, and the next call works."""
    stuck = Stuck()
    panel = Panel([Faithfulness(stuck, name=str(number)) for number in range(members)])
    task = asyncio.create_task(panel.acall(SAMPLE))
    await stuck._asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await two(FillingModel()).acall(SAMPLE)).usage.calls == 2
