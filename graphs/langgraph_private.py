"""The hidden channel of the loop's state, and the muted configuration for calls inside a node.

Every input and output of a node is visible in some stream: `updates`, `values`, `debug`, `tasks`, or the events of
callbacks. Drafts are therefore neither input nor output: nodes read and write the channel `refinement` through the
functions that LangGraph puts into a node's config for its own readers and writers. The channel is checkpointed
like any other, but left out of what the graph streams and returns. Tests check this for every stream mode.

No other module names a key that LangGraph keeps to itself; what is private of LangChain stands in
`graphs.langchain_private`. What is relied on is stated in `tests/graphs/test_langgraph_contract.py`, fact by fact.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import count
from threading import Lock
from types import FrameType
from typing import Any, NamedTuple
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import DEFAULT_RECURSION_LIMIT as LANGCHAIN_LIMIT
from langchain_core.runnables.config import ensure_config, var_child_runnable_config
from langgraph._internal._config import DEFAULT_RECURSION_LIMIT as LANGGRAPH_LIMIT
from langgraph._internal._config import recast_checkpoint_ns
from langgraph.errors import ParentCommand
from langgraph.pregel import Pregel
from langgraph.types import Command, interrupt
from pydantic_core import to_jsonable_python

from graphs import langchain_private
from graphs.langchain_private import run_task
from judges.errors import ConfigurationError
from judges.models.providers.llm_runs import is_observed
from judges.runtime.observation import current, setting

DECISION = "__refine_decision"
OVERRIDES = "__refine_overrides"
RECORDS = "__refine_records"
OUTLET = "__refine_outlet"
"""Keys of what a run carries: a reviewer's decision, what its request overrides, its record, who takes pieces."""

_KEYS = (DECISION, OVERRIDES, RECORDS, OUTLET, langchain_private.HEARD)
"""Keys of a config's `configurable`; what is called inside of a step does not inherit them."""


def carry(config: RunnableConfig | None, key: str, value: object) -> RunnableConfig:
    """Return the config of a run that carries a value; None carries nothing."""
    if value is None:
        return config or {}
    configurable = (config or {}).get("configurable") or {}
    return {**(config or {}), "configurable": {**configurable, key: value}}


def carried(config: RunnableConfig, key: str) -> Any:
    """Return the value that a run carries; None where it carries none."""
    return (config.get("configurable") or {}).get(key)


RECORD = "refinement"
"""The hidden channel: the record of the refinement, drafts included."""

SUMMARY = "refine"
"""The visible channel: a summary of the record without any rejected text."""

STATUS = "status"
"""Another visible channel: whether the turn is running, waiting for a human, or done."""

_READ = "__pregel_read"
_SEND = "__pregel_send"
_CHECKPOINTER = "__pregel_checkpointer"
_DURABILITY = "__pregel_durability"
_SCRATCHPAD = "__pregel_scratchpad"
_RESUMING = "__pregel_resuming"
_RESUME_MAP = "__pregel_resume_map"
_TASK = "__pregel_task_id"
_POSITIONS = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")
_RUNTIME = "__pregel_runtime"
_PROGRESS = "__refine_progress"
_STEP_LIMIT = "__refine_step_limit"
_CALL = "__pregel_call"
_RESUME = "__resume__"
_SILENCED = "__refine_silenced"
_OUTER_DURABILITY = "__refine_durability"
_DURABILITY_SETTINGS = ("durability", "checkpoint_during")
"""Arguments of a run that say how soon it saves; the second one is deprecated."""

_LANGGRAPH_KEYS = ("__pregel_", "checkpoint_")
_GRAPH_KEYS = (*_LANGGRAPH_KEYS, _PROGRESS, _STEP_LIMIT, _OUTER_DURABILITY, *_KEYS)
_STREAM_KEYS = ("__pregel_stream", "__pregel_stream_messages_v2")

_DEFAULT_STEP_LIMITS = frozenset({LANGCHAIN_LIMIT, int(LANGGRAPH_LIMIT), 9_999})
"""Step limits that nobody asked for: LangChain's, LangGraph's, and the one that `create_agent` binds."""

_UNLIMITED_STEPS = 1_000_000_000
"""The step limit of the loop's own graph, which ends by itself."""


def hide_record(graph: Pregel[Any, Any, Any, Any]) -> None:
    """Leave the record out of everything that a compiled graph streams, returns or shows of its state."""
    graph.stream_channels = ["messages", SUMMARY, STATUS]


def read(config: RunnableConfig, channel: str) -> Any:
    """Return the value of a channel from inside a node; None if it is empty."""
    return config["configurable"][_READ]([channel]).get(channel)


def write(config: RunnableConfig, channel: str, value: object) -> None:
    """Write a channel from inside a node; LangGraph applies and stores the value when the node is done."""
    config["configurable"][_SEND]([(channel, value)])


def has_checkpointer(config: RunnableConfig) -> bool:
    """Check whether there is a checkpointer, so that written values must be plain data."""
    return config.get("configurable", {}).get(_CHECKPOINTER) is not None


class Position(NamedTuple):
    """The checkpoint that a node continues: the ids of its thread and its own."""

    checkpointer: Any
    thread_id: str
    checkpoint_id: str

    @property
    def newest(self) -> RunnableConfig:
        """The config that addresses the newest checkpoint of the thread."""
        return {"configurable": {"thread_id": self.thread_id, "checkpoint_ns": ""}}

    @property
    def own(self) -> RunnableConfig:
        """The config that addresses the checkpoint itself."""
        return {"configurable": {**self.newest["configurable"], "checkpoint_id": self.checkpoint_id}}


def checkpoint_of(config: RunnableConfig) -> Position | None:
    """Return what a node of an outermost graph continues.

    None means that there is no checkpointer, or that the graph is part of another one.
    """
    configurable = config.get("configurable", {})
    checkpointer, checkpoint_id = configurable.get(_CHECKPOINTER), configurable.get("checkpoint_map", {}).get("")
    if checkpointer is None or checkpoint_id is None or "|" in configurable.get("checkpoint_ns", ""):
        return None
    return Position(checkpointer, str(configurable.get("thread_id")), checkpoint_id)


def stores_steps(config: RunnableConfig) -> bool:
    """Check whether each step of a graph is stored as it ends, and not all of them when the graph does."""
    return config.get("configurable", {}).get(_DURABILITY) != "exit"


def lacks_durability(settings: Mapping[str, Any], config: RunnableConfig, checkpointer: object) -> bool:
    """Check whether a run is saved, and nobody said how soon: neither its own settings nor a graph around.

    A graph around that stores at its end alone does not count while a decision is resumed: of a graph inside that
    ends then, LangGraph would keep that it waits for the decision, so that one beside it never gets its own.

    The config is merged with that of the graph, to which the checkpointer belongs.
    """
    is_unsaid = all(settings.get(name) is None for name in _DURABILITY_SETTINGS)
    configurable = _configurable_of(config)
    around = configurable.get(_DURABILITY)
    is_unheeded = around is None or (around == "exit" and bool(configurable.get(_RESUMING)))
    return is_unsaid and _is_saved(config, checkpointer) and is_unheeded


def _is_saved(config: RunnableConfig, checkpointer: object) -> bool:
    """Check whether a run is saved, by the graph's own checkpointer or by that of a graph around."""
    return checkpointer is not False and bool(_configurable_of(config).get(_CHECKPOINTER, checkpointer))


def names_a_checkpoint(config: RunnableConfig) -> bool:
    """Check whether a run begins at a checkpoint of its own choice, and not at the newest one of its thread."""
    return "checkpoint_id" in _configurable_of(config)


def context_of(config: RunnableConfig) -> Any:
    """Return the runtime context of the graph that a node is part of, or of one around it; None without one.

    One that a loop around has read is that loop's: LangGraph hands it on to whatever runs inside, which answers
    other questions. A call inside that was given a context of its own has another object.
    """
    context = getattr(config.get("configurable", {}).get(_RUNTIME), "context", None)
    return None if context is _read_outside.get() else context


_read_outside: ContextVar[Any] = ContextVar("graphs.context_read_outside", default=None)


def inside_of(config: RunnableConfig) -> setting[Any]:
    """Run a `with` block as what a loop with this config calls: the loop's context says nothing about it."""
    return setting(_read_outside, context_of(config) or _read_outside.get())


def thread_of(config: RunnableConfig, checkpointer: object) -> Hashable:
    """Return what identifies, in this process, the thread on which an outermost graph is about to run.

    None means that it has none: there is no checkpointer, or the graph is part of another one, whose thread it is.
    A config that names a thread is not part of the surrounding graph, as LangGraph sees it. Where there is a
    checkpointer, and no thread is named to keep the run under, it is empty.

    Args:
        config: The config of the run, merged with the graph's own.
        checkpointer: The graph's own checkpointer.
    """
    configurable = _configurable_of(config)
    saver, thread_id = configurable.get(_CHECKPOINTER, checkpointer), configurable.get("thread_id")
    if not saver or isinstance(saver, bool) or _TASK in configurable:
        return None
    return () if thread_id is None else (os.getpid(), id(saver), str(thread_id))


def _configurable_of(config: RunnableConfig) -> dict[str, Any]:
    """Return the settings of a graph about to run, with those of a graph around unless it names a thread."""
    configurable = config.get("configurable") or {}
    if any(map(configurable.get, _POSITIONS)):
        return configurable
    ambient = var_child_runnable_config.get() or {}
    return {**(ambient.get("configurable") or {}), **configurable}


def inherits_checkpointer(config: RunnableConfig) -> bool:
    """Check whether a graph called with this config has the checkpointer of the graph around it, even if none."""
    return _CHECKPOINTER in config.get("configurable", {})


def is_node(config: RunnableConfig) -> bool:
    """Check whether the config is that of a node of a graph, or of a call inside one."""
    return _READ in config.get("configurable", {})


def has_channel(config: RunnableConfig, channel: str) -> bool:
    """Check whether the graph whose node has this config has a channel of that name, empty or not."""
    if not is_node(config):
        return False
    try:
        read(config, channel)
    except KeyError:
        return False
    return True


def detached_config(config: RunnableConfig) -> RunnableConfig:
    """Return the config for a model or a judge: its events reach tracers, but none of the client's streams.

    All settings of the surrounding graph are removed.
    """
    configurable = config.get("configurable") or {}
    remaining = {key: value for key, value in configurable.items() if not key.startswith(_GRAPH_KEYS)}
    return _traced_config(config, {**remaining, _SILENCED: True})


def muted_config(config: RunnableConfig, *, silent: bool = True) -> RunnableConfig:
    """Return the config for a generator that may be a graph itself: muted, but part of the surrounding graph.

    An agent can thus interrupt and resume, with the checkpointer and the store of the graph. What a function
    pushes into the graph (`push_message`) is dropped, and its tasks run where they are called. The durability of
    the graph is set aside, since LangGraph fails in a graph without a checkpointer that inherits `"sync"`; see
    `durable_config`.

    Args:
        config: The config of the node.
        silent: Whether values written to LangGraph's stream writer are dropped.
    """
    configurable = config.get("configurable") or {}
    ours = (*_STREAM_KEYS, _STEP_LIMIT, *_KEYS)
    remaining = {key: value for key, value in configurable.items() if key not in ours}
    if silent:
        remaining.pop(_PROGRESS, None)
        remaining[_SILENCED] = True
        runtime = remaining.get(_RUNTIME)
        if runtime is not None and not _writes_nothing(runtime.stream_writer):
            remaining[_RUNTIME] = runtime.override(stream_writer=_drop)
    if _DURABILITY in remaining:
        remaining[_OUTER_DURABILITY] = remaining.pop(_DURABILITY)
    around = remaining.get(_CALL, partial(run_task)).keywords  # by which the run of the outermost graph is found
    remaining |= {_SEND: partial(_send_resumed, remaining.get(_SEND)), _CALL: partial(run_task, **around)}
    return _traced_config(config, remaining)


def durable_config(config: RunnableConfig) -> RunnableConfig:
    """Return a muted config for a graph that is saved as the surrounding graph is, and as soon."""
    configurable = config.get("configurable") or {}
    if _OUTER_DURABILITY not in configurable:
        return config
    remaining = {key: value for key, value in configurable.items() if key != _OUTER_DURABILITY}
    return {**config, "configurable": {**remaining, _DURABILITY: configurable[_OUTER_DURABILITY]}}


def unanswerable_interrupt(error: Exception) -> ConfigurationError | None:
    """Return the error to raise where a judge asks a human outside of any graph; None for any other error."""
    if not isinstance(error, KeyError) or error.args != (_SCRATCHPAD,):
        return None
    return ConfigurationError(
        "the judge stopped to ask a human, and nothing could resume it; give a checkpointer to the loop"
    )


class ResumeAnswers:
    """What humans answered in a node, each answer kept with the subject that it is about.

    LangGraph hands resume values to `interrupt` by their order within one run of a node. Where a node makes
    several attempts, and goes on after a pause without the calls that took the earlier values, or makes a draft
    anew, a value would answer a question about another draft. So each call inside a node gets a scratchpad of its
    own, with the answers about its subject alone. The answers stand together in one entry of the node's resume
    values, followed by a filler for each, so that the count of values, and with it the id of every interrupt, is
    as LangGraph expects.

    Args:
        configurable: Settings of the node's config.
    """

    def __init__(self, configurable: Mapping[str, Any]) -> None:
        self._configurable = configurable
        self._scratchpad = configurable[_SCRATCHPAD]
        self._send = configurable[_SEND]
        self._values: list[Any] = self._scratchpad.resume
        self._asks_at: tuple[int, ...] | None = None
        self._asked_inside: list[str] = []
        self._asking = Lock()
        places = (place for place, value in enumerate(self._values) if isinstance(value, dict) and _ENTRY in value)
        self._place = next(places, None)
        if self._place is not None and not isinstance(self._entry, _AnswersEntry):
            self._go_on(self._place)

    @classmethod
    def of(cls, config: RunnableConfig) -> ResumeAnswers | None:
        """Return the answers of a node; None where no checkpointer keeps any, so that nobody can be asked.

        Of loops inside one another in a node, as two middlewares of an agent, all have the same.
        """
        configurable = config.get("configurable", {})
        if configurable.get(_CHECKPOINTER) is None or _SCRATCHPAD not in configurable:
            return None
        around = configurable[_SCRATCHPAD].resume
        return around.owner if isinstance(around, _AnswersAbout) else cls(configurable)

    def about(
        self, subject: str, config: RunnableConfig, *, heard: langchain_private.HeardReplies | None = None
    ) -> RunnableConfig:
        """Return a call's config in which a human is asked about one subject: a draft, or a prompt.

        Args:
            subject: The subject.
            config: The config of the call.
            heard: What models reply inside: who asks after a reply asks about it, too. None hears nothing.
        """
        around = config["configurable"][_SCRATCHPAD].resume
        subject = f"{around.subject} > {subject}" if isinstance(around, _AnswersAbout) else subject
        numbers: defaultdict[str, count[int]] = defaultdict(count)
        asking: set[str] = set()
        size = len(self._values)  # as it is now: one that grows while another asks would count as an answer
        inside = config if heard is None else self._heard_again(subject, heard).hearing(config)

        def here() -> str:
            """Return the subject, and of judges side by side the one that asks, since threads race."""
            parts = (subject, "" if heard is None else heard.digest or _question(), current.get().place)
            return " ".join(str(part) for part in parts if part)

        def next_number() -> int:
            position = here()
            number, answer_count = next(numbers[position]), len(self._about(position))
            (asking.add if number >= answer_count else asking.discard)(position)
            return size - answer_count + number

        def resume_inside(consume: bool = False) -> Any:  # noqa: FBT001, FBT002 - as LangGraph calls it
            """Return nothing to a question of this call, which has no answer yet; to a graph inside, its own."""
            position = here()
            if position not in asking:
                if _is_of_a_loop_inside():  # which checks its own
                    return self._scratchpad.get_null_resume(consume)
                answer = self._take_value(consume=consume)
                if heard is not None and consume:
                    self._check_inside(subject, heard, is_answered=answer is not None)
                return answer
            asking.discard(position)
            self._keep(subject, heard)
            self._ask(position)
            return None

        scratch = replace(
            self._scratchpad,
            resume=_AnswersAbout(self, subject, size, lambda: self._about(here())),
            interrupt_counter=next_number,
            get_null_resume=resume_inside,
        )
        return {**config, "configurable": {**inside["configurable"], _SCRATCHPAD: scratch, _SEND: self._store}}

    @property
    def _entry(self) -> dict[str, Any]:
        entry: dict[str, Any] = {} if self._place is None else self._values[self._place]
        return entry

    def _about(self, subject: str) -> list[Any]:
        answers: list[Any] = self._entry.get(_ENTRY, {}).get(subject, [])
        return answers

    def _go_on(self, place: int) -> None:
        """Take up what an earlier run of the node stored, and the answer that resumed it, if it asked."""
        entry = self._values[place] = _AnswersEntry(self._values[place])
        self._scratchpad.interrupt_counter()
        for value in self._values[place + 1 :]:
            if value == _FILLER:
                self._scratchpad.interrupt_counter()
        if entry["asked"] is None:
            return
        is_mapped = len(self._values) > entry["values"]
        answer = self._values.pop() if is_mapped else self._take_value(consume=True)
        if answer is not None:
            entry[_ENTRY].setdefault(entry["asked"], []).append(answer)
            entry["asked"] = None
            self._values.insert(place + 1, _FILLER)
            self._scratchpad.interrupt_counter()

    def _take_value(self, *, consume: bool) -> Any:
        """Return the value that the run was resumed with, or that a run which broke off did not get to; or None.

        LangGraph keeps it until the outermost graph's step ends, and hands it to whoever asks next where a later
        run is resumed by id, or with None: then it counts only for what was asked before it was given.
        """
        value = self._scratchpad.get_null_resume(consume)
        if value is None or _RESUME_MAP in self._configurable:
            return None
        is_older = value == self._entry.get("value_before", value)
        return None if is_older and not _is_resumed_by_command(self._configurable) else value

    def _ask(self, subject: str) -> None:
        """Note what the question is about that is put to a human now.

        Of several judges side by side that ask, the first one in their order does: its interrupt is raised.
        """
        place = current.get().place
        with self._asking:  # or a judge that is later in their order could be noted for the question of another
            if self._asks_at is not None and self._asks_at < place:
                return
            self._asks_at = place
            self._open_entry().update(asked=subject, values=len(self._values))
            self._store()

    def _open_entry(self) -> dict[str, Any]:
        if self._place is None:
            self._place = self._scratchpad.interrupt_counter()
            self._values.insert(self._place, _AnswersEntry({_ENTRY: {}, "asked": None}))
        self._entry["value_before"] = self._scratchpad.get_null_resume(False)  # noqa: FBT003 - as LangGraph does
        return self._entry

    def _heard_again(self, subject: str, heard: langchain_private.HeardReplies) -> langchain_private.HeardReplies:
        """Return what hears models, which has those replies given again that a human was asked about."""
        earlier = self._entry.get("replies", {}).get(subject, ())
        heard.again = langchain_private.RepliesAgain(earlier, before=None)
        heard.is_decided = _is_decided_inside
        return heard

    def _keep(self, subject: str, heard: langchain_private.HeardReplies | None) -> None:
        """Keep what models replied that a human is asked about; in a graph inside, in the tasks that ask."""
        if heard is not None and heard.is_saved:
            tasks = self._asked_inside
            replies = [reply.to_plain() for reply in heard.replies if not tasks or reply.task in tasks]
            self._open_entry().setdefault("replies", {})[subject] = replies
            self._store()

    def _check_inside(self, subject: str, heard: langchain_private.HeardReplies, *, is_answered: bool) -> None:
        """Note which task of a graph inside asks a human; check that an answer goes to the one that asked.

        Raises:
            ConfigurationError: If that task is gone, since nothing saved the graph.
        """
        task = ensure_config()["configurable"]["checkpoint_ns"]
        with self._asking:
            if not is_answered:
                self._asked_inside.append(task)
                self._open_entry()["inside"] = self._asked_inside
                self._keep(subject, heard)
            elif task not in self._entry.get("inside", [task]):
                raise ConfigurationError(
                    "a human has decided on a draft that is gone, as the graph inside began anew; leave out its "
                    "checkpointer=False, so that it goes on where it asked"
                )

    def _store(self, _: object = None) -> None:
        """Store all answers; `interrupt` calls it, too, once an answer is of the kind that was asked for."""
        values = [dict(value) if isinstance(value, _AnswersEntry) else value for value in self._values]
        self._send([(_RESUME, values)])


def _is_of_a_loop_inside() -> bool:
    """Check whether what asks for an answer now is a loop, in a graph inside, which keeps answers of its own."""
    around = ensure_config()["configurable"][_SCRATCHPAD].resume
    return isinstance(around, _AnswersAbout) or any(isinstance(value, _AnswersEntry) for value in around)


def _is_decided_inside() -> bool:
    """Check whether a task of a graph inside, which runs now, has a human's answer, or is about to get one."""
    scratchpad = ensure_config()["configurable"][_SCRATCHPAD]
    if isinstance(scratchpad.resume, _AnswersAbout):
        return False
    return bool(scratchpad.resume) or scratchpad.get_null_resume(False) is not None  # noqa: FBT003 - as LangGraph does


def _is_resumed_by_command(configurable: Mapping[str, Any]) -> bool:
    """Check whether the run of the outermost graph was resumed with a decision, and not with None."""
    loop = configurable[_CALL].keywords["schedule_task"].__self__
    while loop.is_nested:
        loop = loop.config["configurable"][_CALL].keywords["schedule_task"].__self__
    return isinstance(loop.input, Command) and loop.input.resume is not None


def _question() -> str:
    """Return what tells the question from others that `interrupt` is putting to a human now."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - it is told to nobody before an answer is asked for
    while frame is not None and frame.f_code is not interrupt.__code__:
        frame = frame.f_back
    question = None if frame is None else frame.f_locals["value"]
    plain = to_jsonable_python(question, bytes_mode="base64", fallback=lambda value: type(value).__name__)
    return sha256(repr(plain).encode(errors="surrogatepass")).hexdigest()


class _AnswersEntry(dict[str, Any]):
    """The entry as this run of the node has it; one that a checkpoint held is a plain dict."""


class _AnswersAbout(list[Any]):
    """The answers about a subject, at the end of as many values as the node has altogether."""

    def __init__(
        self, owner: ResumeAnswers, subject: str, size: int, answers: Callable[[], Sequence[Any]]
    ) -> None:
        super().__init__()
        self.owner, self.subject = owner, subject
        self._size, self._answers = size, answers

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: Any) -> Any:
        answers = self._answers()
        return answers if isinstance(place, slice) else answers[place - self._size + len(answers)]


_ENTRY = "__refine_answers"
_FILLER = {"__refine_answered": True}


def unsaved_config(config: RunnableConfig) -> RunnableConfig:
    """Return the config for one of several calls side by side: a part of the graph that no checkpointer saves.

    LangGraph tells the calls inside a node apart by their order, which is another one in each run. How soon to
    save is left out: a graph inside, with nothing to save to, would fail.
    """
    configurable = config.get("configurable") or {}
    if _CHECKPOINTER not in configurable:
        return config
    remaining = {name: value for name, value in configurable.items() if name != _DURABILITY}
    return {**config, "configurable": {**remaining, _CHECKPOINTER: None}}


def fresh_thread_config(config: RunnableConfig) -> RunnableConfig:
    """Return the config for a graph with a checkpointer of its own: a new thread, to forget rejected drafts.

    LangGraph's settings of the surrounding graph are removed.
    """
    configurable = config.get("configurable") or {}
    remaining = {key: value for key, value in configurable.items() if not key.startswith(_LANGGRAPH_KEYS)}
    return {**config, "configurable": {**remaining, "thread_id": str(uuid4())}}


def _traced_config(config: RunnableConfig, configurable: dict[str, Any]) -> RunnableConfig:
    traced: RunnableConfig = {
        "callbacks": [],
        "metadata": {},
        "configurable": configurable,
        "recursion_limit": _requested_limit(config) or int(LANGGRAPH_LIMIT),
    }
    manager = langchain_private.manager_of(config, streaming=False)
    if manager is not None:
        traced |= {"callbacks": manager, "tags": config.get("tags", []), "metadata": config.get("metadata", {})}
    return traced


def _requested_limit(config: RunnableConfig) -> int | None:
    """Return the step limit that a caller set; None where there are only defaults of the frameworks."""
    limit: int | None = config.get("configurable", {}).get(_STEP_LIMIT, config.get("recursion_limit"))
    return None if limit is None or limit in _DEFAULT_STEP_LIMITS or limit >= _UNLIMITED_STEPS else limit


def with_unlimited_loop(config: RunnableConfig | None, inherited: RunnableConfig) -> RunnableConfig:
    """Return the config for the loop's own graph: a step limit bounds what is called inside, not the loop.

    Args:
        config: The config that the graph is called with.
        inherited: The same with what it inherits, from the graph itself and from a run around it.
    """
    limit = _requested_limit(inherited)
    bounding = {} if limit is None else {"configurable": {**inherited.get("configurable", {}), _STEP_LIMIT: limit}}
    return {**(config or {}), **bounding, "recursion_limit": _UNLIMITED_STEPS}  # type: ignore[typeddict-item]  # one key of it


def with_own_limit(config: RunnableConfig, own_limit: int | None) -> RunnableConfig:
    """Return the config for a runnable that was bound to a step limit, which holds unless a caller set another."""
    if own_limit is None or _requested_limit(config) is not None:
        return config
    return {**config, "recursion_limit": own_limit}


class leaving_the_graph:  # noqa: N801 - named like a function, as what is used in a `with` statement is
    """Pass a command of a generator for the graph around it on to the graph around the loop's.

    To the agent that gave the command `Command.PARENT` is the loop's graph, an inside that no agent knows of.

    Args:
        config: The config of the node that runs the generator.
    """

    __slots__ = ("_config",)

    def __init__(self, config: RunnableConfig) -> None:
        self._config = config

    def __enter__(self) -> None:
        """Do nothing yet."""

    def __exit__(self, kind: object, error: object, place: object) -> None:
        if isinstance(error, ParentCommand):
            namespace = self._config["configurable"].get("checkpoint_ns", "")
            if error.args[0].graph in (namespace, recast_checkpoint_ns(namespace)):
                error.args = (replace(error.args[0], graph=Command.PARENT),)


def _drop(_: Any) -> None:
    """Discard the value."""


def _send_resumed(send: Callable[[Any], None] | None, writes: Sequence[tuple[str, Any]]) -> None:
    """Send what `interrupt` notes of a decision; discard messages and other values for the graph's channels."""
    resumed = [write for write in writes if write[0] == _RESUME]
    if resumed and send is not None:
        send(resumed)


def muted_config_with_progress(config: RunnableConfig) -> RunnableConfig:
    """Return the config for the loop's graph in a runnable: muted, but the outer streams receive its progress.

    A step limit bounds what is called inside, not the loop.
    """
    inside = durable_config(muted_config(config, silent=False))
    muted = carry(inside, OVERRIDES, carried(config, OVERRIDES))
    muted = carry(muted, OUTLET, carried(config, OUTLET))
    muted = with_unlimited_loop(muted, muted)
    manager = langchain_private.manager_of(config, streaming=True)
    if manager is not None or writer(config) is not None:
        outer: RunnableConfig = {**config, "callbacks": manager}
        muted["configurable"] = {**muted["configurable"], _PROGRESS: outer}
    return muted


def is_silenced(config: RunnableConfig) -> bool:
    """Check whether this run is inside a generator or judge of a loop that hides its drafts."""
    return _SILENCED in config.get("configurable", {})


def progress_configs(config: RunnableConfig) -> list[RunnableConfig]:
    """List the configs whose handlers receive progress events."""
    outer = config.get("configurable", {}).get(_PROGRESS)
    return [target for target in (config, outer) if target is not None and langchain_private.listeners(target)]


def writer(config: RunnableConfig) -> Callable[[Any], None] | None:
    """Return the writer of the custom stream of the graph or the surrounding graph; None where nobody reads it."""
    configurable = config.get("configurable", {})
    if _PROGRESS in configurable:
        return writer(configurable[_PROGRESS])
    stream_writer = configurable[_RUNTIME].stream_writer if _RUNTIME in configurable else None
    return None if stream_writer is None or _writes_nothing(stream_writer) else stream_writer


def _writes_nothing(write: Callable[[Any], None]) -> bool:
    """Check for the writer that LangGraph gives a run without a custom stream: it holds nothing to write to."""
    return getattr(write, "__module__", "") == Pregel.__module__ and getattr(write, "__closure__", write) is None


def is_watched(config: RunnableConfig) -> bool:
    """Check whether anybody could see what a runnable called with this config does inside.

    That is a graph around it, or a callback handler of any origin.
    """
    run_config = ensure_config(config)
    configurable = run_config.get("configurable")
    if configurable and any(key.startswith(_GRAPH_KEYS) for key in configurable):
        return True
    return bool(langchain_private.listeners(run_config)) or is_observed()
