"""The demo with a real model: what it shows of each attempt, and what it says where there is no model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from demos.local import REQUESTS, main
from judges import Verdict
from tests.tiny_llama import write_model


def test_every_attempt_is_shown_with_its_speed_and_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of random weights hardly keeps a rule; what it wrote and what it was told stand there."""
    pytest.importorskip("xllamacpp", reason="llama.cpp has no wheel for this platform")
    pytest.importorskip("gguf", reason="needed to write the model")
    monkeypatch.setenv("LLAMA_ARG_THREADS", "1")
    monkeypatch.setenv("COLUMNS", "100")
    write_model(tmp_path / "tiny.gguf")

    assert main(["--model", f"local:{tmp_path / 'tiny.gguf'}", "--max-attempts", "2"]) == 0

    out = capsys.readouterr().out
    drafts = re.findall(r"^  draft \d .*?tokens? in [\d.]+ s, \d+ a second", out, re.MULTILINE | re.DOTALL)
    assert len(drafts) == len(re.findall(r"^  (?:refused|accepted) ", out, re.MULTILINE)) >= len(REQUESTS)
    assert "Write at most 25 words" in out or "accepted" in out
    assert re.search(rf"\d of {len(REQUESTS)} kept their rule at the first attempt, \d in the end", out)


def test_no_model_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there is named, and nothing else is said."""
    assert main(["--model", "local:none.gguf"]) == 2
    assert re.fullmatch(r"demos.local: .*none.gguf.*cannot be read.*\n", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("answer", "rating"),
    [
        ('{"title": "Moby Dick", "author": "Melville"}', 4),
        ('{"title": "Moby Dick"}', 1),
        ("[1]", 1),
        ("7", 1),
        ("x", 1),
    ],
)
def test_the_rule_for_json_tells_the_keys(answer: str, rating: int) -> None:
    """Both keys and no others, in one object with nothing around it."""
    verdict = REQUESTS[-1].judge(response=answer)
    assert isinstance(verdict, Verdict)
    assert verdict.rating == rating
