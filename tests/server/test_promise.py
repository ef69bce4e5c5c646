"""A promise that labels end: a guard whose audits come back by the API moves to a stricter rating, then closes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from graphs import NotAccepted
from graphs.certified_loop import subject_of
from judges import ConfigurationError
from judges.certificate import IssuedCertificate, Subject
from judges.promise import Audit, follow
from refine import DatabaseRecord, SelfRefine
from refine.server.access import digest_of
from refine.server.assembly import _make_guards
from refine.server.config import load_settings
from tests.guarding import Guarded, guarding, rates
from tests.loops.recorded import certified, issued
from tests.model_server import Reply, in_turn, serving
from tests.runs.commands import refine


def certificate_of(subject: Subject, **fields: Any) -> IssuedCertificate:
    """Return a certificate under which 3 was taken, and 4 is certified, too."""
    rows = tuple(certified(policy, 90, 1, upper=0.06, release_rate=0.9) for policy in (4, 3))
    return issued(subject=subject, threshold=3, rows=rows, **fields)


def settings_under(upstream: str, folder: Path, **settings: Any) -> dict[str, Any]:
    """Return settings of a guard with a certificate for it, and a record in a database."""
    common = {"upstream": upstream, "judge": "tests.guarding:rates", "max_attempts": 1}
    (guard,) = _make_guards(load_settings(None, common))
    certificate_of(subject_of(guard.judge, guard.loop.policy, guard.generator)).write(folder / "certificate.json")
    files = {"certificate": str(folder / "certificate.json"), "record": f"sqlite:///{folder}/record.db"}
    return {"max_attempts": 1, "metrics": True, **files, **settings}


def label(guard: Guarded, answer: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Label the answer of a reply, and return what the guard says of it."""
    reply = guard.post("/v1/labels", {"id": answer["refine"]["id"], **fields})
    assert reply.status_code == 200, reply.text
    document: dict[str, Any] = reply.json()
    return document


def break_promise(guard: Guarded, *, until: str) -> int:
    """Call answers bad until the promise stands elsewhere, and return how many it took."""
    for count in range(1, 40):
        if label(guard, guard.chat().json(), up=False, by="ann")["promise"]["state"] == until:
            return count
    raise AssertionError(f"it never came to {until!r}")


def test_labels_move_a_guard_to_a_stricter_rating(tmp_path: Path) -> None:
    """Bad fair answers lead to 4, bad good ones withdraw the certificate; page, metrics and a replica say so."""
    replies = [Reply("fair")] * 60
    with serving(in_turn(*replies)) as upstream:
        settings = settings_under(upstream.url, tmp_path, on_alarm="stricter")
        with guarding(upstream.url, **settings) as guard:
            first = guard.chat().json()
            assert (first["refine"]["passed"], bool(first["refine"]["certificate"])) == (True, True)
            holding = label(guard, first, up=True, by="ann")
            assert holding["promise"]["state"] == "holds"
            assert holding["attempt"] == 1
            assert break_promise(guard, until="stricter") < 10
            assert guard.service.guards.choose(None, "m").loop.policy.success_rating == 4
            strict = guard.chat().json()["refine"]
            assert (strict["passed"], strict["rating"]) == (False, 3)
            (status,) = guard.get("/page/api/status").json()["guards"]
            assert status["promise_state"] == "stricter"
            assert "accepting from 4 now" in status["promise"]
            metrics = guard.get("/metrics").text
            assert 'refine_promise_threshold{guard="default"} 4.0' in metrics
            assert 'refine_promise_holds{guard="default"} 1.0' in metrics
            assert 'refine_promise_uncovered{guard="default"} 0.0' in metrics
        with guarding(upstream.url, **settings) as replica:  # it holds there from the first answer on
            assert replica.chat().json()["refine"]["passed"] is False
            for _ in range(30):  # now the audits are of loops under another policy than the latest
                replica.chat()
    shown = refine("monitor", settings["record"], "--certificate", settings["certificate"]).stdout
    assert "audited answers bad" in shown
    assert "no released answer is labelled" not in shown


def test_a_closed_guard_asks_no_model(tmp_path: Path) -> None:
    """Under `closed` an alarm ends the answers: the error names it, and no request goes upstream any more."""
    with serving(in_turn(*[Reply("good")] * 60)) as upstream:
        settings = settings_under(upstream.url, tmp_path, on_alarm="closed")
        with guarding(upstream.url, **settings) as guard:
            break_promise(guard, until="withdrawn")
            before = len(upstream.requests)
            refused = guard.chat()
            assert (refused.status_code, refused.json()["error"]["code"]) == (422, "answer_not_accepted")
            assert "broke the certificate's promise" in refused.json()["error"]["message"]
            assert guard.chat(refine={"max_attempts": 1}).status_code == 422
            assert len(upstream.requests) == before
            assert "no answer goes out any more" in guard.get("/page/api/status").json()["guards"][0]["promise"]


def test_answers_that_nothing_covers_are_told(tmp_path: Path) -> None:
    """Where no stricter rating is left they go on: status, metrics and reply say that nothing covers them."""
    with serving(in_turn(*[Reply("good")] * 60)) as upstream:
        settings = settings_under(upstream.url, tmp_path, on_alarm="stricter")
        with guarding(upstream.url, **settings) as guard:
            break_promise(guard, until="withdrawn")
            (status,) = guard.get("/page/api/status").json()["guards"]
            assert status["uncovered"]
            assert "no stricter rating holds either; answers go on, and nothing covers them" in status["promise"]
            assert 'refine_promise_uncovered{guard="default"} 1.0' in guard.get("/metrics").text
            assert guard.chat().json()["refine"].get("certificate") is None


def test_only_keys_that_may_label_do(tmp_path: Path) -> None:
    """A label wants a key with `labels`, its fields and a known answer; the key's name is in who it is by."""
    keys = [
        {"name": "app", "sha256": digest_of("rf-app")},
        {"name": "audit", "sha256": digest_of("rf-audit"), "labels": True},
    ]
    with serving(in_turn(*[Reply("good")] * 3)) as upstream:
        settings = settings_under(upstream.url, tmp_path)
        with guarding(upstream.url, **settings, keys=keys) as guard:
            app, audit = ({"x-refine-key": f"rf-{name}"} for name in ("app", "audit"))
            known = guard.chat(headers=app).json()["refine"]["id"]
            body = {"id": known, "rating": 1, "by": "ann"}
            assert guard.post("/v1/labels", body, headers=app).status_code == 403
            assert guard.post("/v1/labels", body, headers=audit).json()["by"] == "audit/ann"
            for wrong, status in (
                ({"id": known}, 400),
                ({**body, "rating": 5}, 400),
                ({**body, "id": "\ud83d"}, 404),
            ):
                assert guard.post("/v1/labels", wrong, headers=audit).status_code == status
    with serving(in_turn(Reply("good"))) as upstream, guarding(upstream.url) as guard:
        assert guard.post("/v1/labels", body).json()["error"]["code"] == "no_record"


def test_a_label_is_asked_for_again_while_the_record_is_away(tmp_path: Path) -> None:
    """A database that fails is no fault of the label: 503 and a time, for answers written and those that wait."""
    file = tmp_path / "record.db"
    with (
        serving(in_turn(*[Reply("good")] * 3)) as upstream,
        guarding(upstream.url, **settings_under(upstream.url, tmp_path)) as guard,
    ):
        written = guard.chat().json()["refine"]["id"]
        label(guard, {"refine": {"id": written}}, up=True)
        whole = file.read_bytes()
        file.write_bytes(b"no database " * 100)
        waiting = guard.chat().json()["refine"]["id"]
        for identifier in (written, waiting):
            reply = guard.post("/v1/labels", {"id": identifier, "up": False})
            assert (reply.status_code, reply.json()["error"]["code"]) == (503, "record_failed"), reply.text
            assert int(reply.headers["retry-after"]) >= 1
        file.write_bytes(whole)


@pytest.mark.filterwarnings("ignore::graphs.CertificateWarning")
def test_a_loop_of_python_follows_the_record(tmp_path: Path) -> None:
    """Labels in the record end what is promised; another loop on it then starts closed, and calls nothing."""
    bare = SelfRefine(lambda _: "fair", rates, max_attempts=1)
    promised = certificate_of(bare.subject)
    with closing(DatabaseRecord(f"sqlite:///{tmp_path}/record.db")) as record:
        loop = SelfRefine(lambda _: "fair", rates, max_attempts=1, certificate=promised, record=record)
        for _ in range(8):
            outcome = loop.refine("Why?")
            assert record.flush(30)
            if outcome.covered:
                record.label(outcome.id, 1, by="ann", rating=1)
        assert record.standing(promised, "log").state == "withdrawn"
        settings: dict[str, Any] = {"max_attempts": 1, "certificate": promised, "record": record}
        assert SelfRefine(lambda _: "fair", rates, **settings, on_alarm="stricter").policy.success_rating == 3
        with pytest.raises(NotAccepted, match="withdrawn"):
            SelfRefine(lambda _: "fair", rates, **settings, on_alarm="closed").refine("And now?")


@pytest.mark.filterwarnings("ignore::graphs.CertificateWarning")
def test_an_alarm_that_nobody_could_see_is_refused() -> None:
    """`on_alarm` wants a certificate of a share, and a database in which labels arrive."""
    bare = SelfRefine(lambda _: "fair", rates, max_attempts=1)
    with pytest.raises(ConfigurationError, match="is about a certificate"):
        SelfRefine(lambda _: "fair", rates, on_alarm="closed")
    for certificate, message in (
        (certificate_of(bare.subject), "needs a record in a database"),
        (certificate_of(bare.subject, risk="per_question"), "audits watch the"),
        (certificate_of(bare.subject, harm=(1.0, 0.5, 0.0, 0.0)), "audits watch the"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            SelfRefine(lambda _: "fair", rates, max_attempts=1, certificate=certificate, on_alarm="closed")


def test_a_threshold_that_audits_speak_against_is_passed_over() -> None:
    """Where answers rated 4 are as bad as those rated 3, no stricter rating is taken: the certificate goes."""
    promised = certificate_of(SelfRefine(lambda _: "fair", rates, max_attempts=1).subject)
    good = [Audit(4, bad=False), Audit(3, bad=False)] * 20
    assert follow(promised, [*good, *[Audit(3, bad=True)] * 12]).threshold == 4
    assert follow(promised, [*good, *[Audit(4, bad=True), Audit(3, bad=True)] * 12]).threshold is None
    assert follow(promised, [*good, *[Audit(3, bad=True)] * 12], "log").threshold is None
    assert follow(promised, good).moves == ()
