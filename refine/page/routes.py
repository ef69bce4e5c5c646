"""The routes of the page, for any Starlette application to mount."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from types import NoneType
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from graphs import Attempt, Outcome, Unanswered
from graphs.drivers import Node, RunContext, adrive
from graphs.loop import Loop
from judges import ConfigurationError
from refine.page.access import HEADERS, MOST_PLACES, Endpoint, OneTimeLink, PageAccess, put_bounded, read_body
from refine.record import DatabaseRecord, OutcomeFilter
from refine.record.rows import now_ms

_EVERY_S = 1.0
_OVERLAP_MS = 60_000
"""An outcome may be written this long after it ended, and is found all the same."""
_REMEMBERED = 5_000
_MOST_AT_ONCE = 200

Status = Callable[[], Mapping[str, Any]]
"""Returns what the page's status line shows of the server: guards, upstream, requests in flight."""


def _status_of(record: DatabaseRecord, status: Status) -> dict[str, Any]:
    """Return the status line: the server's own, and what became of the outcomes."""
    return {**status(), "record": {**asdict(record.stats()), "texts": record.texts, "name": record.name}}


async def _updates(record: DatabaseRecord, where: OutcomeFilter, status: Status) -> AsyncIterator[dict[str, Any]]:
    """Yield, once a second while somebody looks, the status and the outcomes that were not there before."""
    begun = now_ms()
    sent_ids: deque[str] = deque(maxlen=_REMEMBERED)
    while True:
        since = max(now_ms() - _OVERLAP_MS, begun - _OVERLAP_MS, where.since or 0)
        recent = where.model_copy(update={"since": since})
        update: dict[str, Any] = {"status": _status_of(record, status)}
        try:
            rows = await asyncio.to_thread(record.outcomes, recent, limit=_MOST_AT_ONCE)
        except ConfigurationError as error:
            update["error"] = str(error)
        else:
            sent_before = set(sent_ids)
            update["outcomes"] = [row for row in rows if row["id"] not in sent_before]
            sent_ids.extend(row["id"] for row in update["outcomes"])
        yield update
        await asyncio.sleep(_EVERY_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class TryQuestion:
    """What the page asks.

    Args:
        question: The question.
        guard: Name of the guard; empty where there is but one.
        model: Name of the model; empty where nobody chose one.
    """

    question: str
    guard: str = ""
    model: str = ""


Event = Mapping[str, Any]
"""What the page learns: `event` is `start`, `draft`, `verdict` or `end`, with figures and texts."""


async def attempts_of(loop: Loop, question: str, *, config: RunnableConfig | None = None) -> AsyncIterator[Event]:
    """Answer a question, and yield what happens: each attempt's start, draft and verdict, and the end.

    Args:
        loop: The loop around the generator to try.
        question: The question.
        config: Config of the run.
    """
    conversation: list[AnyMessage] = [HumanMessage(question)]
    context, refinement = RunContext(ensure_config(config)), loop.begin({"messages": conversation})
    goto: Node | None = "generate"
    try:
        while goto == "generate" or goto == "judge":  # noqa: PLR1714 - narrows the type
            if goto == "generate":
                yield {"event": "start", "attempt": refinement.number}
            last_node, attempt_count = goto, len(refinement.attempts)
            transition = await adrive(loop.step(last_node, refinement, conversation, context), context)
            refinement, goto = transition.refinement, transition.goto
            if last_node == "judge":
                for attempt in refinement.attempts[attempt_count - 1 :]:
                    if attempt.number > attempt_count:
                        yield _draft(attempt)
                    yield _verdict(attempt)
            elif len(refinement.attempts) > attempt_count:
                yield _draft(refinement.attempts[-1])
        if refinement.ending == "interrupt":
            yield _end(Outcome.of(refinement, conversation, None, now=refinement.ended_at or 0.0))
            return
        transition = await adrive(loop.step("finish", refinement, conversation, context), context)
    except Unanswered as unanswered:
        yield _end(unanswered.outcome)
        return
    if transition.outcome is not None:
        yield _end(transition.outcome)


def _draft(attempt: Attempt) -> Event:
    return {"event": "draft", "attempt": attempt.number, "draft": attempt.text, "generate_s": attempt.latency_s}


def _verdict(attempt: Attempt) -> Event:
    verdict = attempt.verdict
    if verdict is None:
        return {"event": "verdict", "attempt": attempt.number, "unscored": "deadline"}
    return {
        "event": "verdict",
        "attempt": attempt.number,
        "judge": verdict.judge,
        "rating": verdict.rating,
        "score": verdict.score,
        "p_pass": verdict.p_pass,
        "probabilities": verdict.probabilities,
        "unscored": verdict.unscored,
        "verdict_detail": verdict.detail,
        "rationale": verdict.rationale,
        "feedback": verdict.feedback,
        "items": [item.model_dump(mode="json", exclude_defaults=True) for item in verdict.items],
        "judge_s": verdict.latency_s,
    }


def _end(outcome: Outcome) -> Event:
    return {
        "event": "end",
        "passed": outcome.passed,
        "stop_reason": outcome.stop_reason,
        "detail": outcome.detail,
        "released": outcome.released,
        "answer": None if outcome.answer is None else str(outcome.answer.text),
        "latency_s": outcome.latency_s,
        "cost": outcome.usage.cost,
    }


_TryOut = Callable[[TryQuestion], AsyncIterator[Event]]
"""Answers a question, and yields what happens; see `refine.page.routes.attempts_of`."""

API = "/page/api"
_log = logging.getLogger("refine")
_STATIC = Path(__file__).with_name("static")
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_MOST_LOOKING = 50
_LABEL_FIELDS: Mapping[str, tuple[type, ...]] = {
    "outcome": (str,),
    "number": (int,),
    "by": (str,),
    "rating": (int, NoneType),
    "up": (bool, NoneType),
    "note": (str, NoneType),
    "page": (str, NoneType),
    "turn": (int, NoneType),
}


def page_routes(
    record: DatabaseRecord,
    *,
    status: Status = dict,
    try_out: _TryOut | None = None,
    key: str | None = None,
    link: OneTimeLink | None = None,
    on_label: Callable[[], None] = lambda: None,
) -> list[BaseRoute]:
    """Return the routes of the page at `/`.

    Args:
        record: What it shows.
        status: Returns what the status line shows of the server: `name`, `guards` (each with `name`, `judge`,
            `upstream`, `success_rating`, `success_score`, `max_attempts`), `in_flight`, `draining`; any may
            be left out.
        try_out: Answers the questions of the try box; None leaves the box out.
        key: The page's key, which is no key of the API; None lets in only whoever asks from this machine.
        link: A link that is followed once, in place of a key; `#link=TOKEN` after the page's address.
        on_label: Called in a thread after a label was saved.

    Raises:
        ConfigurationError: If the key is too short.
    """
    access = PageAccess(key, link)
    page = _Page(record, status, try_out, on_label)
    guarded: dict[str, tuple[str, Endpoint]] = {
        "/status": ("GET", page.status),
        "/outcomes": ("GET", page.outcomes),
        "/outcomes/{id:path}": ("GET", page.outcome),
        "/figures": ("GET", page.figures),
        "/table": ("GET", page.table),
        "/benefit": ("GET", page.benefit),
        "/live": ("GET", page.live),
        "/export": ("GET", page.export),
        "/label": ("POST", page.label),
        "/try": ("POST", page.try_out),
    }
    files = {f"/page/{file.name}": file for file in _STATIC.iterdir() if file.suffix in _TYPES}
    return [
        Route("/", _file(_STATIC / "index.html"), methods=["GET"]),
        Route(f"{API}/link", _one_line_errors(access.follow_link), methods=["POST"]),
        *(Route(path, _file(file), methods=["GET"]) for path, file in files.items()),
        *(
            Route(f"{API}{path}", access.guarded(_one_line_errors(endpoint)), methods=[method])
            for path, (method, endpoint) in guarded.items()
        ),
    ]


class _Page:
    """What the page asks for, as JSON."""

    def __init__(
        self, record: DatabaseRecord, status: Status, try_out: _TryOut | None, on_label: Callable[[], None]
    ) -> None:
        self._record, self._status, self._try_out, self._on_label = record, status, try_out, on_label
        self._looking = 0
        self._saving = asyncio.Lock()
        self._turns = OrderedDict[int, int]()

    async def status(self, request: Request) -> Response:
        """Answer with the status line, the choices of the filter and what the page can do."""
        del request
        choices = await asyncio.to_thread(self._record.choices)
        state = _status_of(self._record, self._status)
        return _json({**state, "choices": choices, "can_try": self._try_out is not None})

    async def outcomes(self, request: Request) -> Response:
        """Answer with a page of the list."""
        settings = dict(request.query_params)
        at, identifier = settings.pop("before_at", ""), settings.pop("before_id", "")
        limit, skip, order = (
            settings.pop("limit", "50"),
            settings.pop("skip", "0"),
            settings.pop("order", "newest"),
        )
        if not limit.isdecimal() or not (at or "0").isdecimal() or not skip.isdecimal():
            raise ConfigurationError("limit, skip and before_at are whole numbers")
        before = (int(at), identifier) if at else None
        where = OutcomeFilter.read(settings)
        if where.text is not None:
            where = await asyncio.to_thread(self._record.newest, where)
        read = partial(self._record.outcomes, where, limit=int(limit[:4]), before=before)
        return _json(await asyncio.to_thread(read, order=order, skip=int(skip[:9])))

    async def outcome(self, request: Request) -> Response:
        """Answer with one outcome, its attempts and labels."""
        row = await asyncio.to_thread(self._record.outcome, request.path_params["id"])
        if row is None:
            raise HTTPException(
                404, "there is no such answer in the record; it may be too old, or not written yet"
            )
        return _json(row)

    async def figures(self, request: Request) -> Response:
        """Answer with the figures of a filter; `newest_since` says from when on, where older ones do not count."""
        where = OutcomeFilter.read(request.query_params)
        counted = await asyncio.to_thread(self._record.newest, where)
        figures = await asyncio.to_thread(self._record.figures, counted)
        return _json({**figures, "newest_since": _later(counted, where)})

    async def table(self, request: Request) -> Response:
        """Answer with a row for each guard, key or the like."""
        settings = dict(request.query_params)
        by = settings.pop("by", "refiner")
        where = OutcomeFilter.read(settings)
        counted = await asyncio.to_thread(partial(self._record.newest, where, by=by))
        rows = await asyncio.to_thread(self._record.table, by, counted)
        return _json({"rows": rows, "newest_since": _later(counted, where)})

    async def benefit(self, request: Request) -> Response:
        """Answer with whether the loop helps, by the labels of a filter's answers."""
        where = OutcomeFilter.read(request.query_params)
        return _json(await asyncio.to_thread(_describe_benefit, self._record, where))

    async def live(self, request: Request) -> Response:
        """Answer with updates, one JSON object a line, until the page is closed."""
        where = OutcomeFilter.read(request.query_params)
        if self._looking >= _MOST_LOOKING:
            raise HTTPException(503, f"{_MOST_LOOKING} pages are open already")

        async def lines() -> AsyncIterator[str]:
            self._looking += 1
            try:
                async for update in _updates(self._record, where, self._status):
                    yield _line(update)
            finally:
                self._looking -= 1

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def export(self, request: Request) -> Response:
        """Answer with the attempts of a filter as rows of a dataset."""
        rows = self._record.export(OutcomeFilter.read(request.query_params))
        first = await asyncio.to_thread(lambda: list(islice(rows, 1)))
        headers = {"content-disposition": 'attachment; filename="rows.jsonl"'}
        return StreamingResponse(_lines(chain(first, rows)), media_type="application/x-ndjson", headers=headers)

    async def label(self, request: Request) -> Response:
        """Save a label, unless its page sent a later one in its place, which came first."""
        fields = await read_body(request)
        unknown = fields.keys() - _LABEL_FIELDS.keys()
        wrong = [name for name, kinds in _LABEL_FIELDS.items() if type(fields.get(name)) not in kinds]
        if unknown or wrong:
            text = "a label has outcome, number and by, and may have rating, up and note; not"
            raise ConfigurationError(f"{text} {', '.join(sorted(unknown)) or f'this {wrong[0]}'}")
        page, turn = fields.pop("page", None), fields.pop("turn", None)
        place = hash((page, fields["outcome"], fields["number"], fields["by"]))
        async with self._saving:
            if turn is None or turn > self._turns.get(place, -1):
                await asyncio.to_thread(lambda: self._record.label(**fields))
                if turn is not None:
                    put_bounded(self._turns, place, turn, MOST_PLACES)
        await asyncio.to_thread(self._on_label)
        return _json({})

    async def try_out(self, request: Request) -> Response:
        """Answer a question, and tell of its attempts as they happen, one JSON object a line."""
        fields = await read_body(request)
        texts = {name: fields.get(name, "") for name in ("question", "guard", "model")}
        if self._try_out is None:
            raise HTTPException(404, "questions cannot be tried here")
        if not all(isinstance(text, str) for text in texts.values()) or not texts["question"].strip():
            raise ConfigurationError("question is a text that is not empty; guard and model are names")
        lines = _lines_of(self._try_out(TryQuestion(**texts)))
        return StreamingResponse(lines, media_type="application/x-ndjson")


def _later(counted: OutcomeFilter, requested_filter: OutcomeFilter) -> int | None:
    return counted.since if counted.since != requested_filter.since else None


_MOST_LABELLED = 1_000
"""Labelled answers that are compared within half a second."""


def _describe_benefit(record: DatabaseRecord, where: OutcomeFilter) -> dict[str, Any]:
    """Return whether the loop helps, in words: of the labelled answers of a filter."""
    if find_spec("scipy") is None:
        return {"headline": "Whether the loop helps is told with the extra selfrefine[trust].", "entries": []}
    from judges.offline.trust.replay import benefit_of  # noqa: PLC0415 - needs numpy and scipy

    labelled = where if where.labelled else where.model_copy(update={"labelled": "yes"})
    counted = record.newest(labelled, most=_MOST_LABELLED)
    report = benefit_of(record.attempts(counted))
    effect = report.benefit.effect if report.is_known else ""
    entries = list(report.entries())
    if counted != labelled:
        entries.append(("Compared", f"the newest {_MOST_LABELLED:,} labelled answers"))
    return {"headline": report.headline, "effect": effect, "entries": entries}


async def _lines_of(events: AsyncIterator[Event]) -> AsyncIterator[str]:
    """Yield events as lines of JSON; a failure as one more event, as the status is out by then."""
    try:
        async for event in events:
            yield _line(event)
    except ConfigurationError as error:
        yield _line({"event": "error", "error": str(error)})
    except Exception as error:  # noqa: BLE001 - the log says which
        _log.exception("a question from the page failed")
        yield _line({"event": "error", "error": f"the question failed ({type(error).__name__}); the log says why"})


def _file(path: Path) -> Endpoint:
    async def answer(request: Request) -> Response:
        del request
        headers = {**HEADERS, "cache-control": "no-cache"}
        return FileResponse(path, media_type=_TYPES[path.suffix], headers=headers)

    return answer


def _one_line_errors(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that answers wrong settings, and everything it refuses, as JSON with one line."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ConfigurationError as error:
            return JSONResponse({"error": str(error)}, 400)
        except HTTPException as error:
            return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)
        except OverflowError:
            return JSONResponse({"error": "a number is too large"}, 400)
        except Exception as error:  # noqa: BLE001 - a database may fail in any way
            kind = type(error).__name__
            _log.error("the page could not use its record: %s", kind)
            return JSONResponse(
                {"error": f"the record cannot be used now ({kind}); answers are not affected"}, 503
            )

    return answer


def _json(content: object) -> Response:
    return Response(json.dumps(content, ensure_ascii=False), media_type="application/json")


def _line(content: Mapping[str, Any]) -> str:
    return f"{json.dumps(content, ensure_ascii=False)}\n"


def _lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    return map(_line, rows)
