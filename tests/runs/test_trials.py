"""Trials share the first answer and have a truth of their own; a judge is tried on clear pairs first."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from judges import BadSample, ConfigurationError, Panel, Sample, Verdict, as_judge, catalogue, load
from judges.offline import Progress, TrialPair, try_judge
from judges.offline.trust.judge_trial import _judges_with_cases, _worked_cases, settings_of_cases
from judges.testing import ScriptedJudge, ScriptedModel
from refine import Arm, Trial, trial
from tests.bench.ifeval.page import page_of
from tests.bench.ifeval.raw import read_all
from tests.catalogue.cases import asks_a_model
from tests.model_server import Asked, Reply, serving
from tests.runs.commands import killed, line_of, refine

NUMBERS = range(42)
QUESTIONS = [f"question {number}" for number in NUMBERS]
FIRST_GOOD = {number for number in NUMBERS if number % 7 == 0}
GOOD_AFTER_FEEDBACK = {number for number in NUMBERS if number % 3 == 0}


def bot(messages: list[BaseMessage]) -> str:
    """Answer well at first to every seventh question, and to every third one once there is feedback."""
    number = int(str(messages[0].text).split()[1])
    good = GOOD_AFTER_FEEDBACK if len(messages) > 1 else FIRST_GOOD
    return f"{'good' if number in good else 'poor'} {'final' if len(messages) > 1 else 'draft'} {number}"


def is_final(answer: str) -> tuple[bool, str]:
    """Accept whatever came of feedback, good or not."""
    return "final" in answer, "Make it final."


def is_good(answer: str) -> bool:
    """Know the truth."""
    return answer.startswith("good")


def asked(model: ScriptedModel) -> Counter[int]:
    """Count prompts by how many messages they had."""
    return Counter(map(len, model.prompts))


def test_arms_get_their_true_effect() -> None:
    """What feedback mends and breaks is counted as it was made, and an arm without it changes nothing."""
    model = ScriptedModel(bot)
    found = trial(QUESTIONS, model, is_final, truth=is_good, arms="loop,restated,fresh")
    restated, fresh = found.effects["restated"], found.effects["fresh"]
    mended, broken = len(GOOD_AFTER_FEEDBACK - FIRST_GOOD), len(FIRST_GOOD - GOOD_AFTER_FEEDBACK)
    assert (restated.own.first_good, restated.own.mended, restated.own.broken) == (6, mended, broken)
    assert (fresh.own.mended, fresh.own.broken, fresh.beside, found.baseline) == (0, 0, None, "fresh")
    assert restated.beside is not None
    assert restated.beside.net.value == pytest.approx((mended - broken) / 42)
    assert restated.beside.p >= (restated.p or 0)
    assert found.summary["restated"].curve == pytest.approx((6 / 42, 14 / 42, 14 / 42))
    assert found.summary["fresh"].repeats == 84
    assert "14/42 33.3 %" in str(found)


def test_the_first_answer_and_equal_ones_are_generated_once() -> None:
    """All arms begin with one answer; `loop` and `auto`, which say the same, share the others, too."""
    model = ScriptedModel(bot)
    found = trial(QUESTIONS[:6], model, is_final, truth=is_good, arms="loop,auto,restated")
    assert asked(model)[1] == 6
    assert sum(asked(model).values()) == 18
    firsts = {(row.question, row.attempts[0].text) for row in found.rows}
    assert len(firsts) == 6
    assert {arm.generations for name, arm in found.summary.items() if name != "first"} == {12}


def test_a_stronger_model_is_asked_for_retries_alone() -> None:
    """The first answer is the generator's own in this arm, too."""
    weak, strong = ScriptedModel(bot), ScriptedModel(lambda _: "good final", name="strong")
    arms: list[str | Arm] = ["loop", Arm(name="stronger", generator=strong)]
    found = trial(QUESTIONS[:8], weak, is_final, truth=is_good, arms=arms)
    assert (len(weak.prompts), len(strong.prompts)) == (16, 8)
    assert found.effects["stronger"].own.mended == 6
    assert found.baseline == "first"


def test_draws_are_rows_of_one_question() -> None:
    """Each draw has a first answer of its own; intervals and tests are over questions."""
    model = ScriptedModel(bot)
    found = trial(QUESTIONS[:5], model, is_final, truth=is_good, arms="restated,fresh", draws=3)
    assert asked(model)[1] == 45  # three draws of three answers
    own = found.effects["restated"].own
    assert (own.n, own.questions) == (15, 5)


def test_seed_and_temperature_are_sent_and_differ_by_draw() -> None:
    """An endpoint gets the temperature with every request, and another seed for each question and draw."""
    with serving(lambda _: Reply(text="a")) as server:
        name = f"openai-compatible:m@{server.url}"
        trial(["q1", "q2"], name, is_final, truth=is_good, arms="loop", draws=2, temperature=0.7, max_attempts=2)
        sent = list(server.requests)
    assert {one["temperature"] for one in sent} == {0.7}
    assert len({one["seed"] for one in sent}) == len(sent) == 8


def test_what_failed_is_left_out_and_tried_again(tmp_path: Path) -> None:
    """A question whose first answer fails is in no arm, and comes in when the trial is called again."""
    broken = True

    def flaky(messages: list[BaseMessage]) -> str:
        if broken and "question 3" in str(messages[0].text):
            raise TimeoutError
        return bot(messages)

    def run() -> Trial:
        return trial(QUESTIONS[:5], flaky, is_final, truth=is_good, arms="restated", out=tmp_path / "t")

    found = run()
    assert found.failed == {(3, 0): "TimeoutError from the generator"}
    assert {row.question for row in found.rows} == {0, 1, 2, 4}
    assert "1 first answer could not be generated" in str(found)
    broken = False
    assert len(run().by_arm["first"]) == 5


def test_a_generator_that_never_answers_ends_the_trial() -> None:
    """Twenty questions in a row that fail are enough to know that the rest would, too."""
    model = ScriptedModel(lambda _: TimeoutError())
    with pytest.raises(ConfigurationError, match="none of the first 20 questions could be answered"):
        trial(QUESTIONS, model, is_final, arms="loop")
    assert len(model.prompts) < 42


def test_an_arm_that_failed_is_tried_again_if_asked(tmp_path: Path) -> None:
    """A judge that fails ends an arm, which counts as failed until `retry_failed`."""
    works = tmp_path / "works"  # a file, since what a function holds belongs to its fingerprint

    def judge(answer: str) -> Verdict:
        if not works.exists() and "final" in answer:
            raise TimeoutError
        return Verdict.checked("final" in answer, feedback="Make it final.")

    def run(**settings: Any) -> Trial:
        return trial(QUESTIONS[:4], bot, judge, truth=is_good, arms="restated", out=tmp_path / "t", **settings)

    assert run().summary["restated"].failed == 4
    works.touch()
    assert run().summary["restated"].failed == 4
    assert run(retry_failed=True).summary["restated"].failed == 0


def test_arms_may_be_added_later_and_nothing_else_changed(tmp_path: Path) -> None:
    """A new arm goes on from the answers that are there; other questions are refused."""
    model = ScriptedModel(bot)
    out = tmp_path / "t"
    trial(QUESTIONS[:6], model, is_final, truth=is_good, arms="restated", out=out)
    before = len(model.prompts)
    found = trial(QUESTIONS[:6], model, is_final, truth=is_good, arms="restated,fresh", out=out)
    assert len(model.prompts) == before + 12
    assert found.arms == ("first", "restated", "fresh")
    with pytest.raises(ConfigurationError, match=r"changed since .+ the questions"):
        trial(QUESTIONS[:5], model, is_final, truth=is_good, arms="restated,fresh", out=out)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"truth": is_final}, "the loop's own judge 'is_final', which would mark its own work"),
        ({"truth": as_judge(is_final, name="truth")}, "would mark its own work"),
        ({"truth": Panel([is_final])}, "would mark its own work"),
        ({"arms": [Arm(name="first", augment="fresh"), "loop"]}, "'first' is the first answer alone"),
        *(({"arms": [Arm(name=name)]}, "the name of an arm") for name in ("=a", " a", "a\r", "\ud800", "a" * 61)),
        ({"arms": "restate"}, "'restate' is no arm of a trial; did you mean 'restated'"),
        ({"arms": "stronger="}, "names a model"),
        ({"arms": "first"}, "compares 'first' with other arms"),
        ({"arms": "loop,loop"}, "two arms are called 'loop'"),
        ({"baseline": "fresh", "arms": "loop"}, "none of the arms first, loop"),
        ({"max_attempts": 1}, "max_attempts is a whole number from 2"),
        ({"candidates": 2}, "loop of one candidate"),
        ({"draws": 0}, "draws is a whole number from 1"),
        ({"questions": []}, "there are no questions"),
        ({"questions": [{"question": "q"}, {"answer": "a"}]}, "the row at index 1 has no question"),
        ({"out": " "}, "empty text"),
    ],
)
def test_what_cannot_be_tried_is_refused_in_one_line(settings: dict[str, Any], error: str) -> None:
    """Each refusal says what was given and what to do, before any model is asked."""
    model = ScriptedModel(bot)
    given = {"questions": QUESTIONS, "arms": "loop", **settings}
    with pytest.raises((ConfigurationError, BadSample), match=error) as refusal:
        trial(given.pop("questions"), model, is_final, **given)
    assert "\n" not in str(refusal.value)
    assert model.prompts == []


# The command line


def script(request: Asked) -> Reply:
    """Reply with what the length of the conversation decides, always the same."""
    text = "".join(str(message["content"]) for message in request["messages"])
    return Reply(text=" ".join(["word"] * (1 + hash_of(text) % 6)) + f" {hash_of(text)}", delay_s=0.002)


def hash_of(text: str) -> int:
    """Return a number that is the same in every process."""
    return sum(place * ord(letter) for place, letter in enumerate(text, 1)) % 9973


def command(questions: Path, out: Path, url: str, *more: object) -> list[object]:
    """Return the command of a trial whose judge and truth count words."""
    loop = ["--generator", f"openai-compatible:m@{url}", "--judge", "length:at_most=3,unit=words"]
    truth = ["--truth", "length:at_most=4,unit=words,name=truth", "--arms", "loop,restated,fresh"]
    return ["trial", questions, *loop, *truth, "--temperature", 0, "--max-concurrency", 3, "--out", out, *more]


def questions_file(path: Path, number: int) -> Path:
    """Write questions."""
    path.write_text("".join(f'{{"question": "question {i}?"}}\n' for i in range(number)))
    return path


def test_kills_lose_nothing_and_change_no_byte(tmp_path: Path) -> None:
    """Killed again and again and resumed, a trial at temperature 0 has the bytes of one that was not."""
    questions, chance, run = questions_file(tmp_path / "q.jsonl", 24), random.Random(3), tmp_path / "killed"
    with serving(script) as server:
        assert refine(*command(questions, tmp_path / "whole", server.url)).exit_code == 0
        once = len(server.requests)
        server.requests.clear()
        lines = (tmp_path / "whole" / "journal.jsonl").read_bytes().count(b"\n")
        kills = sum(
            killed(
                ["resume", run, "--max-concurrency", 3] if number else command(questions, run, server.url),
                run / "journal.jsonl",
                chance.randint(1, lines // 12),
            )
            for number in range(6)
        )
        assert refine("resume", run).exit_code == 0
        assert kills >= 4  # fewer than 6 where one writes on for long before it is killed
        assert once <= len(server.requests) <= once + 3 * kills
    for name in ("results.jsonl", "summary.json"):
        assert (run / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (run / "lock").exists()


def test_a_trial_is_shown_and_reported(tmp_path: Path) -> None:
    """`show` prints the table again, also as JSON; a report of it is one document."""
    questions, out = questions_file(tmp_path / "q.jsonl", 12), tmp_path / "t"
    with serving(script) as server:
        done = refine(*command(questions, out, server.url))
    assert done.exit_code == 0, done.output
    assert refine("show", out).stdout == done.stdout
    shown = json.loads(refine("show", out, "--json").stdout)
    assert shown["arms"]["restated"]["n"] == 12
    assert "--slice" in line_of(refine("show", out, "--slice", "topic"))
    for form in ("html", "md"):
        report = tmp_path / f"report.{form}"
        assert refine("report", out, "--out", report).exit_code == 0
        assert "restated" in report.read_text()


def test_the_worst_questions_are_named_the_broken_ones_first(tmp_path: Path) -> None:
    """What an arm broke stands before what it left bad, with both answers and the judge's word, in `show` too."""
    out = tmp_path / "t"
    found = trial(QUESTIONS, ScriptedModel(bot), is_final, truth=is_good, arms="restated,fresh", out=out)
    assert Counter((one.fate, one.arms) for one in found.worst) == {
        ("broken", ("restated",)): 4,
        ("not mended", ("restated", "fresh")): 24,
        ("not mended", ("fresh",)): 12,
    }
    broken = found.worst[0]
    assert (broken.fate, broken.text) == ("broken", "question 7")
    assert (broken.first, broken.feedback, broken.released) == ("good draft 7", "Make it final.", "poor final 7")
    assert Trial.read(tmp_path / "t").worst == found.worst
    shown = refine("show", tmp_path / "t").stdout
    assert "broken by restated: question 7" in shown
    assert "35 more ended badly" in shown


def test_a_limit_of_an_arm_ends_the_trial_and_says_so(tmp_path: Path) -> None:
    """No question begins once an arm has made so many calls; with more the trial goes on where it was."""
    settings: dict[str, Any] = {"truth": is_good, "arms": "restated", "out": tmp_path / "t", "max_concurrency": 1}
    model = ScriptedModel(bot)
    stopped = trial(QUESTIONS, model, is_final, **settings, max_arm_calls=5)
    assert len(model.prompts) == 6
    assert len(stopped.by_arm["restated"]) == 3
    assert stopped.stopped == "the arm 'restated' has made 6 model calls, of at most 5"
    assert f"Stopped: {stopped.stopped}" in refine("show", tmp_path / "t").stdout
    assert trial(QUESTIONS, model, is_final, **settings, max_arm_calls=5).stopped
    assert len(model.prompts) == 6
    whole = trial(QUESTIONS, model, is_final, **settings)
    assert (len(whole.by_arm["restated"]), whole.stopped, len(model.prompts)) == (42, "", 84)
    with pytest.raises(ConfigurationError, match="max_arm_calls is a whole number from 1"):
        trial(QUESTIONS, model, is_final, **settings, max_arm_calls=0)


def test_people_may_say_afterwards_what_is_good(tmp_path: Path) -> None:
    """Without a truth every different answer is written once to be labelled; labels then make the table."""
    questions, out = questions_file(tmp_path / "q.jsonl", 12), tmp_path / "t"
    with serving(script) as server:
        words = command(questions, out, server.url)
        place = words.index("--truth")
        done = refine(*words[:place], *words[place + 2 :])
    assert done.exit_code == 0, done.output
    assert f"refine label {out / 'answers.jsonl'}" in done.stdout
    answers = [json.loads(line) for line in (out / "answers.jsonl").read_text().splitlines()]
    texts = [(answer["user_input"], answer["response"]) for answer in answers]
    assert len(set(texts)) == len(texts)
    labels = [
        {"by": "ann", "rating": 4 if len(answer.split()) <= 4 else 1, "user_input": question, "response": answer}
        for question, answer in texts
    ]
    (out / "answers.labels.jsonl").write_text(f"{json.dumps(labels[0])}\n")
    half = refine("show", out).stdout
    assert f"Not known to be good or bad: {len(texts) - 1} answers; what needs one is left out." in half
    assert f"refine label {out / 'answers.jsonl'}" in half
    (out / "answers.labels.jsonl").write_text("".join(f"{json.dumps(label)}\n" for label in labels))
    labelled = json.loads(refine("show", out, "--json").stdout)
    with serving(script) as server:
        assert refine(*command(questions, tmp_path / "ruled", server.url)).exit_code == 0
    assert labelled == json.loads((tmp_path / "ruled" / "summary.json").read_text())


def test_a_function_that_a_module_of_ones_own_lacks_is_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is misspelt was taken for the model of a provider."""
    monkeypatch.chdir(tmp_path)
    Path("mistyped_bots.py").write_text("def bot(messages):\n    return 'a'\n")
    questions = questions_file(tmp_path / "q.jsonl", 1)
    result = refine("trial", questions, "--judge", "json", "--generator", "mistyped_bots:bott", "--out", "t")
    assert "'mistyped_bots:bott': there is no such object; write module:object" in line_of(result)


def test_what_a_command_cannot_do_is_one_line(tmp_path: Path) -> None:
    """A generator that is nowhere, a folder that holds a trial of Python, and a gate are refused."""
    questions, out = questions_file(tmp_path / "q.jsonl", 1), tmp_path / "t"
    plain = ["trial", questions, "--judge", "json", "--out", out, "--generator"]
    assert "there is no such object" in line_of(refine(*plain, "tests.kit:nothing"))
    trial(QUESTIONS[:1], bot, is_final, arms="loop", out=out)
    assert "begun by trial(...) in Python" in line_of(refine("resume", out))
    assert "holds no run" in line_of(refine("show", tmp_path / "none"))


def test_the_page_about_the_measurement_has_the_figures_of_its_raw_attempts() -> None:
    """Every table of docs/benefit.md is derived again from the raw attempts, which need no model."""
    page = (Path(__file__).parents[2] / "docs" / "benefit.md").read_text(encoding="utf-8")
    measured = read_all()
    assert measured
    derived = [line for line in page_of(measured).splitlines() if line.startswith("|")]
    assert [line for line in page.splitlines() if line.startswith("|")] == derived


def has(sample: Sample, need: str) -> bool:
    """Tell whether a sample has one of the fields, or entries of its metadata, that are joined by "or"."""
    return any(getattr(sample, field, None) or sample.metadata.get(field) for field in need.split(" or "))


def test_every_judge_that_asks_a_model_has_twenty_cases() -> None:
    """Twenty or more, both sides, none twice, each with its reason, and every sample has the fields that it needs.

    What passes by a classifier is left out: its model only lists what the classifier decides.
    """
    needs = {entry.name: entry.needs for entry in catalogue() if asks_a_model(entry.name)}
    faults = []
    for name in needs.keys() - {"ragas.faithfulness_with_hhem"}:
        cases = _worked_cases(name)
        passing = sum(case.passes for case in cases) / max(len(cases), 1)
        missing = [need for need in needs[name] if not all(has(case.sample, need) for case in cases)]
        repeated = len({case.sample.model_dump_json() for case in cases}) < len(cases)
        if len(cases) < 20 or not 0.4 <= passing <= 0.6 or repeated or missing:
            faults.append((name, len(cases), passing, missing))
    assert faults == []


@pytest.mark.parametrize("name", _judges_with_cases())
def test_a_judge_takes_its_cases(name: str) -> None:
    """Each is judged, with the settings that the cases are about; a model that answers nothing has none right."""
    judge = load(name, ScriptedModel(["no JSON"], cycle=True), **settings_of_cases(name))
    trial = try_judge(judge, name=name)
    assert {case.unscored for case in trial.cases} <= {"invalid_output", ""}, trial
    assert trial.unscored >= len(trial.cases) * 3 / 4


def told(rating_of_good: int, rating_of_bad: int, wrong: int = 0) -> str:
    """Return what is said of a judge that rates good and bad answers so, and the first few the other way round."""
    pairs = [TrialPair(question=f"{number}?", good="good", bad="bad") for number in range(12)]
    samples = [case.sample for pair in pairs for case in pair.cases()][: 2 * wrong]
    asked = {sample.question for sample in samples}
    ratings = {True: rating_of_good, False: rating_of_bad}
    judge = as_judge(
        lambda sample: Verdict.rated(ratings[(sample.answer == "good") is (sample.question not in asked)]),
        name="tried",
    )
    return try_judge(judge, pairs).headline


def test_the_finding_is_one_line() -> None:
    """How many are right and what follows, or that it rates everything alike."""
    assert told(4, 1) == "tried: 24 of 24 worked cases right: use it"
    assert told(3, 2, wrong=1) == "tried: 22 of 24 worked cases right: use it"
    assert told(4, 1, wrong=3) == "tried: 18 of 24 worked cases right: use it with care"
    assert told(4, 1, wrong=4) == "tried: 16 of 24 worked cases right: do not use it"
    assert told(4, 4) == "tried: rates everything 4: do not use it"
    assert told(4, 3) == "tried: 12 of 24 worked cases right: do not use it"


def test_what_is_not_scored_is_not_right() -> None:
    """An answer without a verdict is counted, with its reason; what went wrong says why it is a case."""
    unscored = Verdict.without_score("judge_failed")
    judge, told = ScriptedJudge([unscored, 1], cycle=True), list[Progress]()
    trial = try_judge(judge, name="helpfulness", max_concurrency=1, on_progress=told.append)
    count, missing = len(told), (len(told) + 1) // 2
    ends = [(one.done, one.total, one.unscored) for one in (told[0], told[-1])]
    assert ends == [(1, count, 1), (count, count, missing)]
    assert trial.headline.startswith("scripted: ")
    assert trial.headline.endswith(f" of {count} worked cases right, {missing} not scored: do not use it")
    assert "  not scored (judge_failed), should pass (an honest abstention: the evidence lacks it): What" in str(
        trial
    )


def test_the_command(tmp_path: Path) -> None:
    """Pairs of one's own, exit codes, JSON, and a line where nothing is shipped or a row is no pair."""
    pairs = tmp_path / "pairs.jsonl"
    rows = [
        {"question": f"{n}?", "good": "three words only", "bad": "far too many words for it"} for n in range(12)
    ]
    pairs.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    judge = ("--judge", "length:at_most=3,unit=words", "--pairs", pairs)
    result = refine("try-judge", *judge)
    assert (result.exit_code, result.stdout.strip()) == (0, "length: 24 of 24 worked cases right: use it")
    assert json.loads(refine("try-judge", *judge, "--json").stdout)["right"] == 24
    assert refine("try-judge", "--judge", "length:at_most=9,unit=words", "--pairs", pairs).exit_code == 1
    assert "no cases are shipped for the judge 'length'" in line_of(refine("try-judge", *judge[:2]))
    pairs.write_text('{"question": "q?"}\n')
    assert "a pair has the texts question, good and bad" in line_of(refine("try-judge", *judge))
    assert "--check tries one judge" in line_of(refine("judges", "--check"))
    assert "asks a model" in line_of(refine("judges", "ragas.aspect_critic", "--check"))
    with pytest.raises(ConfigurationError, match="no cases are shipped"):
        try_judge(ScriptedJudge([4]))
    assert try_judge(
        ScriptedJudge([4, 1]), [TrialPair(question="q?", good="g", bad="b")], max_concurrency=1
    ).is_usable


EXAMPLE = (
    "A right answer gives a command that undoes the commit and keeps the changes, such as "
    "`git reset --soft HEAD~1`. The command is named, but not the mode that keeps the changes, so the person "
    "cannot act on it."
)
REPLY = {"rationale": EXAMPLE, "rating": 2, "feedback": "Give the exact command."}


def test_a_rationale_copied_from_the_prompt_is_no_verdict() -> None:
    """Word for word, however spaced, the model is asked once more without examples, and then it is unscored."""
    for rationale in (EXAMPLE, f" {EXAMPLE.upper()}\n"):
        model = ScriptedModel([json.dumps({**REPLY, "rationale": rationale})], cycle=True)
        verdict = load("helpfulness", model)(Sample(user_input="Do you like animals?", response="I like turtles."))
        assert (verdict.unscored, verdict.usage.calls) == ("copied_example", 2)
        assert "word for word" in verdict.detail
        assert [EXAMPLE in str(prompt) for prompt in model.prompts] == [True, False]
    mending = ScriptedModel([json.dumps(REPLY), json.dumps({**REPLY, "rationale": "No word on what was asked."})])
    asked = Sample(user_input="Do you like animals?", response="I like turtles.")
    assert load("helpfulness", mending)(asked).rating == 2
    own = ScriptedModel([json.dumps({**REPLY, "rationale": "It says nothing about what was asked."})])
    assert load("helpfulness", own)(Sample(user_input="Do you?", response="I like turtles.")).rating == 2
    same = Sample(
        user_input="How do I undo my last git commit but keep the changes?",
        response="You can use git reset. It has several modes.",
    )
    assert load("helpfulness", ScriptedModel([json.dumps(REPLY)]))(same).rating == 2
