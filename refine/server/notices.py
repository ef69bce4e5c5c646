"""What the guard tells webhooks: alarms raised and cleared, spend of a day, answers that were withheld."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily

from graphs import Outcome
from judges.errors import ConfigurationError
from refine.promise_watch import PromiseWatch
from refine.server.assembly import secret_of
from refine.server.config import ServerSettings, WebhookSettings
from refine.server.guards import ServedGuard
from refine.server.metrics import Metrics
from refine.server.service import ServedRequest
from refine.webhooks import Webhook, outcome_data

_DAY_S = 86_400
_OK = 200


class _Notices:
    """Tells one webhook what it wants to hear; an observer of the service.

    Args:
        settings: What it wants to hear.
        webhook: The webhook.
        guards: The guards by name.
        counts: Returns how many outcomes the record lost, and how many wait to be written.
        promises: Who watches the promise of a guard's certificate, by the guard's name.
    """

    def __init__(
        self,
        settings: WebhookSettings,
        webhook: Webhook,
        guards: Mapping[str, ServedGuard],
        counts: Callable[[], tuple[int, int]],
        promises: Mapping[str, PromiseWatch],
    ) -> None:
        self.webhook = webhook
        self._events, self._guards = frozenset(settings.events), guards
        self._counts, self._promises = counts, promises
        self._raised: dict[tuple[str, str], str] = {}
        self._lost_before = 0
        self._day = 0
        self._limits: dict[str, list[float]] = {
            "dollars": sorted(settings.dollars_per_day),
            "tokens": sorted(settings.tokens_per_day),
        }
        self._spent = {"dollars": 0.0, "tokens": 0.0}

    def __call__(self, served: ServedRequest) -> None:
        """Tell what one request comes to."""
        if "spend" in self._events:
            self._count(served)
        if "withheld" in self._events:
            for record in served.records:
                if served.status is not None and record.outcome.attempts and record.outcome.released is None:
                    self._tell_withheld(record.outcome, served)
        if "alarm" in self._events:
            for name, guard, detail in self._alarms(served):
                self._settle(name, guard, detail)

    def _count(self, served: ServedRequest) -> None:
        day = int(time.time() // _DAY_S)
        if day != self._day:
            self._day, self._spent = day, dict.fromkeys(self._spent, 0.0)
        usage = served.usage
        for unit, amount in (("dollars", usage.cost or 0.0), ("tokens", float(usage.tokens))):
            before = self._spent[unit]
            after = self._spent[unit] = before + amount
            for limit in self._limits[unit]:
                if before < limit <= after:
                    data = {
                        "unit": unit,
                        "limit": limit,
                        "spent": after,
                        "guard": served.guard,
                        "key": served.caller,
                    }
                    self.webhook.send("spend.reached", data)

    def _tell_withheld(self, outcome: Outcome, served: ServedRequest) -> None:
        who = served.requester
        self.webhook.send(
            "answer.withheld",
            outcome_data(
                outcome,
                served.guard,
                request_id=served.request_id,
                key=served.caller,
                user=who.user,
                session=who.session,
                thread=who.thread,
            ),
        )

    def _alarms(self, served: ServedRequest) -> Iterator[tuple[str, str, str | None]]:
        """Yield alarms as name, guard and detail: an empty detail clears one, None leaves it as it is."""
        guard = self._guards.get(served.guard)
        if guard is not None:
            outcomes = [record.outcome for record in served.records]
            verdicts = [attempt.verdict for outcome in outcomes for attempt in outcome.attempts]
            is_judged = any(verdict is not None and verdict.unscored is None for verdict in verdicts)
            is_down = "its model is left alone after failures" if not guard.has_judge else None
            yield "judge_down", guard.name, is_down or ("" if is_judged else None)
            is_out = guard.upstream is not None and guard.upstream.is_left_alone
            detail = "it is left alone after failures" if is_out else "" if served.status == _OK else None
            yield "upstream_down", guard.name, detail
        (lost, _), before = self._counts(), self._lost_before
        self._lost_before = lost
        yield "record_loses", "", f"{lost - before:,} outcomes were lost" if lost > before else ""
        for name, watch in self._promises.items():
            standing = watch.standing
            if standing is not None:
                yield "promise_broken", name, str(standing) if standing.is_withdrawn else ""

    def _settle(self, name: str, guard: str, detail: str | None) -> None:
        """Tell of an alarm that was raised or cleared just now."""
        is_raised = (name, guard) in self._raised
        if detail is None or bool(detail) == is_raised:
            return
        if detail:
            self._raised[name, guard] = detail
        else:
            detail = self._raised.pop((name, guard))
        event = "alarm.cleared" if is_raised else "alarm.raised"
        self.webhook.send(event, {"alarm": name, "guard": guard, "detail": detail})


def open_webhooks(tables: Sequence[WebhookSettings]) -> list[Webhook]:
    """Return the webhooks that settings name; none is asked, and no thread runs, before there is an event.

    Raises:
        ConfigurationError: If one cannot be used.
    """
    webhooks = []
    for number, table in enumerate(tables):
        place = f"webhooks.{number}"
        secret = secret_of(table.secret, f"{place}.secret").get_secret_value()
        try:
            webhooks.append(Webhook(table.url, secret))
        except ConfigurationError as error:
            raise ConfigurationError(f"{place}: {error}") from None
        is_asked = "events" in table.model_fields_set and "spend" in table.events
        if is_asked and not table.dollars_per_day and not table.tokens_per_day:
            raise ConfigurationError(
                f"{place}.events has 'spend': say at what, by dollars_per_day or tokens_per_day"
            )
    return webhooks


def describe_webhooks(tables: Sequence[WebhookSettings]) -> list[str]:
    """Return a line for each webhook, and a warning where it is not encrypted."""
    lines = []
    for table, webhook in zip(tables, open_webhooks(tables), strict=True):
        lines.append(f"webhook to {webhook.host}: {', '.join(table.events)}")
        if not webhook.is_encrypted and not webhook.host.startswith(("127.", "localhost")):
            lines.append(f"warning: the webhook to {webhook.host} is not encrypted; write https://")
    return lines


def make_notices(
    settings: ServerSettings,
    guards: Iterable[ServedGuard],
    counts: Callable[[], tuple[int, int]],
    promises: Mapping[str, PromiseWatch],
    metrics: Metrics | None,
) -> list[_Notices]:
    """Return what tells the webhooks that settings name, counted in metrics; nothing is watched without any.

    Raises:
        ConfigurationError: If one cannot be used.
    """
    by_name = {guard.name: guard for guard in guards}
    webhooks = open_webhooks(settings.webhooks)
    if metrics is not None and webhooks:
        metrics.watch(partial(_count_events, webhooks))
    return [
        _Notices(table, webhook, by_name, counts, promises)
        for table, webhook in zip(settings.webhooks, webhooks, strict=True)
    ]


def _count_events(webhooks: Sequence[Webhook]) -> Iterator[Metric]:
    """Yield the counter of what became of events, by address, event and what it was."""
    events = CounterMetricFamily(
        "refine_webhook_events",
        "Events for webhooks: delivered, failed, dropped",
        labels=["host", "event", "result"],
    )
    for webhook in webhooks:
        for (event, result), count in list(webhook.counts.items()):
            events.add_metric([webhook.host, event, result], count)
    yield events
