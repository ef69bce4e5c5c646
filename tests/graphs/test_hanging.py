"""Blocking functions that outlive the deadline, called from async code."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from judges.testing import ScriptedJudge
from refine import SelfRefine

DEADLINE_S = 0.2


def test_a_function_within_the_deadline_is_heard() -> None:
    """With a deadline a blocking generator and judge still answer, and their errors still count."""

    def broken(_: object) -> str:
        raise StopIteration

    refiner = SelfRefine(lambda _: "draft", lambda answer: answer == "draft", deadline_s=5)
    assert asyncio.run(refiner.arefine("what?")).stop_reason == "accepted"
    failed = SelfRefine(broken, ScriptedJudge([4]), deadline_s=5)
    assert asyncio.run(failed.arefine("what?")).stop_reason == "generator_failed"


ENDING = """
import asyncio, itertools, threading, time
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from judges import Panel, as_judge
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine

def hang(_=None):
    time.sleep(30)
    print("waited out", flush=True)
    return "late"

async def ahang(_=None):
    await asyncio.sleep(30)
    return "late"

def judging(answer):
    return hang()

async def ajudging(answer):
    return await ahang()

@tool
def look(at: str) -> str:
    "Look."
    return hang()

class BlockingModel(BaseChatModel):
    _llm_type = "blocking"

    def _generate(self, messages, stop=None, run_manager=None, **settings):
        return hang()

def agent():
    call = {"name": "look", "args": {"at": "x"}, "id": "1"}
    return create_agent(ScriptedModel([AIMessage("", tool_calls=[call]), "done"]), [look])

def draft():
    return ScriptedModel(["draft"])

CASES = {
    "function": (lambda: hang, lambda: ScriptedJudge([4])),
    "async function": (lambda: ahang, lambda: ScriptedJudge([4])),
    "model": (BlockingModel, lambda: ScriptedJudge([4])),
    "chain": (lambda: draft() | RunnableLambda(hang), lambda: ScriptedJudge([4])),
    "agent": (agent, lambda: ScriptedJudge([4])),
    "judge": (draft, lambda: judging),
    "async judge": (draft, lambda: ajudging),
    "runnable judge": (draft, lambda: as_judge(RunnableLambda(hang))),
    "panel": (draft, lambda: Panel([as_judge(judging, name="a"), as_judge(ajudging, name="b")])),
}
def refiner(case):
    generator, judge = CASES[case]
    return SelfRefine(generator(), judge(), deadline_s=0.2)

for case in CASES:
    assert refiner(case).refine("what?").stop_reason == "deadline", case
for case in CASES:
    assert asyncio.run(refiner(case).arefine("what?")).stop_reason == "deadline", case

numbers = itertools.count()
first_at_once = RunnableLambda(lambda _: hang() if next(numbers) else "draft")
drafts = ScriptedModel(["draft"], cycle=True) | first_at_once
race = SelfRefine(drafts, ScriptedJudge([4]), candidates=2, first_accepted=True)
assert asyncio.run(race.arefine("what?")).passed
print("over", flush=True)
"""


def test_the_process_ends_at_once_after_the_deadline() -> None:
    """No thread that still hangs is waited for: of a function, a chain, a panel or an agent's tool."""
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "over\n"


def test_other_calls_of_the_event_loop_are_waited_for_as_before() -> None:
    """After a loop with a deadline, a call in the default executor ends before `asyncio.run` does, in its pool."""
    refiner = SelfRefine(lambda _: "draft", lambda answer: answer == "draft", deadline_s=5)
    ended: list[str] = []

    def write() -> None:
        time.sleep(0.05)
        ended.append(threading.current_thread().name.partition("_")[0])

    async def main(executor: ThreadPoolExecutor | None) -> None:
        loop = asyncio.get_running_loop()
        if executor is not None:
            loop.set_default_executor(executor)
        assert (await refiner.arefine("what?")).passed
        loop.run_in_executor(None, write)

    asyncio.run(main(None))
    asyncio.run(main(ThreadPoolExecutor(thread_name_prefix="own")))
    assert ended == ["asyncio", "own"]


def test_an_evaluation_that_is_interrupted_does_not_wait_for_its_judges() -> None:
    """After an interruption the process ends, although judges still hang."""
    code = (
        "import time\nfrom judges.offline import evaluate\n"
        "def hang(answer):\n    if answer == 'bad':\n        time.sleep(0.3)\n        raise KeyboardInterrupt\n"
        "    time.sleep(30)\n    print('waited out', flush=True)\n"
        "rows = [{'question': 'q', 'answer': answer} for answer in ('good', 'bad', 'good')]\n"
        "try:\n    evaluate(rows, hang)\n"
        "except KeyboardInterrupt:\n    print('over', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "over\n"


async def test_a_call_that_fails_as_its_caller_goes_is_no_noise() -> None:
    """Who cancels a refinement at the moment when the generator fails hears nothing of that, nor does the log."""
    complaints: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(str(context["message"])))

    async def fail_late(_: object) -> str:
        try:
            await asyncio.sleep(20)
        finally:
            raise OSError("too late")

    for candidates in (1, 2):
        refiner = SelfRefine(fail_late, ScriptedJudge([4]), deadline_s=20.0, candidates=candidates)
        asking = asyncio.ensure_future(refiner.arefine("what?"))
        await asyncio.sleep(0.05)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.sleep(0.01)
        gc.collect()
    assert complaints == []
