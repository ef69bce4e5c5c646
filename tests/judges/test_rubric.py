"""`Rubric` and `Helpfulness` ask a model once, show it the evidence, and read its rating."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judges import ConfigurationError, Helpfulness, Rubric, load
from judges.testing import ScriptedModel

ROW: dict[str, Any] = {"question": "How warm is Paris?", "answer": "15 C."}
LEVELS_OF_FIVE = {1: "hostile", 2: "rude", 3: "neutral", 4: "friendly", 5: "warm"}


def reply(rating: object, rationale: str = "Because.", feedback: str = "Mend it.") -> dict[str, Any]:
    """Write a model's structured reply."""
    return {"rationale": rationale, "rating": rating, "feedback": feedback}


def asking(rating: object = 3) -> ScriptedModel:
    """Make a model that always gives this rating."""
    return ScriptedModel([reply(rating)], cycle=True)


def instructions(model: ScriptedModel) -> str:
    """Give the system message of the last question."""
    return str(model.prompts[-1][0].text)


def shown(model: ScriptedModel, place: int = -1) -> dict[str, Any]:
    """Give the data of the last question, or of another message of it, as the model sees it."""
    text = model.prompts[-1][place].text
    data: dict[str, Any] = json.loads(text[text.index("\n{\n") : text.rindex("\n}\n") + 2])
    return data


def tone(model: object, **settings: Any) -> Rubric:
    """Make a rubric of one's own."""
    return Rubric(model, **{"criteria": "Is the tone kind?", "levels": LEVELS_OF_FIVE, "name": "tone", **settings})


@pytest.mark.parametrize(("rating", "passed"), [(1, False), (2, False), (3, True), (4, True)])
async def test_helpfulness_is_rated_natively(rating: int, passed: bool) -> None:  # noqa: FBT001
    """The model's rating, reasons and advice are the verdict, sync and async, from one question each."""
    model = asking(rating)
    judge = Helpfulness(model)
    for verdict in (judge(ROW), await judge.acall(ROW)):
        assert (verdict.judge, verdict.value, verdict.rating, verdict.passed) == (
            "helpfulness",
            rating,
            rating,
            passed,
        )
        assert (verdict.rationale, verdict.feedback) == ("Because.", "Mend it.")
        assert (verdict.usage.calls, verdict.model) == (1, "scripted")
        assert verdict.rated_natively
    assert len(model.prompts) == 2


def test_the_whole_exchange_is_shown() -> None:
    """The model sees the conversation, tool calls and results, documents, reference and answer, each apart."""
    model = asking()
    Helpfulness(model)(
        messages=[
            ("system", "Be short."),
            ("user", "Hello."),
            ("assistant", "Hello!"),
            ("user", "How warm is Paris?"),
            {
                "role": "assistant",
                "tool_calls": [{"id": "c1", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}],
            },
            {"role": "tool", "tool_call_id": "c1", "name": "weather", "content": "15 C"},
            ("assistant", "15 C."),
        ],
        contexts=["Paris is mild."],
        reference="15 degrees",
    )
    assert shown(model) == {
        "conversation": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": "Hello!"},
            {"role": "user", "content": "How warm is Paris?"},
        ],
        "steps": [
            {"role": "assistant", "tool_calls": [{"name": "weather", "args": {"city": "Paris"}, "id": "c1"}]},
            {"role": "tool", "content": "15 C", "name": "weather"},
        ],
        "documents": ["Paris is mild."],
        "reference": "15 degrees",
        "answer": "15 C.",
    }


def test_only_what_is_there_is_shown() -> None:
    """Without reference, documents and steps, the model is not told of any."""
    model = asking()
    Helpfulness(model)(ROW)
    assert shown(model) == {
        "conversation": [{"role": "user", "content": "How warm is Paris?"}],
        "answer": "15 C.",
    }


@pytest.mark.parametrize("language", ["en", "zh", "ru"])
def test_the_prompt_speaks_the_language_of_the_question(language: str) -> None:
    """Each language has its own instructions, levels, example and reminder."""
    words = {
        "en": (
            "How warm is Paris?",
            "You assess",
            "Nothing that the person needs",
            "Give the exact command",
            "Assess the answer",
        ),
        "zh": ("巴黎现在多少度？", "你负责", "提问者需要的一样不缺", "请给出确切的命令", "请按照开头"),
        "ru": (
            "Сколько градусов в Париже?",
            "Ты оцениваешь",
            "Есть всё, что нужно",
            "Приведи точную команду",
            "Оцени прив",
        ),
    }
    question, *expected = words[language]
    model = asking()
    Helpfulness(model)(question=question, answer="15 C.")
    prompt = "\n".join(str(one.text) for one in model.prompts[-1])
    assert [word in prompt for word in expected] == [True] * 4
    others = [word for other, (_, *told) in words.items() if other != language for word in told]
    assert not any(word in prompt for word in others)


def test_the_language_may_be_fixed() -> None:
    """It counts more than the question's; a bare answer is judged in its own."""
    model = asking()
    Helpfulness(model, language="ru")(ROW)
    assert "Ты оцениваешь" in instructions(model)
    Helpfulness(model)(answer="今天很暖和。")
    assert "你负责" in instructions(model)


def test_own_instructions_replace_the_packaged_ones() -> None:
    """`$levels` and `$criteria` are filled in, all else stays as it is; criteria are text, whatever they hold."""
    model = asking()
    tone(model, instructions="Judge: $criteria Pay $5 {x}\n$levels")(ROW)
    assert instructions(model).startswith(
        "Judge: Is the tone kind? Pay $5 {x}\n1: hostile\n2: rude\n3: neutral\n4: friendly\n5: warm\n"
    )
    tone(model, criteria="Costs $levels or ${levels}?")(ROW)
    assert "Costs $levels or ${levels}?" in instructions(model)


def test_own_examples_replace_the_packaged_one() -> None:
    """Worked cases stand before the question in the form of a question and its reply; an empty list shows none."""
    model = asking()
    Helpfulness(model, examples=[({"question": "2+2?", "answer": "5"}, reply(1, "Wrong.", "Say 4."))])(ROW)
    roles = [one.type for one in model.prompts[-1]]
    assert roles == ["system", "human", "ai", "human"]
    assert shown(model, 1)["answer"] == "5"
    assert json.loads(str(model.prompts[-1][2].text)) == reply(1, "Wrong.", "Say 4.")
    Helpfulness(model, examples=[])(ROW)
    assert [one.type for one in model.prompts[-1]] == ["system", "human"]


def written(folder: Path, text: str, *, name: str = "helpfulness", language: str = "en") -> Path:
    """Write a prompt of one's own into a folder laid out like the package's."""
    (folder / language).mkdir(exist_ok=True)
    (folder / language / f"{name}.toml").write_text(text, encoding="utf-8")
    return folder


def test_a_folder_overrides_the_packaged_prompts(tmp_path: Path) -> None:
    """A language that the folder has is taken from it, another from the package."""
    written(tmp_path, 'task = "Mine: $levels"\nreminder = "Rate."\n[levels]\n4 = "Superb."\n')
    model = asking()
    judge = Helpfulness(model, prompts=tmp_path)
    judge(ROW)
    assert instructions(model).startswith("Mine: 1: Does not serve")
    assert "\n4: Superb." in instructions(model)
    assert str(model.prompts[-1][-1].text).endswith("\nRate.")
    judge(question="多少度？", answer="15")
    assert "你负责" in instructions(model)


def test_a_folder_is_read_once(tmp_path: Path) -> None:
    """A judge does not change under the hands of those who use it, and judging reads no file."""
    written(tmp_path, 'task = "First."\nreminder = "Rate."\n')
    model = asking()
    judge = Helpfulness(model, prompts=str(tmp_path))
    written(tmp_path, 'task = "Second."\nreminder = "Rate."\n')
    judge(ROW)
    assert instructions(model).startswith("First.")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("task = ", "is not valid TOML"),
        ('task = "x"', "a task needs a reminder"),
        ('task = "x"\nreminder = "y"\ncolour = "z"', "field 'colour'"),
        (
            'task = "x"\nreminder = "y"\n[[examples]]\ndata = {}\nreply = {rating = 7}',
            "en/helpfulness.toml: an example's reply, field 'rationale'",
        ),
    ],
)
def test_a_bad_prompt_file_is_refused_at_once(tmp_path: Path, text: str, told: str) -> None:
    """A file that cannot work is an error before anything is judged, naming its fault."""
    with pytest.raises(ConfigurationError) as caught:
        Helpfulness(asking(), prompts=written(tmp_path, text))
    assert told in str(caught.value)


@pytest.mark.parametrize("text", ["", 'reminder = "Look closely."'])
def test_what_a_file_leaves_out_comes_from_the_package(tmp_path: Path, text: str) -> None:
    """A judge without a task would judge by nothing."""
    model = asking()
    Helpfulness(model, prompts=written(tmp_path, text))(ROW)
    assert instructions(model).startswith("You assess answers")
    assert str(model.prompts[-1][-1].text).endswith("\nLook closely." if text else "as instructed at the start.")


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "rubric",
            'task = "Rate: $criterion, $levels"\nreminder = "Rate."',
            r"rubric.toml: the task must have \$criteria",
        ),
        (
            "aspect_critic",
            'task = "Judge."\nreminder = "Judge."',
            r"aspect_critic.toml: the task must have \$criteria",
        ),
        (
            "faithfulness",
            '[feedback]\nunsupported = "Wrong: $clams"',
            r"'unsupported' has \$clams; known there are \$claims",
        ),
    ],
)
def test_a_file_has_the_placeholders_of_the_package(tmp_path: Path, name: str, text: str, told: str) -> None:
    """Without them, what the user sets would not reach the model, or a phrase would show its placeholder."""
    settings: dict[str, dict[str, Any]] = {
        "rubric": {"criteria": "Kind.", "levels": {1: "rude", 2: "kind"}},
        "aspect_critic": {"definition": "Is it kind?"},
    }
    with pytest.raises(ConfigurationError, match=told):
        load(name, model=asking(), prompts=written(tmp_path, text, name=name), **settings.get(name, {}))


def test_a_prompt_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are a fault of the file; a mistyped folder is not silently ignored."""
    (written(tmp_path, "") / "en" / "helpfulness.toml").write_bytes(b'task = "\xff"')
    with pytest.raises(ConfigurationError, match="is not valid TOML"):
        Helpfulness(asking(), prompts=tmp_path)
    with pytest.raises(ConfigurationError, match="there is none at"):
        Helpfulness(asking(), prompts=tmp_path / "missing")


@pytest.mark.parametrize("success_rating", [1, 2, 3, 4])
def test_helpfulness_passes_from_its_success_rating(success_rating: int) -> None:
    """The pass mark is the judge's own; the gate of the loop counts for the loop."""
    verdict = Helpfulness(asking(3), success_rating=success_rating)(ROW)
    assert verdict.passed is (success_rating <= 3)
    assert verdict.reaches(3)


THREE = {0: "no", 1: "partly", 2: "yes"}


@pytest.mark.parametrize(
    ("levels", "level", "score", "rating", "passed"),
    [
        (LEVELS_OF_FIVE, 1, 0, 1, False),
        (LEVELS_OF_FIVE, 2, 0.25, 2, False),
        (LEVELS_OF_FIVE, 3, 0.5, 3, False),
        (LEVELS_OF_FIVE, 4, 0.75, 3, True),
        (LEVELS_OF_FIVE, 5, 1, 4, True),
        (THREE, 0, 0, 1, False),
        (THREE, 1, 0.5, 3, False),
        (THREE, 2, 1, 4, True),
        ({"1": "a", "2": "b"}, 2, 1, 4, True),
    ],
)
def test_levels_are_mapped(levels: Any, level: int, score: float, rating: int, *, passed: bool) -> None:
    """They keep their number as value, and pass from 4 of 5 or 2 of 0 to 2 alone; JSON has texts for keys."""
    verdict = tone(asking(level), levels=levels)(ROW)
    assert (verdict.value, verdict.score, verdict.rating, verdict.passed) == (level, score, rating, passed)
    assert verdict.reaches(3) is passed


def test_a_rubric_passes_from_its_success_rating() -> None:
    """The mark is one of the levels; levels 1 to 4 are native, in whatever order they are written."""
    assert [tone(asking(3), success_rating=mark)(ROW).passed for mark in (3, 4)] == [True, False]
    verdict = tone(asking(3), levels={4: "d", 2: "b", 3: "c", 1: "a"})(ROW)
    assert (verdict.rated_natively, verdict.passed) == (True, True)


@pytest.mark.parametrize("rating", [0, 6, 3.0, "3", True, None])
def test_a_rating_outside_the_levels_is_no_rating(rating: object) -> None:
    """A level that was not offered is never clamped: the model is told once, and heard if it corrects itself."""
    model = ScriptedModel([reply(rating)] * 2)
    verdict = tone(model)(ROW)
    assert (verdict.unscored, verdict.rating) == ("invalid_output", None)
    assert len(model.prompts) == 2
    verdict = tone(ScriptedModel([reply(rating), reply(5)]))(ROW)
    assert (verdict.value, verdict.usage.calls) == (5, 2)


@pytest.mark.parametrize("row", [{"question": "Why?"}, {"answer": ""}, {"question": "Why?", "answer": " \n"}])
async def test_without_an_answer_no_model_is_asked(row: dict[str, str]) -> None:
    """A missing or blank answer is unscored, `no_response`, and costs nothing."""
    judge = Helpfulness(ScriptedModel([]))
    assert [judge(row).unscored, (await judge.acall(row)).unscored] == ["no_response", "no_response"]


def test_the_model_is_known_to_others() -> None:
    """A loop can see which model a judge asks."""
    model = asking()
    assert [one.is_model(model) for one in tone(model).models] == [True]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"levels": {1: "a"}}, "levels maps at least two whole numbers"),
        ({"levels": {}}, "levels maps at least two whole numbers"),
        ({"levels": {1: "a", "b": "b"}}, "levels maps at least two whole numbers"),
        ({"levels": {1: "a", "1": "b"}}, "levels maps at least two whole numbers"),
        ({"levels": {1: "a", 2.0: "b"}}, "levels maps at least two whole numbers"),
        ({"levels": ["a", "b"]}, "levels maps at least two whole numbers"),
        ({"success_rating": 6}, "success_rating is one of 1, 2, 3, 4, 5, not 6"),
        ({"success_rating": 3.0}, "success_rating is a whole number, not 3.0"),
        ({"language": "fr"}, "'tone' has no fr/rubric.toml; known are en, zh, ru"),
        ({"examples": [(ROW, reply(9))]}, "example of 'tone', reply, field 'rating'"),
        ({"examples": [(ROW, {"rating": 3})]}, "example of 'tone', reply, field 'rationale'"),
        ({"examples": [({"answer": 5}, reply(3))]}, "example of 'tone': field 'answer'"),
    ],
)
def test_a_rubric_set_up_wrongly_is_refused(settings: dict[str, Any], told: str) -> None:
    """A setting that cannot work is an error at once, naming it."""
    with pytest.raises(ConfigurationError) as caught:
        tone(asking(), **settings)
    assert told in str(caught.value)


def test_rules_of_the_sample_are_part_of_the_criterion_where_it_is_so_set_up() -> None:
    """The model is shown them as data, and told to judge by them; by default they are left aside."""
    levels, reply = {1: "no", 2: "yes"}, {"rationale": "r", "rating": 1, "feedback": "f"}
    fields: dict[str, Any] = {
        "user_input": "How do I boil an egg?",
        "response": "Ten minutes.",
        "guidelines": "Be kind.",
    }
    for own in (True, False):
        model = ScriptedModel([reply, reply])
        judge = Rubric(model, criteria="Is it right?", levels=levels, own_guidelines=own)
        judge(**fields)
        task, data = model.prompts[0][0].text, model.prompts[0][-1].text
        assert ("`guidelines`" in task, "Be kind." in data) == (own, own)
        assert "Be kind." not in task
        assert judge.explain().reads == (("guidelines",) if own else ())
        judge(user_input="How?", response="So.")
        assert "guidelines" not in model.prompts[1][-1].text
