"""The offline demo: what was judged online is judged again from the record."""

from __future__ import annotations

from pathlib import Path

import pytest

from demos.offline import demonstrate, main
from judges.offline import read_rows
from judges.testing import ScriptedJudge


@pytest.mark.parametrize("seed", range(3))
def test_offline_verdicts_equal_those_given_online(capsys: pytest.CaptureFixture[str], seed: int) -> None:
    """The same judge says the same of every recorded attempt, refused and accepted ones."""
    assert main(["--seed", str(seed)]) == 0

    shown = capsys.readouterr().out
    assert "offline verdicts equal those given online." in shown
    assert shown.count("●●●●") == 2 * 4


def test_the_record_is_kept_where_it_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--out` holds one row per attempt, the tool's result among them."""
    assert main(["--out", str(tmp_path / "run")]) == 0

    samples = list(read_rows(tmp_path / "run" / "attempts.jsonl"))
    assert f"{len(samples)} of {len(samples)} offline verdicts" in capsys.readouterr().out
    assert all([one.role for one in sample.steps] == ["assistant", "tool"] for sample in samples)


def test_a_judge_that_changes_its_mind_is_found_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verdicts that differ are counted, and the exit code is 1."""
    fickle = ScriptedJudge([4, 4, 4, 4, 4, 1, 4, 1])

    assert demonstrate(tmp_path, seed=1, judge=fickle) == 1
    assert "2 of 4 offline verdicts equal" in capsys.readouterr().out


def test_a_record_is_not_added_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that already holds a record is refused in one line."""
    (tmp_path / "attempts.jsonl").touch()

    assert main(["--out", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "choose another --out" in line
