"""The demo of answers that stream: both viewers have the same answer, and neither the refused sentence."""

from __future__ import annotations

import pytest

from demos.streaming import main


def test_streaming_demo(capsys: pytest.CaptureFixture[str]) -> None:
    """Written to a file it shows what each viewer read, and when."""
    assert main(["--speed", "200"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert shown.count("or you have your money back.") == 2
    assert "loses every" not in shown
    assert "judged in pieces" in shown
    assert main(["--speed", "0"]) == 2
