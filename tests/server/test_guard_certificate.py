"""A guard under a certificate: it sets the success rating, is named in every answer, and refused when stale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphs.certified_loop import subject_of
from judges import ConfigurationError
from judges.certificate import IssuedCertificate
from refine.server.assembly import _make_guards
from refine.server.config import load_settings
from refine.server.running import _describe
from tests.guarding import guarding
from tests.loops.recorded import issued
from tests.model_server import Reply, in_turn, serving

URL = "http://127.0.0.1:9/v1"
SETTINGS: dict[str, Any] = {"upstream": URL, "judge": "tests.guarding:rates", "max_attempts": 2}


def certified(folder: Path, settings: dict[str, Any]) -> Path:
    """Write a certificate for the guard that settings describe."""
    (guard,) = _make_guards(load_settings(None, settings))
    subject = subject_of(guard.judge, guard.loop.policy, guard.generator)
    issued(subject=subject, threshold=3).write(folder / "certificate.json")
    return folder / "certificate.json"


def test_answers_name_it(tmp_path: Path) -> None:
    """The success rating is the certified one; the `refine` object has the id, but for a changed request."""
    with serving(in_turn(Reply("fair"), Reply("fair"))) as upstream:
        settings = {**SETTINGS, "upstream": upstream.url}
        file = certified(tmp_path, settings)
        with guarding(upstream.url, max_attempts=2, certificate=str(file)) as guard:
            figures = guard.chat().json()["refine"]
            assert figures["certificate"] == IssuedCertificate.read(file).id
            assert (figures["passed"], figures["rating"]) == (True, 3)
            assert "certificate" not in guard.chat(refine={"max_attempts": 1}).json()["refine"]


def test_a_judge_in_reserve_refuses_it(tmp_path: Path) -> None:
    """A certificate for one model of the judge is not about that model with another in reserve."""
    judged = {**SETTINGS, "judge": "helpfulness", "judge_model": f"{URL}#a"}
    file = str(certified(tmp_path, judged))
    assert _make_guards(load_settings(None, {**judged, "certificate": file}))
    with pytest.raises(ConfigurationError, match="is not about this loop"):
        _make_guards(load_settings(None, {**judged, "judge_model": [f"{URL}#a", f"{URL}#b"], "certificate": file}))


def test_settings_of_another_guard_refuse_it(tmp_path: Path) -> None:
    """Judge, upstream and policy are compared when the server starts; what each request chooses is reported."""
    file = str(certified(tmp_path, SETTINGS))
    (guard,) = _make_guards(load_settings(None, {**SETTINGS, "certificate": file}))
    assert guard.loop.policy.success_rating == 3
    assert "by certificate" in _describe(guard)
    assert "'whatever http://127.0.0.1:9 serves'" in guard.doubts[0]
    for change, message in (
        ({"upstream": "http://127.0.0.1:8/v1"}, "the generator was"),
        ({"judge": "json"}, "the judge was"),
        ({"max_attempts": 3}, "max_attempts was 2 and is 3"),
        ({"success_rating": 4}, "stands beside a certificate"),
        ({"certificate": str(tmp_path / "none.json")}, "certificate = .*: there is no certificate"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            _make_guards(load_settings(None, {**SETTINGS, "certificate": file, **change}))
