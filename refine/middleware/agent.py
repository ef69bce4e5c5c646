"""`SelfRefineMiddleware`: the loop inside an agent of LangChain, around its model."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Annotated, Any, NotRequired
from uuid import uuid4

from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelResponse,
)
from langchain.agents.middleware.types import ContextT, PrivateStateAttr, ResponseT
from langchain_core.messages import AIMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from graphs import Outcome, Policy
from graphs.drivers import arun_step, run_step
from graphs.graph import build_loop
from graphs.loop import Step, Transition
from judges import ConfigurationError
from judges.runtime import flow
from refine.middleware.model_call import ModelCall
from refine.middleware.turn import Turn, Turns, token_of
from refine.recording import Record

_CHANNEL = "refine_turns"


def _merge(turns: dict[str, Any], update: dict[str, Any]) -> dict[str, Any]:
    return {**turns, **update}


class RefineState(AgentState[ResponseT]):
    """What the middleware adds to an agent's state: by its name, the turn's token and figures, never a text."""

    refine_turns: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, _merge]]


class SelfRefineMiddleware(AgentMiddleware[RefineState[ResponseT], ContextT, ResponseT]):
    """Judge the answers of an agent, and let it answer again until one is accepted."""

    state_schema = RefineState  # type: ignore[assignment]  # as LangChain's own middleware does: generic

    def __init__(
        self,
        judge: object,
        *,
        policy: Policy | None = None,
        on_outcome: Callable[[Outcome], object] | None = None,
        record: str | Path | None = None,
        name: str = "SelfRefineMiddleware",
        max_turns: int = 1_000,
        max_outcomes: int = 100,
        **settings: Any,
    ) -> None:
        super().__init__()
        if policy is not None and settings:
            raise ConfigurationError(f"give policy=... or settings, not both (given also {sorted(settings)})")
        self.policy = policy or Policy(**settings)
        if self.policy.candidates > 1:
            raise ConfigurationError(
                f"an agent makes one model call at a time, so candidates={self.policy.candidates} is not for its "
                f"middleware; give it to SelfRefine(agent, judge), which runs whole agents side by side"
            )
        self._name = name
        self._loop = build_loop(_no_generator, judge, self.policy, name=name)
        self._turns = Turns(max_turns=max_turns, max_outcomes=max_outcomes)
        self._record = None if record is None else Record(record)
        self._on_outcome = on_outcome

    @property
    def name(self) -> str:
        return self._name

    def before_agent(self, state, runtime):
        turn = Turn.of(state["messages"])
        self._turns.open(turn)
        return {_CHANNEL: {self._name: {"token": turn.token}}}

    async def abefore_agent(self, state, runtime):
        return self.before_agent(state, runtime)

    def after_agent(self, state, runtime):
        self._turns.close(token_of(state, _CHANNEL, self._name).get("token"))

    async def aafter_agent(self, state, runtime):
        return self.after_agent(state, runtime)

    def wrap_model_call(self, request, handler):
        turn, call, loop = self._open(request, handler)
        config = get_config()

        def perform(step: Step) -> Transition:
            return run_step(step, turn.refinement, turn.conversation, config)

        transition = flow.run(self._steps(turn, call, loop, request), perform)
        return self._response(turn, call, transition)

    async def awrap_model_call(self, request, handler):
        turn, call, loop = self._open(request, handler)
        config = get_config()

        async def perform(step: Step) -> Transition:
            return await arun_step(step, turn.refinement, turn.conversation, config)

        transition = await flow.arun(self._steps(turn, call, loop, request), perform)
        return self._response(turn, call, transition)

    def _open(self, request, handler):
        figures = token_of(request.state, _CHANNEL, self._name)
        turn = self._turns.get(figures.get("token"))
        if turn is None:
            turn = Turn.of(request.state["messages"])
            self._turns.open(turn)
        turn.update(request.state["messages"])
        call = ModelCall(turn, request, handler, models={}, silent=not self.policy.show_drafts)
        return turn, call, self._loop.with_generator(call)

    def _steps(self, turn, call, loop, request) -> Generator[Step, Transition, Transition]:
        run = request.runtime.control
        turn.refinement = turn.resume(run)
        if turn.refinement is None:
            turn.refinement = loop.begin({"messages": turn.conversation})
        goto = turn.next_step
        try:
            while True:
                transition = yield loop.steps[goto]
                turn.record(transition)
                if goto == "generate" and transition.goto is not None and call.response is not None:
                    turn.responses[len(transition.refinement.attempts)] = call.response
                if transition.goto is None:
                    break
                goto = transition.goto
        except GraphBubbleUp:
            raise
        except BaseException:
            turn.restart()
            raise
        turn.pause(run)
        return transition

    def _response(self, turn, call, transition):
        outcome = transition.outcome
        if outcome is None:
            message = next(m for m in reversed(call.response.result) if isinstance(m, AIMessage))
            response = call.response
            if message.id is None:
                message.id = str(uuid4())
            if turn.continued_by is None:
                turn.continued_by = message.id
        else:
            response = turn.responses.get(outcome.released)
            final = outcome.answer
            if response is None:
                response = ModelResponse([final])
            else:
                response = ModelResponse(
                    [
                        (
                            m.model_copy(update={"id": final.id, "response_metadata": final.response_metadata})
                            if isinstance(m, AIMessage)
                            else m
                        )
                        for m in response.result
                    ],
                    structured_response=response.structured_response,
                )
            turn.restart()
            self._turns.add_outcome(outcome)
        return ExtendedModelResponse(
            response, command=Command(update={_CHANNEL: {self._name: {"token": turn.token}}})
        )


def _no_generator(messages):
    raise NotImplementedError
