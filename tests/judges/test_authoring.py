"""A judge of one's own from another package: its prompts and feedback come along, and its bugs are found."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pytest
from langchain.agents.middleware import AgentMiddleware
from pydantic import BaseModel

import judges.authoring
from judges import ConfigurationError, Panel, as_judge
from judges.authoring import (
    Deliberation,
    Entry,
    Judge,
    Metric,
    ModelJudge,
    Question,
    ReplySchema,
    Sample,
    Verdict,
    answer_in,
)
from judges.catalogue.parts.claims import CLAIMS
from judges.offline import aevaluate, evaluate
from judges.testing import ScriptedModel, raising
from refine import SelfRefine

ASKED = {"en": "How are you?", "ru": "Как дела?", "zh": "你好吗？"}


class Clear(ReplySchema):
    """Whether a text is clear."""

    clear: bool


CLEAR = Question(prompt="clarity", reply=Clear)


class Clarity(ModelJudge):
    """A judge with packs of its own; a test sets their folder on a subclass."""

    entry = Entry(name="mine.clarity", asks="Is the answer clear?", needs=("response",), calls="1")
    pack: ClassVar[str] = "clarity"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask one question."""
        reply = yield from self.ask(CLEAR, sample, {"answer": answer_in(sample)})
        feedback = "" if reply.clear else self.say("unclear", sample, word="x")
        return Verdict.checked(reply.clear, feedback=feedback)


def clarity(folder: Path, model: ScriptedModel, *questions: Question[Clear], **settings: str | Path) -> Clarity:
    """Make a judge whose packs stand in a folder."""
    kind = type("Mine", (Clarity,), {"pack_folder": folder})
    judge = kind(model, questions=questions or (CLEAR,), **settings)
    assert isinstance(judge, Clarity)
    return judge


def write(folder: Path, texts: Mapping[str, str], *, name: str = "clarity") -> Path:
    """Write a pack: for each language the sentence of its task and of its feedback."""
    for language, text in texts.items():
        file = folder / language / f"{name}.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            f'task = "{text}?"\nreminder = "!"\n[feedback]\nunclear = "{text}: $word"\n', encoding="utf-8"
        )
    return folder


@pytest.fixture
def model() -> ScriptedModel:
    """Make a model that finds every answer unclear."""
    return ScriptedModel([{"clear": False}], cycle=True)


@pytest.mark.parametrize(("language", "text"), [("en", "Unclear"), ("ru", "Неясно"), ("zh", "Unclear")])
def test_a_judge_brings_its_own_packs(language: str, text: str, tmp_path: Path, model: ScriptedModel) -> None:
    """Prompt and feedback are in the language of the question, in English where the judge has no such pack."""
    judge = clarity(write(tmp_path, {"en": "Unclear", "ru": "Неясно"}), model)
    assert judge(question=ASKED[language], answer="Hm, fine").feedback == f"{text}: x"
    assert model.prompts[0][0].text.startswith(f"{text}?")
    assert judge.explain().prompts == {"clarity": "Unclear?"}


def test_a_users_folder_goes_before_the_authors(tmp_path: Path, model: ScriptedModel) -> None:
    """What its file leaves out is the author's, as other languages are; `adapt` writes a translation into it."""
    author = write(tmp_path / "author", {"en": "Unclear", "ru": "Неясно"})
    (tmp_path / "user" / "en").mkdir(parents=True)
    (tmp_path / "user/en/clarity.toml").write_text('[feedback]\nunclear = "Say $word."\n', encoding="utf-8")
    judge = clarity(author, model, prompts=tmp_path / "user")
    assert judge(question=ASKED["en"], answer="Hm, fine").feedback == "Say x."
    assert model.prompts[0][0].text.startswith("Unclear?")
    assert judge(question=ASKED["ru"], answer="Hm, fine").feedback == "Неясно: x"
    plain = clarity(author, model)
    items = [{"number": number, "text": f"<{text}>"} for number, text in enumerate(plain.packs[0].texts(), 1)]
    adapted = plain.adapt("de", ScriptedModel([{"items": items}]), folder=tmp_path / "german")
    assert adapted(question=ASKED["en"], answer="Hm, fine").feedback == "<Unclear: x>"


def test_an_authors_pack_hides_a_packaged_one_of_the_same_name(tmp_path: Path, model: ScriptedModel) -> None:
    """Only the author's files count for a prompt that they have, in every language; other prompts are packaged."""
    own = write(tmp_path, {"en": "Unclear"})
    write(own, {"en": "Mine"}, name="claims")
    judge = clarity(own, model, CLEAR, Question(prompt="claims", reply=Clear, examples=()))
    assert judge.explain().prompts == {"clarity": "Unclear?", "claims": "Mine?"}
    packaged = clarity(write(tmp_path / "other", {"en": "Unclear"}), model, CLEAR, CLAIMS)  # type: ignore[arg-type]  # of other replies
    assert packaged.explain().prompts["claims"].startswith("You break a text into claims.")


def test_a_language_is_the_judges_own_or_refused(tmp_path: Path, model: ScriptedModel) -> None:
    """A language that is set needs a pack: any code will do, and the known ones are listed."""
    own = write(tmp_path, {"en": "Unclear", "de": "Unklar"})
    assert clarity(own, model, language="de")(question=ASKED["en"], answer="Hm, fine").feedback == "Unklar: x"
    with pytest.raises(ConfigurationError, match=r"has no zh/clarity.toml; known are en, de\. Write one"):
        clarity(own, model, language="zh")


def test_a_pack_without_english_is_refused(tmp_path: Path, model: ScriptedModel) -> None:
    """English stands in for missing languages, so it must be there; so must the folder itself."""
    with pytest.raises(ConfigurationError, match=r"there is no '.*clarity.toml'; .* in English too"):
        clarity(write(tmp_path, {"ru": "Неясно"}), model)
    with pytest.raises(ConfigurationError, match=r"pack_folder is a folder laid out like en/clarity.toml"):
        clarity(tmp_path / "none", model)


def test_the_public_names_are_there() -> None:
    """Each listed name resolves, and the list is sorted; only a judge from outside sets `pack_folder`."""
    assert judges.authoring.__all__ == sorted(judges.authoring.__all__)
    assert all(hasattr(judges.authoring, name) for name in judges.authoring.__all__)
    assert Metric.pack_folder is None


class _Plain(Judge):
    name = "plain"

    def deliberate(self, sample: Sample) -> Deliberation:
        del sample
        yield from ()
        return Verdict.checked(passed=True, judge=self.name)


class _Limited(Protocol):
    limit: int


class _ShortEnough(Judge, BaseModel):
    limit: int = 5
    name: str = "short_enough"

    def deliberate(self, sample: Sample) -> Deliberation:
        yield from ()
        return Verdict.checked(len(answer_in(sample)) <= self.limit, judge=self.name)


class _Declared(_Plain, _Limited):
    limit = 3


class _InAnAgent(_Plain, AgentMiddleware):
    pass


def test_a_judge_may_have_other_bases() -> None:
    """Such as a pydantic model, a protocol, or a middleware, whose classes have classes of their own."""
    judge = _ShortEnough(limit=3)
    assert [judge(answer=answer).passed for answer in ("Yes", "Never")] == [True, False]
    assert _Declared().limit == 3
    assert _InAnAgent.wrap_tool_call is AgentMiddleware.wrap_tool_call
    with pytest.raises(AttributeError, match=r"middleware=\[SelfRefineMiddleware\(judge\)\]"):
        _ = Metric.wrap_tool_call  # type: ignore[attr-defined]  # a guess


ANSWER = "the judged text"


class Broken(Judge):
    """A judge with a bug, which quotes the answer in its error."""

    name = "broken"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Fail before anything is asked."""
        yield from ()
        raise KeyError(sample.answer)


def broken_function(answer: str) -> bool:
    """Fail in a function that is used as a judge."""
    known: dict[str, bool] = {}
    return known[answer]


@pytest.fixture(params=["judge", "function"])
def judge(request: pytest.FixtureRequest) -> Judge:
    """Give a judge with a bug: a class, or a function."""
    return Broken() if request.param == "judge" else as_judge(broken_function)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Listen to everything that judges log."""
    with caplog.at_level(logging.DEBUG, "judges"):
        yield caplog


def lines(log: pytest.LogCaptureFixture, level: int) -> list[str]:
    """List what was logged on a level."""
    return [record.getMessage() for record in log.records if (record.name, record.levelno) == ("judges", level)]


def test_kind_and_place_are_a_warning(judge: Judge, log: pytest.LogCaptureFixture) -> None:
    """The WARNING names error, judge and line, and the DEBUG line has the traceback, both without texts."""
    verdict = judge(answer=ANSWER)
    (warning,), (traceback,) = lines(log, logging.WARNING), lines(log, logging.DEBUG)
    assert (verdict.unscored, verdict.detail) == ("judge_failed", warning.partition(" (")[0])
    assert warning.startswith("KeyError in ")
    assert "test_authoring.py:" in warning
    assert 'File "' in traceback
    assert ANSWER not in warning + traceback + verdict.detail


def test_causes_are_in_the_traceback(log: pytest.LogCaptureFixture) -> None:
    """An error that another one led to is logged with both, and without what either says."""

    def chained(answer: str) -> bool:
        try:
            return broken_function(answer)
        except KeyError as error:
            raise ValueError(f"cannot judge {answer}") from error

    as_judge(chained)(answer=ANSWER)
    (traceback,) = lines(log, logging.DEBUG)
    assert traceback.index("KeyError") < traceback.index("which led to") < traceback.rindex("ValueError")
    assert ANSWER not in traceback


def test_the_loop_logs_texts_only_on_request(judge: Judge, log: pytest.LogCaptureFixture) -> None:
    """In the loop the answer goes out, the fault is logged, and texts are quoted under `log_texts` alone."""
    for log_texts in (False, True):
        log.clear()
        refiner = SelfRefine(ScriptedModel([ANSWER]), judge, log_texts=log_texts)
        assert refiner.invoke("What?").text == ANSWER
        (warning,), (traceback,) = lines(log, logging.WARNING), lines(log, logging.DEBUG)
        assert (ANSWER in warning, ANSWER in traceback) == (log_texts, log_texts)


@pytest.mark.parametrize("log_texts", [False, True])
async def test_an_evaluation_warns_once(judge: Judge, log: pytest.LogCaptureFixture, *, log_texts: bool) -> None:
    """However many rows a fault meets there is one WARNING, and a traceback for each row."""
    rows = [{"answer": f"{ANSWER} {number}"} for number in range(20)]
    for evaluation in (
        evaluate(rows, judge, log_texts=log_texts),
        await aevaluate(rows, judge, log_texts=log_texts),
    ):
        assert evaluation.summary[judge.name].unscored == {"judge_failed": 20}
    warnings, tracebacks = lines(log, logging.WARNING), lines(log, logging.DEBUG)
    assert (len(warnings), len(tracebacks)) == (2, 40)
    assert any(ANSWER in line for line in warnings + tracebacks) is log_texts


def test_raising_lets_the_error_through(judge: Judge) -> None:
    """Within `raising()` the error itself comes out: of a judge, a panel, the loop and an evaluation."""
    calls: list[Any] = [
        lambda: judge(answer=ANSWER),
        lambda: Panel([judge, as_judge(lambda answer: True, name="fine")])(answer=ANSWER),
        lambda: SelfRefine(ScriptedModel([ANSWER]), judge).invoke("What?"),
        lambda: evaluate([{"answer": ANSWER}], judge),
    ]
    for call in calls:
        with raising(), pytest.raises(KeyError):
            call()


def test_a_failure_that_is_no_bug_is_not_logged(log: pytest.LogCaptureFixture) -> None:
    """A judge that says it cannot judge, or a verdict that is plainly bad, is no fault."""
    as_judge(lambda answer: False)(answer="bad")
    Panel([as_judge(lambda answer: Verdict.without_score("no_claims"), name="silent")])(answer="x")
    assert log.records == []
