"""Asking once whatever a server depends on, before anybody else does: judges, upstreams, the record's database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from judges.errors import ConfigurationError
from refine.record import DatabaseRecord, Recorder
from refine.server.access import ServedGuard
from refine.server.dialects import chat, messages
from refine.server.errors import ApiError
from refine.webhooks import Webhook

_ROW = {
    "question": "What is the capital of France?",
    "answer": "The capital of France is Paris.",
    "reference": "Paris.",
    "retrieved_contexts": ["Paris is the capital of France."],
}
_REFUSED = (401, 403)
_FAILING = 500


async def ask_once(
    guards: Iterable[ServedGuard], record: Recorder | None, webhooks: Iterable[Webhook] = ()
) -> tuple[list[str], list[str]]:
    """Ask all judges, upstreams, databases and webhooks once; return what answers, what does not, a line each."""
    fine: list[str] = []
    faults: list[str] = []
    for guard in guards:
        for name, ask in (("judge", _ask_judge), ("upstream", _ask_upstream)):
            try:
                fine.append(f"guard {guard.name}: the {name} {await ask(guard)}")
            except (ApiError, ConfigurationError) as error:
                faults.append(f"guard {guard.name}: the {name} does not answer: {error}")
    if isinstance(record, DatabaseRecord):
        try:
            await asyncio.to_thread(record.check)
            fine.append("the record's database answers")
        except ConfigurationError as error:
            faults.append(f"record: {error}")
    for webhook in webhooks:
        try:
            await asyncio.to_thread(webhook.post, "test", {"text": "refine serve --check --live"})
            fine.append(f"the webhook to {webhook.host} answers")
        except ConfigurationError as error:
            faults.append(f"webhook: {error}")
    return fine, faults


async def _ask_judge(guard: ServedGuard) -> str:
    verdict = await guard.judge.acall(guard.judge.read(_ROW))
    if verdict.unscored is not None:
        raise ConfigurationError(f"{verdict.unscored}: {verdict.detail}")
    return f"{guard.judge.name} answers in {verdict.latency_s:.1f} s"


async def _ask_upstream(guard: ServedGuard) -> str:
    upstream = guard.upstream
    if upstream is None:
        return "is not set"
    dialect = messages if guard.api == messages.API else chat
    version = {"anthropic-version": "2023-06-01"} if dialect is messages else {}
    headers = upstream.headers(version, "check", {}, dialect.KEY_HEADER)
    try:
        async with upstream.open("GET", "/models", "", headers, None) as response:
            status = response.status
    finally:
        await upstream.aclose()
    if status >= _FAILING or (status in _REFUSED and not upstream.takes_callers_key):
        raise ConfigurationError(f"{upstream.origin} answers with status {status}")
    return f"{upstream.origin} answers"
