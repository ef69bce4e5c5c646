"""Who is let in, how much may be sent, and how slowly."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from judges import ConfigurationError
from refine.server.access import describe_new_key, digest_of
from refine.server.config import ServerKey
from tests.guarding import Guarded, guarding, wait_until
from tests.model_server import Asked, ModelServer, Reply, Wire, serving

KEYS = {"first": "rf-one", "second": "rf-two"}
HOSTS = ["localhost", "evil.example", "127.0.0.1:1", "a b", "[::1]", "x/v1/models?", "127.0.0.1@evil"]


@pytest.fixture(scope="module")
def guard(upstream: ModelServer) -> Iterator[Guarded]:
    """Start a guard with two keys, one of them for another guard, and short deadlines."""
    keys = [
        {"name": "first", "sha256": digest_of(KEYS["first"])},
        {"name": "second", "sha256": digest_of(KEYS["second"]), "guards": ["other"]},
    ]
    guards = {"default": {"models": ["m*"]}, "other": {"models": ["o*"]}}
    with guarding(
        upstream.url,
        keys=keys,
        guards=guards,
        upstream_key="sk-operator",
        max_body_bytes=10_000,
        body_timeout_s=0.5,
        header_timeout_s=0.5,
    ) as running:
        yield running


def test_only_the_known_keys_get_in(guard: Guarded, upstream: ModelServer) -> None:
    """Every path of the API wants a key, in whichever header a client sends it; a wrong Host changes nothing."""
    wrong = ["", "Bearer", "Bearer rf-on", "Bearer rf-one2", "Basic rf-one", "rf-one", "Bearer RF-ONE"]
    right = [{"authorization": "Bearer rf-one"}, {"x-api-key": "rf-one"}, {"x-refine-key": "rf-one"}]
    paths = ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/judge", "/v1/models"]
    paths.append("/beta/litellm_basic_guardrail_api")
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    for path in paths:
        for header in wrong:
            response = guard.post(path, body, headers={"authorization": header})
            assert (response.status_code, response.json()["error"]["type"]) == (401, "authentication_error"), path
        for host in HOSTS:
            assert guard.post(path, body, headers={"host": host}).status_code in (400, 401), (path, host)
    assert upstream.requests == []
    assert [guard.chat(headers=headers).status_code for headers in right] == [200, 200, 200]
    assert {asked["authorization"] for asked in upstream.requests} == {"Bearer sk-operator"}
    assert "rf-one" not in str([asked["headers"] for asked in upstream.requests])


def test_guesses_of_keys_are_limited(upstream: ModelServer) -> None:
    """After many wrong keys no new one is looked at for a while; those that were right before go on."""
    keys = [{"name": name, "sha256": digest_of(f"rf-{name}")} for name in ("known", "new")]
    with guarding(upstream.url, keys=keys) as guard:

        def ask(key: str) -> httpx2.Response:
            return guard.chat(headers={"authorization": f"Bearer {key}"})

        assert ask("rf-known").status_code == 200
        assert [ask(f"rf-{number}").status_code for number in range(102)] == [401] * 100 + [429] * 2
        late = ask("rf-new")
        assert (late.status_code, late.json()["error"]["code"]) == (429, "too_many_guesses")
        assert 0 < int(late.headers["retry-after"]) <= 60
        assert ask("rf-known").status_code == 200
        assert guard.chat().status_code == 401


def test_a_keyless_server_judges_for_this_machine_alone(upstream: ModelServer) -> None:
    """What spends the judge's key answers nobody from afar; a judge that asks no model does."""
    row, afar = {"question": "?", "answer": "good"}, {"x-forwarded-for": "10.0.0.9"}
    text = {"input_type": "response", "texts": ["good"]}
    asks = {"judge": "helpfulness", "judge_model": "http://127.0.0.1:9/v1#m"}
    with guarding(upstream.url, **asks) as guard, guarding(upstream.url) as free:
        for path, body in (("/v1/judge", row), ("/beta/litellm_basic_guardrail_api", text)):
            refused = guard.post(path, body, headers=afar)
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "key_wanted")
            assert free.post(path, body, headers=afar).status_code == 200
        assert guard.post("/v1/judge", row).json()["unscored"] == "judge_failed"


def test_a_page_with_texts_wants_a_key_or_the_link(upstream: ModelServer, tmp_path: Path) -> None:
    """Nobody is let in for being on this machine, as a proxy is, too; the link from the start is followed once."""
    with guarding(upstream.url, record=str(tmp_path / "record.db"), record_texts=True) as guard:
        api = "/page/api"
        headers = {"content-type": "application/json"}
        assert guard.get(f"{api}/status").status_code == 401
        assert guard.page_url is not None
        token = guard.page_url.partition("#link=")[2]
        assert guard.post(f"{api}/link", {"link": "guess"}, headers=headers).status_code == 401
        key = guard.post(f"{api}/link", {"link": token}, headers=headers).json()["key"]
        assert guard.post(f"{api}/link", {"link": token}, headers=headers).status_code == 401
        assert guard.get(f"{api}/status", headers={"authorization": f"Bearer {key}"}).status_code == 200
        wrong = [guard.get(f"{api}/status", headers={"authorization": "Bearer x"}) for _ in range(20)]
        assert [response.status_code for response in wrong][::19] == [401, 429]
        assert guard.get(f"{api}/status", headers={"authorization": f"Bearer {key}"}).status_code == 200
    with guarding(upstream.url, record=str(tmp_path / "other.db")) as guard:
        assert guard.page_url == f"{guard.root}/"
        assert guard.get("/page/api/status").status_code == 200


def test_a_key_is_for_its_guards(guard: Guarded) -> None:
    """A key that is for another guard is a 403, by model and by header."""
    second = {"authorization": "Bearer rf-two"}
    assert guard.chat(model="m", headers=second).status_code == 403
    assert guard.chat(model="o", headers=second).headers["x-refine-guard"] == "other"
    assert guard.chat(model="o", headers={**second, "x-refine-guard": "default"}).status_code == 403
    assert guard.chat(headers={**second, "x-refine-guard": "nobody"}).status_code == 404


def test_a_key_of_the_guard_beside_one_of_the_upstream(upstream: ModelServer) -> None:
    """With the guard's key in its own header, the caller's key for the upstream goes on; it never gets ours."""
    keys = [{"name": "first", "sha256": digest_of("rf-one")}]
    with guarding(upstream.url, keys=keys) as guard:
        upstream.requests.clear()
        guard.chat(headers={"x-refine-key": "rf-one", "authorization": "Bearer sk-caller"})
        guard.chat(headers={"authorization": "Bearer rf-one"})
        guard.chat(headers={"x-refine-key": "rf-one", "api-key": "azure"})
        assert [asked["authorization"] for asked in upstream.requests] == ["Bearer sk-caller", None, None]
        assert upstream.requests[2]["headers"]["api-key"] == "azure"


def test_a_new_key_is_shown_once_and_kept_as_a_hash() -> None:
    """The lines for the file hold no key, and let exactly this key in."""
    shown, table = describe_new_key("app")
    key = shown.splitlines()[0]
    assert key not in table
    assert digest_of(key) in table
    assert ServerKey(name="app", sha256=digest_of(key)).guards is None
    assert len({describe_new_key("app")[0] for _ in range(20)}) == 20
    with pytest.raises(ConfigurationError, match="a key's name is"):
        describe_new_key('a"b')


def test_a_body_that_is_too_large(guard: Guarded) -> None:
    """A body over the limit is a 413, told by its length or not, and takes no memory."""
    headers = {"authorization": "Bearer rf-one"}
    assert (
        guard.post("/v1/chat/completions", "x" * 20_000, headers=headers).json()["error"]["code"]
        == "body_too_large"
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer rf-one\r\n"
    for length in (b"content-length: 100000000\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n"):
        chunk = b"x" * 10_000 if length.startswith(b"content") else b"2710\r\n" + b"x" * 10_000 + b"\r\n"
        reply = guard.exchange(head + length, *[chunk] * 2_000, end=b"}}")
        assert b"413" in reply.split(b"\r\n")[0]
        assert b"request_too_large" in reply
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_headers_and_bodies_that_trickle(guard: Guarded) -> None:
    """Headers that come drop by drop, or not at all, and a body that does, are ended within a second."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer rf-one\r\n"
    drops = [b"a", b": b\r\n"] * 200
    results = {
        "nothing": lambda: guard.exchange(end=b"}}"),
        "headers": lambda: guard.exchange(head, *drops, pause_s=0.02, end=b"}}"),
        "body": lambda: guard.exchange(
            head + b"content-length: 900\r\n\r\n", *[b"x"] * 80, pause_s=0.02, end=b"}}"
        ),
    }
    replies: dict[str, bytes] = {}
    threads = [
        threading.Thread(target=lambda name=name: replies.update({name: results[name]()})) for name in results
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [b"408" in reply.split(b"\r\n")[0] for reply in replies.values()] == [True] * 3
    assert all(b"timeout_error" in reply for reply in replies.values())


@pytest.mark.parametrize(
    ("settings", "status", "code"),
    [({"max_in_flight": 1}, 503, "server_busy"), ({"max_in_flight_per_key": 1}, 429, "too_many_requests")],
)
def test_more_requests_than_places(settings: dict[str, int], status: int, code: str) -> None:
    """A request beyond the limit is refused at once, with Retry-After, and spends no budget; health answers."""

    def hanging(asked: Asked) -> Wire:
        return Wire((), then="hang")

    keys = [{"name": "a", "sha256": digest_of("rf-one"), "requests_per_day": 2}]
    headers = {"x-refine-key": "rf-one"}
    limits = {"upstream_timeout_s": 0.6, "max_bytes_in_flight": 3_000, **settings}
    with serving(hanging) as upstream, guarding(upstream.url, keys=keys, **limits) as guard:
        first = threading.Thread(target=guard.chat, kwargs={"headers": headers})
        first.start()
        wait_until(lambda: guard.service.admission.in_flight == 1)
        for path in ("chat/completions", "embeddings", "judge"):
            refused = guard.post(f"/v1/{path}", {}, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)
            assert refused.headers["retry-after"] == "1"
        assert guard.get("/healthz").status_code == 200
        first.join(10)
        wait_until(lambda: guard.service.admission.in_flight == 0)
        codes = [guard.chat(headers=headers, user=user).json()["error"]["code"] for user in ("x" * 3_000, "", "")]
        assert codes == ["server_busy", "upstream_timeout", "budget_spent"]


def test_a_dead_upstream_opens_the_circuit() -> None:
    """After some failures in a row calls fail at once with Retry-After; one call after the cooldown closes it."""
    replies = [Reply("down", status=500)] * 3
    with (
        serving(lambda _: replies.pop() if replies else Reply("good")) as upstream,
        guarding(upstream.url, breaker_failures=3, breaker_cooldown_s=0.2) as guard,
    ):
        assert [guard.chat().status_code for _ in range(3)] == [500] * 3
        refused = guard.chat()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "upstream_circuit_open")
        assert refused.headers["retry-after"] == "1"
        assert len(upstream.requests) == 3
        wait_until(lambda: guard.chat().status_code == 200)
