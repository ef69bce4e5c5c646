"""The judge's model: made at the start, with a breaker, others in reserve, and a deadline."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from judges import ConfigurationError
from refine.server import RunningGuard
from refine.server.running import serve
from tests.guarding import guarding
from tests.model_server import Asked, ModelServer, Reply, Wire, answered, serving

VERDICT = json.dumps({"rationale": "Because.", "rating": 4, "feedback": ""})


@pytest.mark.parametrize("start", [partial(serve, None, check=True), RunningGuard], ids=["check", "start"])
def test_a_judge_without_its_key_does_not_start(
    monkeypatch: pytest.MonkeyPatch, start: Callable[..., Any]
) -> None:
    """What would fail with the first answer fails before any, by the name of the setting."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings = {"upstream": "http://127.0.0.1:9/v1", "judge": "helpfulness", "judge_model": "openai:gpt-5-mini"}
    with pytest.raises(ConfigurationError, match=r"judge_model = 'openai:gpt-5-mini': .*cannot be set up"):
        start(flags=settings) if isinstance(start, partial) else start(settings)


def test_the_next_model_judges_where_the_first_is_down(upstream: ModelServer) -> None:
    """A model that fails is left out after a while, and asked again later; the verdict names who gave it."""
    with serving(lambda asked: Reply("down", status=500)) as down, serving(lambda asked: Reply(VERDICT)) as second:
        models = [f"{down.url}#first", f"{second.url}#second"]
        settings: dict[str, Any] = {"judge": "helpfulness", "judge_model": models, "breaker_failures": 2}
        with guarding(upstream.url, **settings, fail="closed") as guard:
            for _ in range(4):
                assert guard.chat().json()["refine"]["passed"] is True
            assert [len(server.requests) for server in (down, second)] == [2, 4]
            assert {asked["model"] for asked in second.requests} == {"second"}
        with guarding(upstream.url, **{**settings, "judge_model": models[0]}, fail="closed") as guard:
            down.requests.clear()
            assert [guard.chat().status_code for _ in range(4)] == [503] * 4
            assert len(down.requests) == 2


def test_readiness_tells_of_a_judge_that_is_down(upstream: ModelServer) -> None:
    """A guard that fails closed is not ready while its judge is down; one that fails open is, and says so."""
    with serving(lambda asked: Reply("down", status=500)) as down:
        settings: dict[str, Any] = {"judge": "helpfulness", "judge_model": f"{down.url}#m", "breaker_failures": 1}
        settings["policy"] = {"max_retries": 0}
        for fail, status in (("closed", 503), ("open", 200)):  # of several guards one that answers is enough
            with guarding(upstream.url, **settings, fail=fail, breaker_cooldown_s=600) as guard:
                assert guard.get("/readyz").json() == {"status": "ready"}
                guard.chat()
                after = guard.get("/readyz")
                assert (after.status_code, after.json()["judges"]) == (status, {"default": "not answering"})


def test_a_judge_that_hangs_holds_no_answer_for_ever(upstream: ModelServer) -> None:
    """Without a setting an answer has a deadline, which a policy may move."""
    settings: dict[str, Any] = {"judge": "helpfulness", "judge_model": "http://127.0.0.1:9/v1#m"}
    guards: dict[str, Any] = {"usual": {}, "moved": {"policy": {"deadline_s": 7.0}}}
    with guarding(upstream.url, **settings, guards=guards) as guard:
        assert [one.loop.policy.deadline_s for one in guard.service.guards] == [120.0, 7.0]


def test_a_live_check_asks_everything_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Judge, upstream and database are asked once each; what does not answer is named, and the check fails."""

    def reply(asked: Asked) -> Reply | Wire:
        return (
            Reply(VERDICT, status=status) if asked["method"] == "POST" else answered({"data": []}, status=status)
        )

    status = 200
    with serving(reply) as model:
        settings = {
            "upstream": model.url,
            "judge": "helpfulness",
            "judge_model": f"{model.url}#m",
            "record": str(tmp_path / "record.db"),
        }
        serve(None, settings, check=True, live=True)
        said = capsys.readouterr().err
        assert len(model.requests) == 2
        assert "the judge helpfulness answers" in said
        assert "database answers" in said
        assert "/models" not in said
        for wrong, doubt in ((401, ""), (404, "knows no /models: see whether its path is right")):
            status = wrong
            with pytest.raises(ConfigurationError, match="1 of 3 do not answer"):
                serve(None, settings, check=True, live=True)
            said = capsys.readouterr().err
            assert "the judge does not answer: judge_failed" in said
            assert doubt in said
    with pytest.raises(ConfigurationError, match="give both"):
        serve(None, settings, check=False, live=True)
