"""A certificate goes from recorded loops to the loop in use, and survives no change of what it is about."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage

import judges
from graphs import CertificateWarning, Policy, self_refine
from judges import ConfigurationError, Helpfulness
from judges.certificate import IssuedCertificate
from judges.offline import certify, monitor, replay
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from refine.middleware import SelfRefineMiddleware
from tests.laws import for_every

QUESTIONS = 60


def generated(messages: list[BaseMessage]) -> str:
    """Answer weakly every fifth question, until a review is there; one good-looking answer is bad."""
    number = int(next(message.text for message in messages if message.type == "human").split()[-1])
    weak = number % 5 == 0 and len(messages) == 1
    return f"{'weak' if weak else 'good'} answer {number}{' but false' if number == 7 else ''}"


def judged(messages: list[BaseMessage]) -> dict[str, Any]:
    """Rate weak answers 2 and others 4."""
    weak = "weak answer" in messages[-1].text
    return {"rationale": "r", "feedback": "more" if weak else "", "rating": 2 if weak else 4}


def parts(*, model: str = "gen", judge_model: str = "judge", **settings: Any) -> dict[str, Any]:
    """Return generator and judge of the loop, each made anew."""
    judge = Helpfulness(ScriptedModel(judged, name=judge_model), **settings)
    return {"generator": ScriptedModel(generated, name=model), "judge": judge}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record the loop once, label what it wrote, and certify."""
    folder = tmp_path_factory.mktemp("certificates")
    refiner = SelfRefine(**parts(), success_rating=4, max_attempts=3, record=folder / "attempts.jsonl")
    for number in range(QUESTIONS):
        refiner.refine(f"question {number}")
    with (folder / "attempts.jsonl").open() as file:
        rows = [json.loads(line) for line in file]
    with (folder / "labels.jsonl").open("w") as file:
        for row in rows:
            names = {name: row["metadata"][name] for name in ("outcome_id", "attempt")}
            bad = "weak" in row["response"] or "false" in row["response"]
            file.write(f"{json.dumps({**names, 'labels': [{'by': 'ann', 'rating': 1 if bad else 4}]})}\n")
    certify(folder / "attempts.jsonl", folder / "labels.jsonl", laxest=True).write(folder / "certificate.json")
    return folder


@pytest.fixture
def certificate(folder: Path) -> Path:
    """Return the certificate of the loop."""
    return folder / "certificate.json"


def test_the_certificate_sets_the_success_rating_and_its_id_is_in_the_outcome(
    certificate: Path, tmp_path: Path
) -> None:
    """The rating is the one certified; outcome, metadata and record name the certificate."""
    issued = IssuedCertificate.read(certificate)
    assert (issued.threshold, issued.released, issued.bad, issued.runs) == (3.0, QUESTIONS, 1, QUESTIONS)
    assert [row.status for row in issued.rows] == ["certified", "certified", "refused"]
    refiner = SelfRefine(**parts(), certificate=certificate, max_attempts=3, record=tmp_path / "attempts.jsonl")
    outcome = refiner.refine("question 5")
    assert refiner.policy.success_rating == 3
    assert outcome.certificate == issued.id
    assert outcome.answer is not None
    assert outcome.answer.response_metadata["refine"]["certificate"] == issued.id
    written = json.loads((tmp_path / "attempts.jsonl").read_text().splitlines()[0])
    assert written["metadata"]["certificate"] == issued.id
    assert SelfRefine(**parts(), max_attempts=3).refine("question 5").certificate is None


def test_every_door_takes_it(certificate: Path) -> None:
    """The graph, a policy with one beside it, and the agent's middleware, whose model cannot be known."""
    graph = self_refine(**parts(), certificate=str(certificate), max_attempts=3)
    state = graph.invoke({"messages": [("user", "question 1")]})
    assert state["refine"]["certificate"] == IssuedCertificate.read(certificate).id
    assert SelfRefine(**parts(), policy=Policy(max_attempts=3), certificate=certificate).policy.success_rating == 3
    assert SelfRefine(**parts(), policy={"max_attempts": 3}, certificate=certificate).policy.success_rating == 3
    with pytest.warns(CertificateWarning, match="the generator 'PerRequest'"):
        middleware = SelfRefineMiddleware(parts()["judge"], certificate=certificate, max_attempts=3)
    assert middleware.policy.success_rating == 3


@for_every(
    "change, settings, message",
    [
        ({"judge_model": "another"}, {}, "the judge's model was 'judge' and is 'another'"),
        ({"model": "another"}, {}, "the generator was 'gen' and is 'another'"),
        ({"name": "mine"}, {}, "the judge was 'helpfulness' and is 'mine'"),
        ({"temperature": 1.0}, {}, "the settings of the judge's model 'judge' changed"),
        ({"language": "zh"}, {}, "the prompts, packs or settings of the judge 'helpfulness' changed"),
        ({}, {"max_attempts": 4}, "max_attempts was 3 and is 4"),
        ({}, {"max_attempts": 2}, "max_attempts was 3 and is 2"),
        ({}, {"patience": 1}, "patience was None and is 1"),
        ({}, {"augment": "all_drafts"}, "what the generator is shown on a retry"),
        ({}, {"augment": "all_drafts", "max_attempts": 4}, "shown on a retry.*max_attempts was 3 and is 4"),
        ({}, {"overrides": {2: {"temperature": 0.9}}}, "overrides was the default"),
        ({}, {"candidates": 2}, "candidates was the default and is 2"),
        ({}, {"release": "pieces", "piece_judge": "length:at_most=9"}, "release was the default and is 'pieces'"),
        ({}, {"shadow": True}, "shadow was the default and is True"),
        ({}, {"success_rating": 2}, "success_rating=2 stands beside a certificate for success_rating=3"),
    ],
)
def test_it_survives_no_change(
    certificate: Path, change: dict[str, Any], settings: dict[str, Any], message: str
) -> None:
    """Judge model, prompt, pack, generator, policy or number of attempts: one line names what changed."""
    with pytest.raises(ConfigurationError, match=message) as caught:
        SelfRefine(**parts(**change), **{"certificate": certificate, "max_attempts": 3, **settings})
    assert "\n" not in str(caught.value)


def in_pieces(**changes: Any) -> dict[str, Any]:
    """Return the loop as it releases pieces: its judge closes, and another one refuses pieces."""
    pieces = {"piece_judge": "pattern:excludes=weak", "release": "pieces", "piece_chars": 1}
    return {**parts(), "max_attempts": 3, "patience": 2, **pieces, **changes}


def test_loops_in_pieces_are_certified_as_they_were_recorded(tmp_path: Path) -> None:
    """A loop with the same pieces takes it, and its answers name it; of no other policy is anything known."""
    files = tmp_path / "attempts.jsonl", tmp_path / "labels.jsonl"
    recorded = SelfRefine(**in_pieces(record=files[0]))
    for number in range(QUESTIONS):
        recorded.refine(f"question {number}")
    rows = [json.loads(line) for line in files[0].read_text().splitlines()]
    assert {row["metadata"]["judge"] for row in rows} == {"helpfulness", "pattern"}
    names = [{name: row["metadata"][name] for name in ("outcome_id", "attempt")} for row in rows]
    bad = ["weak" in row["response"] or "false" in row["response"] for row in rows]
    labels = [
        {**name, "labels": [{"by": "ann", "rating": 1 if is_bad else 4}]}
        for name, is_bad in zip(names, bad, strict=True)
    ]
    files[1].write_text("\n".join(map(json.dumps, labels)))
    for changed in (
        {"thresholds": [4]},
        {"thresholds": [4, 3]},
        {"max_attempts": 1},
        {"patience": 1},
        {"independent_attempts": True},
    ):
        with pytest.raises(ConfigurationError, match="released in pieces") as caught:
            certify(*files, **changed)
        assert "\n" not in str(caught.value)
    issued = certify(*files, max_attempts=3, patience=2)
    assert [(row.policy, row.status) for row in issued.rows] == [(3.0, "certified")]
    assert (issued.threshold, issued.released, issued.bad, issued.runs) == (3.0, QUESTIONS, 1, QUESTIONS)
    issued.write(tmp_path / "certificate.json")
    assert monitor(*files, certificate=issued).changes == ()
    assert [(one.in_force, one.status, one.ends["pass"]) for one in replay(*files).policies] == [
        (True, "exact", QUESTIONS)
    ]
    with pytest.raises(ConfigurationError, match="released in pieces"):
        replay(*files, max_attempts=[1])
    taken = SelfRefine(**in_pieces(certificate=tmp_path / "certificate.json"))
    assert taken.refine("question 5").certificate == issued.id
    assert taken.refine("question 5", context={"release": "answer"}).certificate is None
    for changes, message in (
        ({"release": "answer", "piece_chars": 80, "piece_judge": None}, "release was 'pieces'"),
        ({"piece_chars": 80}, "piece_chars was 1"),
        ({"piece_judge": "pattern:excludes=bad"}, "the judge 'helpfulness' changed"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            SelfRefine(**in_pieces(certificate=tmp_path / "certificate.json", **changes))


def test_a_word_of_a_prompt_voids_it(certificate: Path, tmp_path: Path) -> None:
    """A pack of the user's, in which a word differs, is another judge."""
    pack = Path(judges.__file__).parent / "packs" / "en" / "helpfulness.toml"
    (tmp_path / "en").mkdir()
    text = pack.read_text(encoding="utf-8")
    (tmp_path / "en" / "helpfulness.toml").write_text(text.replace("helpful", "useful", 1), encoding="utf-8")
    with pytest.raises(ConfigurationError, match="the prompts, packs or settings of the judge"):
        SelfRefine(**parts(prompts=tmp_path), certificate=certificate, max_attempts=3)


def test_what_changes_no_passing_answer_voids_nothing(certificate: Path) -> None:
    """What is returned when nothing passes, what is logged, and prices are free; so is the same rating again."""
    settings: dict[str, Any] = {"on_exhausted": "raise", "log_texts": True, "success_rating": 3}
    refiner = SelfRefine(**parts(), certificate=certificate, max_attempts=3, **settings)
    again = refiner.around(generator=ScriptedModel(generated, name="gen"))
    assert again.refine("question 1").certificate is not None


def test_a_request_that_changes_the_loop_is_not_under_the_certificate(certificate: Path) -> None:
    """With a limit of its own a request leaves what was certified."""
    refiner = SelfRefine(**parts(), certificate=certificate, max_attempts=3)
    assert refiner.refine("question 1", context={"max_attempts": 1}).certificate is None
    assert refiner.refine("question 1").certificate is not None


def test_an_answer_of_another_model_is_not_under_it(
    folder: Path, certificate: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What a provider puts behind a name is seen in its answers; a WARNING says which model it was."""
    assert IssuedCertificate.read(certificate).answer_models == ("gen",)
    model = "gen"

    def answers(messages: list[BaseMessage]) -> AIMessage:
        return AIMessage(generated(messages), response_metadata={"model_name": model})

    judge = parts()["judge"]
    subject = SelfRefine(answers, judge, max_attempts=3).subject
    files = folder / "attempts.jsonl", folder / "labels.jsonl"
    own = certify(*files, subject=subject, ledger=folder / "another.ledger")
    with pytest.warns(CertificateWarning):
        refiner = SelfRefine(answers, judge, certificate=own, max_attempts=3)
    assert refiner.refine("question 1").certificate == own.id
    assert not caplog.records
    model = "gen-2"
    assert refiner.refine("question 1").certificate is None
    assert "by a model that the certificate is not about" in caplog.text


def test_a_generator_that_cannot_be_seen_into_is_a_warning(folder: Path, certificate: Path) -> None:
    """Code of a function is compared; what it calls, or what an agent does, is the user's to ensure."""
    judge = parts()["judge"]
    with pytest.raises(ConfigurationError, match="the generator was 'gen' and is 'generated'"):
        SelfRefine(generated, judge, certificate=certificate, max_attempts=3)
    own = certify(
        folder / "attempts.jsonl",
        folder / "labels.jsonl",
        subject=SelfRefine(generated, judge, max_attempts=3).subject,
        ledger=folder / "other.ledger",
    )
    with pytest.warns(CertificateWarning, match="whether the generator 'generated' is as it was"):
        SelfRefine(generated, judge, certificate=own, max_attempts=3)


def test_one_that_was_changed_or_is_foreign_is_one_line(certificate: Path, tmp_path: Path) -> None:
    """Changed content, another program's file, a later version, no JSON, no file: each says what to do."""
    text = certificate.read_text()
    data = json.loads(text)
    spoiled = {
        "changed.json": text.replace('"runs": 60', '"runs": 61'),
        "laxer.json": text.replace('"threshold": 3.0', '"threshold": 2.0'),
        "foreign.json": '{"id": "1", "threshold": 3}',
        "list.json": "[]",
        "text.json": "certified!",
        "later.json": json.dumps({**data, "version": 2}),
        "extended.json": json.dumps({**data, "more": 1}),
    }
    for name, content in spoiled.items():
        (tmp_path / name).write_text(content)
    messages = {}
    for name in (*spoiled, "missing.json"):
        with pytest.raises(ConfigurationError) as caught:
            SelfRefine(**parts(), certificate=tmp_path / name, max_attempts=3)
        messages[name] = str(caught.value)
        assert "\n" not in messages[name]
    assert "changed after it was issued" in messages["changed.json"]
    assert "changed after it was issued" in messages["laxer.json"]
    assert "is no certificate of selfrefine" in messages["foreign.json"]
    assert "version 2" in messages["later.json"]
    assert "there is no certificate" in messages["missing.json"]
    with pytest.raises(ConfigurationError, match="certificate is the path of"):
        SelfRefine(**parts(), certificate=3, max_attempts=3)  # type: ignore[arg-type]


def test_nothing_certified_is_refused(folder: Path, tmp_path: Path) -> None:
    """There is no silent fallback to a strict rating."""
    found = certify(folder / "attempts.jsonl", folder / "labels.jsonl", alpha=0.01, ledger=tmp_path / "ledger")
    assert not found.certified
    assert found.reachable_alpha is not None
    assert "NOT CERTIFIED" in str(found)
    assert "(not a certificate)" in str(found)
    found.write(tmp_path / "none.json")
    with pytest.raises(ConfigurationError, match=r"nothing is certified at alpha 1\.0%") as caught:
        SelfRefine(**parts(), certificate=tmp_path / "none.json", max_attempts=3)
    assert "\n" not in str(caught.value)


def test_one_that_names_no_loop_is_refused() -> None:
    """Rows without a fingerprint come to a certificate that is of no use online."""
    found = certify([{"question": f"q{n}", "answer": "a", "rating": 4, "labels": 4} for n in range(40)])
    assert (found.certified, found.answer_models) == (True, ())
    with pytest.raises(ConfigurationError, match="it does not say of which judge"):
        SelfRefine(lambda _: "a", ScriptedJudge([4]), certificate=found, max_attempts=1)


def test_reading_one_costs_no_numpy(certificate: Path) -> None:
    """A process that answers under a certificate loads neither numpy nor scipy."""
    program = (
        "import sys\n"
        "from judges.certificate import IssuedCertificate\n"
        "from graphs import Policy\n"
        f"assert Policy(certificate={str(certificate)!r}).success_rating == 3\n"
        "print([name for name in ('numpy', 'scipy', 'judges.offline') if name in sys.modules])\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_refiner_under_a_certificate_warns_of_nothing_it_knows(certificate: Path) -> None:
    """A chat model is known in full."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SelfRefine(**parts(), certificate=certificate, max_attempts=3)
