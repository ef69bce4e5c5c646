"""`tune`: a judge learns a hidden rule from labels, says so on held-out labels alone, and survives a crash."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import judges
from judges import ConfigurationError
from judges.fingerprint import fingerprint
from judges.offline import Tuning, align, certify, tune
from judges.testing import ScriptedModel
from tests.kit import shown
from tests.model_server import Reply, serving
from tests.runs.commands import refine
from tests.tuning.annotator import RULE, labelled, reply_to, scripted, texts_of

OF_TONE = {"rationale": "Of its kind.", "feedback": ""}
RESULTS = ("judges.toml", "labels.jsonl", "prompts/en/helpfulness.toml", "report.json")


class Tuned(NamedTuple):
    """A tuning that found the rule: its folder, what it says, and the model that was asked."""

    folder: Path
    tuning: Tuning
    model: ScriptedModel


def write(rows: list[dict[str, Any]], file: Path) -> Path:
    """Write rows as JSON lines."""
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    """Tune helpfulness on fifty labels of a hidden rule."""
    folder, model = tmp_path_factory.mktemp("tuned"), scripted()
    rows = write(labelled(50), folder / "labelled.jsonl")
    return Tuned(folder, tune(rows, "helpfulness", model, out=folder / "out"), model)


def test_a_hidden_rule_is_found_from_fifty_labels(tuned: Tuned) -> None:
    """Kappa on held-out labels rises by more than chance, and the file holds a judge that keeps to the rule."""
    held = tuned.tuning.held_out
    assert tuned.tuning.improved
    assert (held.kappa_after or 0) - (held.kappa_before or 0) >= 0.2
    assert RULE in (tuned.folder / "out/prompts/en/helpfulness.toml").read_text(encoding="utf-8")
    judge = judges.load(f"{tuned.folder / 'out' / 'judges.toml'}:helpfulness", scripted())
    assert judge(question="My parcel?", answer="Step 1: look at the page of the carrier.").passed
    assert not judge(question="My parcel?", answer="Thank you for asking, it will arrive some day.").passed


def test_a_rule_that_nobody_can_word_is_learned_from_examples(tmp_path: Path) -> None:
    """A model that finds no guideline is shown people's ratings, as many good as bad; so for any kind of reply."""

    def reply(messages: list[Any]) -> Any:
        fields = reply_to(messages, finds=False)
        known = "answer" in shown(messages)
        return {**OF_TONE, "verdict": "kept" if fields["rating"] == 4 else "broken"} if known else fields

    result = tune(labelled(50), "tone:tone=kind", ScriptedModel(reply), out=tmp_path)
    assert (result.improved, result.chosen) == (True, "examples")
    table = tomllib.loads((tmp_path / "prompts/en/tone.toml").read_text(encoding="utf-8"))
    verdicts = [example["reply"]["verdict"] for example in table["examples"]]
    assert sorted(verdicts) == ["broken"] * 3 + ["kept"] * 3
    assert all(example["reply"]["rationale"] for example in table["examples"])


@pytest.mark.parametrize("likeness", ["words", "pieces"])
def test_of_many_examples_a_question_is_shown_those_most_like_it(likeness: str, tmp_path: Path) -> None:
    """So many as the pack says, the most alike last, by words or by vectors; the fingerprint knows how many."""
    place = tmp_path / "en" / "tone.toml"
    place.parent.mkdir()
    example = (
        '[[examples]]\ndata = {{ tone = "kind", answer = "{answer}" }}\n'
        'reply = {{ rationale = "Of its kind.", verdict = "kept", feedback = "" }}\n'
    )
    answers = ["Your parcel is on its way.", "The museum opens at nine.", "Your parcel comes on Monday."]
    examples = "".join(example.format(answer=answer) for answer in answers)

    def made(nearest: int) -> tuple[judges.Judge, ScriptedModel]:
        place.write_text(f'nearest = {nearest}\nlikeness = "{likeness}"\n{examples}', encoding="utf-8")
        model = ScriptedModel([{**OF_TONE, "verdict": "kept"}], cycle=True)
        return judges.load("tone", model, tone="kind", prompts=tmp_path), model

    judge, model = made(2)
    assert judge(answer="When does the parcel come, on Monday?").passed
    before = "\n".join(message.text for message in model.prompts[0][:-1])
    places = [before.find(answer) for answer in answers]
    assert places[1] == -1 < places[0] < places[2]
    assert judge(answer="Is the museum open on Sundays, from nine?").passed
    assert answers[1] in "\n".join(message.text for message in model.prompts[1][:-1])
    assert fingerprint(judge) != fingerprint(made(1)[0])


def test_a_large_budget_tries_nearest_examples_and_more_batches(tmp_path: Path) -> None:
    """Every way is tried; what no half of the tuning cases finds is found from two batches of them."""
    result = tune(labelled(90), "helpfulness", scripted(), budget=900, out=tmp_path)
    tried = {way.way for way in result.tried}
    assert {"nearest examples", "guidelines of two batches", "wording and examples"} <= tried
    assert result.improved
    assert result.calls <= 900


def test_the_budget_is_exact(tuned: Tuned, tmp_path: Path) -> None:
    """Every call counts, a reply that has to be asked for again included, and there are never more."""
    assert len(tuned.model.prompts) == tuned.tuning.calls <= 200
    broken = ScriptedModel(lambda messages: "?" if len(messages[-1].text) % 3 else reply_to(messages))
    result = tune(labelled(30), "helpfulness", broken, budget=60, out=tmp_path)
    assert len(broken.prompts) <= 60
    assert f"calls: {result.calls} of 60" in str(result)


def test_a_judge_that_answers_first_is_tuned_within_the_budget(tmp_path: Path) -> None:
    """Its own answers are asked once for each question, whatever is changed, and calls are left to compare it."""
    own: list[str] = []

    def reply(messages: list[Any]) -> Any:
        if not {"cases", "answer"} & shown(messages).keys():
            own.append(messages[-1].text)
            return {"reasoning": "I look.", "answer": "Look at the page.", "is_sure": True}
        return reply_to(messages)

    model = ScriptedModel(reply)
    result = tune(labelled(50), "helpfulness:commit=true", model, out=tmp_path)
    assert (result.improved, result.held_out.after) == (True, result.held_out.cases)
    assert len(own) == result.tuning_cases + result.held_out.cases
    assert len(model.prompts) == result.calls <= 200


def test_no_held_out_text_is_in_a_prompt_but_to_be_judged(tuned: Tuned) -> None:
    """Examples, guidelines and what the model is shown to find them are of tuning cases alone."""
    lines = map(json.loads, (tuned.folder / "out/labels.jsonl").read_text(encoding="utf-8").splitlines())
    held = [line for line in lines if line["split"] == "report"]
    texts = texts_of(tuned.model)
    assert len(held) == 25
    assert [
        line for line in held for text in texts if line["response"] in text or line["user_input"] in text
    ] == []


@pytest.mark.parametrize("calls", [3, 90])
def test_a_killed_tuning_ends_as_it_would_have(tuned: Tuned, tmp_path: Path, calls: int) -> None:
    """What a journal has, torn line and all, is not asked again; the files are the same, byte for byte."""
    journal = (tuned.folder / "out/journal.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "out").mkdir()
    kept = [*journal[: 1 + 2 * calls], journal[-1][:40]]
    (tmp_path / "out/journal.jsonl").write_text("".join(kept), encoding="utf-8")
    shutil.copy(tuned.folder / "labelled.jsonl", tmp_path)
    model = scripted()
    tune(tmp_path / "labelled.jsonl", "helpfulness", model, out=tmp_path / "out")
    assert len(model.prompts) < tuned.tuning.calls - calls + 10
    for name in RESULTS:
        assert (tmp_path / "out" / name).read_bytes() == (tuned.folder / "out" / name).read_bytes(), name
    with pytest.raises(ConfigurationError, match="another folder"):
        tune(tmp_path / "labelled.jsonl", "helpfulness", model, out=tmp_path / "out", budget=150)


def test_shuffled_labels_are_no_gain(tmp_path: Path) -> None:
    """Where there is no rule, none is found: the judge stays, and no file claims another."""
    for seed in range(3):
        out = tmp_path / str(seed)
        result = tune(labelled(24, seed=seed, shuffled=True), "helpfulness", scripted(), budget=80, out=out)
        assert not result.improved
        assert result.fingerprints[0] == result.fingerprints[1]
        assert "no gain" in str(result)
        assert not (out / "judges.toml").exists()


def test_labels_that_tuned_a_judge_certify_none(tuned: Tuned, tmp_path: Path) -> None:
    """The ledger beside the labels knows them without any split, a copy with other columns, too; fresh ones go."""
    rows = [{**row, "rating": 4, "attempt": 1} for row in labelled(50)]
    copy = write(rows, tuned.folder / "attempts.jsonl")
    with pytest.raises(ConfigurationError, match="25 of these labels tuned a judge"):
        certify(copy, alpha=0.9, max_attempts=1)
    assert certify(write(rows, tmp_path / "other.jsonl"), alpha=0.9, max_attempts=1).labels == 50
    with pytest.raises(ConfigurationError, match="tuned_on"):
        certify(rows, tuned.folder / "out/labels.jsonl", alpha=0.9, max_attempts=1)
    with pytest.raises(ConfigurationError, match="tuned a judge, so they cannot say how good it is"):
        align(copy)
    fresh = [{**row, "rating": 4, "attempt": 1} for row in labelled(40, seed=7)]
    assert certify(write(fresh, tuned.folder / "fresh.jsonl"), alpha=0.9, max_attempts=1).labels == 40


def test_what_people_differ_on_is_shown_apart(tmp_path: Path) -> None:
    """Answers on which people differ are counted with the agreement of people; a tie is left out."""
    rows = labelled(40)
    for row in rows[:8]:
        up = row["labels"][0]["up"]
        row["labels"] = [{"by": "ann", "up": up}, {"by": "bob", "up": up}, {"by": "eve", "up": not up}]
    rows[9]["labels"].append({"by": "bob", "up": not rows[9]["labels"][0]["up"]})
    text = str(tune(rows, "helpfulness", scripted(), budget=150, out=tmp_path))
    assert "people differ on 8 answers; among themselves they agree with kappa" in text
    assert "left out: 1 answers, as many people say good as bad" in text


@pytest.mark.parametrize(
    ("rows", "judge", "settings", "line"),
    [
        (labelled(12), "helpfulness", {}, "labels of 20 answers"),
        (labelled(40), "length:at_most=5", {}, "cannot be tuned"),
        (labelled(40), "helpfulness", {"budget": 10}, "from 50"),
        ([{**row, "labels": [{"by": "a", "up": True}]} for row in labelled(40)], "helpfulness", {}, "the same"),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_a_line(
    rows: list[dict[str, Any]], judge: str, settings: dict[str, Any], line: str, tmp_path: Path
) -> None:
    """Before anything is asked, it says what is missing."""
    model = scripted()
    with pytest.raises(ConfigurationError, match=line):
        tune(rows, judge, model, out=tmp_path, **settings)
    assert model.prompts == []


def test_the_command_over_http(tmp_path: Path) -> None:
    """`refine tune` asks a server, prints what came of it, and exits with 0 for a gain."""
    rows = write(labelled(30, seed=3), tmp_path / "labelled.jsonl")

    class Line(NamedTuple):
        text: str

    def reply(asked: dict[str, Any]) -> Reply:
        return Reply(text=json.dumps(reply_to([Line(one["content"]) for one in asked["messages"]])))

    with serving(reply) as server:
        options = ["--model", "m", "--base-url", server.url, "--out", tmp_path / "out", "--budget", 90]
        result = refine("tune", rows, "--judge", "helpfulness", *options)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(
        "helpfulness: improved\nheld out, 15 answers to 15 questions: agrees with people"
    )
    assert "the tuned judge: " in result.stdout
