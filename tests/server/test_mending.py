"""The guard mends answers: what a judge refuses is masked, judged again, and nothing of it goes out."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from refine.record import DatabaseRecord, OutcomeFilter
from refine.server.access import digest_of
from tests.guarding import guarding, wait_until
from tests.model_server import Asked, ModelServer, Wire
from tests.server.apis import DIALECTS, body_in, reply_in, text_in
from tests.server.evasions import PATHS

PIN = "K4711"
MASKED = "Your pin is [REMOVED], keep it."
MENDS: dict[str, Any] = {"judge": "pattern:forbidden=K\\d\\d\\d\\d", "on_refusal": "mend"}


def say(asked: Asked) -> Wire:
    """Say the secret, also in what stands beside the text; on a retry say what is harmless."""
    is_retry = b"Do not use" in asked["raw"]
    text = "There is no pin." if is_retry else f"Your pin is {PIN}, keep it."
    return reply_in(asked, text, thought=f"The pin is {PIN}.")


UPSTREAM = say


def test_a_mended_answer_goes_out_and_says_so(upstream: ModelServer) -> None:
    """The upstream is asked once, the text goes out masked, and nothing else of the reply repeats the secret."""
    with guarding(upstream.url, **MENDS, policy={"keep_reasoning": True}) as guard:
        for dialect, streamed in product(DIALECTS, [False, True]):
            upstream.requests = []
            response = guard.post(PATHS[dialect], body_in(dialect, stream=streamed))
            assert response.status_code == 200
            assert len(upstream.requests) == 1
            assert PIN not in response.text
            assert MASKED in response.text
            if not streamed:
                body = response.json()
                assert text_in(dialect, body) == MASKED
                assert body["usage"]
                refine = body["refine"]
                assert (refine["passed"], refine["stop_reason"]) == (True, "accepted")
                kinds = [(one["kind"], one.get("masked")) for one in refine["attempts"]]
                assert kinds == [("text", None), ("mended", ["removed"])]


FALLBACK = {"on_exhausted": "fallback", "fallback": "Call us."}
CASES: dict[str, tuple[dict[str, Any], int, str]] = {
    "again": ({"on_refusal": "mend"}, 200, "There is no pin."),
    "blocked": ({"on_refusal": "mend_or_block"}, 422, "answer_not_accepted"),
    "blocked-without-attempts": ({"on_refusal": "mend", "max_attempts": 1}, 422, "answer_not_accepted"),
    "blocked-at-once": ({"on_refusal": "block"}, 422, "answer_not_accepted"),
    "fallback": ({"on_refusal": "block", "policy": FALLBACK}, 200, "Call us."),
    "not-named": ({"on_refusal": {"no_masks": "block"}}, 200, "There is no pin."),
}
"""By guard: its settings, and what comes of an answer whose mask is refused, too."""


def no_masks(answer: str) -> tuple[bool, str]:
    """Refuse masks."""
    return "REMOVED" not in answer, "No masks."


def test_what_is_refused_never_goes_out(upstream: ModelServer) -> None:
    """Neither the secret nor a masked answer that a judge refuses goes out, whatever follows the refusal."""
    judges = [MENDS["judge"], "tests.server.test_mending:no_masks"]
    guards = {name: settings for name, (settings, _, _) in CASES.items()}
    with guarding(upstream.url, judge=judges, guards=guards) as guard:
        for (name, (_, status, said)), dialect in product(CASES.items(), DIALECTS):
            response = guard.post(PATHS[dialect], body_in(dialect), headers={"x-refine-guard": name})
            assert (response.status_code, response.headers.get("x-refine-guard", name)) == (status, name)
            assert said in response.text, (name, dialect)
            assert PIN not in response.text
            assert "REMOVED" not in response.text


def test_arguments_of_a_call_are_left_alone(upstream: ModelServer) -> None:
    """A call that the request forces is judged by its arguments, and never masked: it is asked for again."""
    upstream.reply = lambda asked: reply_in(asked, "", call={"pin": PIN})
    forced: dict[str, Any] = {"tool_choice": {"type": "function", "function": {"name": "look"}}}
    with guarding(upstream.url, **MENDS, max_attempts=2) as guard:
        response = guard.post(PATHS["chat"], body_in("chat", **forced))
    assert response.status_code == 422
    assert PIN not in response.text


def test_the_record_and_its_filter_tell(upstream: ModelServer, tmp_path: Path) -> None:
    """An attempt's kind, and who asked, stand in record, filter, export and metrics; of these only the key."""
    file = tmp_path / "record.db"
    keys = [{"name": "shop", "sha256": digest_of("rf-shop")}]
    who: dict[str, Any] = {"user": "u-7", "metadata": {"session_id": "s-1", "thread_id": "t-1"}}
    with guarding(upstream.url, **MENDS, record=str(file), keys=keys) as guard:
        headers = {"authorization": "Bearer rf-shop"}
        assert guard.post(PATHS["chat"], body_in("chat", **who), headers=headers).status_code == 200
        metrics = guard.get("/metrics").text
        wait_until(lambda: "refine_record_queue 0.0" in guard.get("/metrics").text)
    assert 'refine_key_requests_total{key="shop"} 1.0' in metrics
    assert 'refine_key_tokens_total{key="shop",kind="output"} 10.0' in metrics
    assert "u-7" not in metrics
    record = DatabaseRecord(f"sqlite:///{file}")
    told = {"key": "shop", "user": "u-7", "session": "s-1", "thread": "t-1"}
    for name, value in told.items():
        (row,) = record.outcomes(OutcomeFilter(**{name: value}))
        assert not record.outcomes(OutcomeFilter(**{name: "another"}))
    outcome = record.outcome(row["id"])
    exported = list(record.attempts())
    record.close()
    assert outcome is not None
    assert [attempt["kind"] for attempt in outcome["attempts"]] == [None, "mended"]
    assert all(told.items() <= row.items() for row in exported)
