"""The prompt packs of all languages say the same; adapting translates them once, for people to review."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage

import judges
from judges import AskFailed, ConfigurationError, Helpfulness, Rubric, load
from judges.catalogue.ragas.faithfulness import Faithfulness
from judges.prompting.prompts import LANGUAGES, Example, Language, Prompt, language_of, prompt
from judges.prompting.translation import to_toml
from judges.testing import ScriptedModel
from tests.kit import Way, both_ways
from tests.laws import for_every

PACKS = Path(judges.__file__).parent / "packs"
FILES = sorted(PACKS.glob("en/*.toml"))
TRANSLATED = [(language, file.stem) for language in LANGUAGES if language != "en" for file in FILES]
CLOSED = re.compile(r"[a-z_]+|[\d.,:/ -]+")
"""Words of a closed set, as they stand in replies and data (`supported`, `user`), and numbers."""

SCRIPT = {"zh": re.compile(r"[\u4e00-\u9fff]"), "ru": re.compile(r"[а-яё]")}

every_file = for_every("file", sorted(PACKS.glob("*/*.toml")))
translations = for_every("language, name", TRANSLATED)


def placeholders(text: str) -> list[str]:
    """List the `$name` placeholders of a text."""
    return sorted(re.findall(r"\$\w+", text))


def test_every_language_has_the_same_files() -> None:
    """No judge is without a prompt in one of the languages."""
    names = {language: sorted(one.name for one in (PACKS / language).iterdir()) for language in LANGUAGES}
    assert {one.name for one in PACKS.iterdir()} == set(LANGUAGES)
    assert names["en"]
    assert all(found == names["en"] for found in names.values())


def shape(value: object, phrases: Collection[str]) -> object:
    """Give the structure of JSON: names, kinds, numbers and the closed words, without texts and phrases."""
    if isinstance(value, dict):
        return {name: shape(member, phrases) for name, member in value.items()}
    if isinstance(value, list):
        return [shape(member, phrases) for member in value]
    is_text = isinstance(value, str) and value and (value in phrases or not CLOSED.fullmatch(value))
    return "text" if is_text else value


def shapes(pack: Prompt, other: Prompt) -> list[object]:
    """Give the structure of each worked example; a phrase that `other` has as it is, is a word of a closed set."""
    closed = set(re.findall(r'"([a-z_]+)"', " ".join(example.model_dump_json() for example in other.examples)))
    phrases = {phrase for phrase in pack.feedback.values() if phrase not in closed}
    return [shape(example.model_dump(), phrases) for example in pack.examples]


BESIDE = {"$code"}
"""Where a language has an English name alone, other languages say its code, too."""


@translations
def test_translations_have_the_same_parts(language: Language, name: str) -> None:
    """Placeholders, fields named in backquotes, levels, phrases and examples are those of the English file."""
    english, other = prompt(name, "en"), prompt(name, language)
    assert placeholders(other.task) == placeholders(english.task)
    assert set(re.findall(r"`[\w-]+`", other.task)) == set(re.findall(r"`[\w-]+`", english.task))
    assert list(other.levels) == list(english.levels)
    assert shapes(other, english) == shapes(english, other)
    assert len(other.task.splitlines()) == len(english.task.splitlines())
    assert {key: {*placeholders(text)} - BESIDE for key, text in other.feedback.items()} == {
        key: {*placeholders(text)} - BESIDE for key, text in english.feedback.items()
    }


@translations
def test_translations_are_in_their_language(language: Language, name: str) -> None:
    """Task, reminder, levels and phrases are translated, not copied."""
    text = prompt(name, language)
    told = [text.task, text.reminder, *text.levels.values(), *text.feedback.values()]
    assert all(SCRIPT[language].search(one) for one in told if one)
    assert not text.task or language_of(text.task) == language


@every_file
def test_a_pack_is_written_in_plain_characters(file: Path) -> None:
    """Other scripts stand in the files as people read them, never as escapes, and no blank ends a line."""
    content = file.read_text(encoding="utf-8")
    assert "\\u" not in content
    assert not re.search(r"[ \t]+$", content, re.MULTILINE)
    assert content.endswith("\n")


@every_file
def test_a_file_asks_or_says_something(file: Path) -> None:
    """A task with its reminder and examples, or feedback, or both; no continued line leaves or doubles a blank."""
    text = Prompt.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    assert not re.search(r"[\u4e00-\u9fff。，；] +[\u4e00-\u9fff]", text.task)
    assert "  " not in text.task
    assert bool(text.task) == bool(text.reminder)
    assert text.task or text.feedback
    # no case is true for every criterion, for all tools, or for all judges that are tuned
    has_none = re.match("(rubric|looking)$|tune_", file.stem) is not None
    assert bool(text.task) == bool(text.examples) or has_none


def test_placeholders_are_filled_and_the_rest_stays() -> None:
    """Only known `$name`s are replaced; braces, percent signs and other dollars mean nothing."""
    text = Prompt(task="$who: {who} %s $5 $other ${who}", reminder="Remember.")
    assert text.fill_task(who="I $who") == "I $who: {who} %s $5 $other I $who"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("How warm is it?", "en"),
        ("现在多少度？", "zh"),
        ("Сколько градусов?", "ru"),
        ("如何用 git reset 撤销提交？", "zh"),
        ("Что делает git rebase?", "ru"),
        ("What does 你好 mean in English?", "en"),
        ("", "en"),
        ("42 + 1 = ?", "en"),
        ("Ça va bien ?", "en"),
        ("今日の天気はどうですか？", "en"),
        ("鸡の翅怎么做？", "zh"),
    ],
)
def test_the_script_tells_the_language(text: str, language: str) -> None:
    """The script of most letters decides, a Chinese character counting as two; none means English."""
    assert language_of(text) == language


@given(st.text())
def test_any_text_calls_for_a_pack_there_is(text: str) -> None:
    """No text is without a language."""
    assert language_of(text) in LANGUAGES


def test_an_unknown_prompt_is_refused() -> None:
    """The error names the prompt, the language and what is known."""
    with pytest.raises(ConfigurationError, match="there is no prompt 'poetry' in language 'ru'"):
        prompt("poetry", "ru")


AGAINST = {"en": "counts against", "zh": "不利", "ru": "говорит против"}
NO_FAULT = {"en": "no fault of", "zh": "也不是回答的过错", "ru": "не вина"}
ORDERS = {
    "en": "tells you|asks for a certain|obey nothing|no instruction|addressed to you|Carry out no|is said of",
    "zh": "指示|要求你如何|要求某个|对你说|服从|照做|执行|关于这份清单",
    "ru": "подсказыва|указывает тебе|просит о как|Не выполняй|не указани|не подчиняйся|обращено к|сказано об",
}


@every_file
def test_only_orders_in_the_answer_count_against_it(file: Path) -> None:
    """Each question says what text means that orders a reply: a fault in the answer, in other data none."""
    language = file.parent.name
    task = prompt(file.stem, language).task
    assert not task or re.search(ORDERS[language], task)
    sentences = [one for one in re.split(r"(?<=[.。])\s*|\n", task) if AGAINST[language] in one]
    places = ("`answer`", "`first`", "`second`", "candidate", "候选", "вариант")
    assert [one for one in sentences if not any(place in one for place in places)] == []
    assert bool(sentences) <= (NO_FAULT[language] in task or file.stem == "ranking")
    english = prompt(file.stem, "en").task
    assert (NO_FAULT[language] in task) == (NO_FAULT["en"] in english)


KEPT = re.compile(r"(\$\w+|`[^`\n]+`)")

Items = list[dict[str, Any]]


def german(text: str) -> str:
    """Translate, in a manner of speaking: a mark in front, all else in capitals, what must stay kept."""
    shouted = "".join(part if KEPT.fullmatch(part) else part.upper() for part in KEPT.split(text))
    return f"Ü {shouted}"


def texts_in(messages: list[BaseMessage]) -> Items:
    """Give the numbered texts of the last question."""
    text = next(one.text for one in reversed(messages) if "\n<<<" in one.text)
    data = json.loads(text[text.index("\n{\n") : text.rindex("\n}\n") + 2])
    assert data["language"] == "de"
    found: Items = data["texts"]
    return found


def translating(spoil: Callable[[Items], Items] = lambda items: items, *, times: int = 99) -> ScriptedModel:
    """Make a model that translates; its first replies, `times` of them, are spoilt."""
    left = iter(range(times))

    def reply(messages: list[BaseMessage]) -> dict[str, Items]:
        items = [{"number": one["number"], "text": german(one["text"])} for one in texts_in(messages)]
        return {"items": items if next(left, None) is None else spoil(items)}

    return ScriptedModel(reply)


async def adapted(judge: Any, model: ScriptedModel, folder: Path, way: Way = "sync", **settings: Any) -> Any:
    """Adapt a judge to German."""
    if way == "sync":
        return judge.adapt("de", model, folder=folder, **settings)
    return await judge.aadapt("de", model, folder=folder, **settings)


def faithfulness(model: object = "a:b", **settings: Any) -> Faithfulness:
    """Make the judge that is adapted."""
    return Faithfulness(model, **settings)


def seen_by(judge: Callable[[ScriptedModel], Any]) -> str:
    """Give the system message of a judge's first question."""
    model = ScriptedModel([ValueError()], cycle=True)
    judge(model)(user_input="How?", response="So.", retrieved_contexts=["c"])
    return model.prompts[0][0].text


@both_ways
async def test_every_file_of_a_judge_is_translated(way: Way, tmp_path: Path) -> None:
    """One call for each, questions and phrases alike, each text once; it lies in the language's folder."""
    model = translating()
    await adapted(faithfulness(), model, tmp_path, way)
    files = sorted(one.name for one in (tmp_path / "de").iterdir())
    assert files == ["claims.toml", "faithfulness.toml", "support.toml"]
    assert len(model.prompts) == 3
    for messages in model.prompts:
        texts = [one["text"] for one in texts_in(messages)]
        assert len(texts) == len(set(texts))


@both_ways
async def test_a_new_judge_speaks_the_language(way: Way, tmp_path: Path) -> None:
    """It is of the same kind, also where the question is in another; the judge that is adapted stays as it is."""
    first = faithfulness(threshold=0.7)
    before = first.explain()
    judge = await adapted(first, translating(), tmp_path, way)
    assert type(judge) is Faithfulness
    assert judge.threshold == 0.7
    assert judge.explain().prompts["claims"].startswith("Ü YOU BREAK A TEXT")
    assert judge.say("unsupported", judges.Sample(user_input="这是什么？"), claims="- x").startswith("Ü NOTHING")
    assert first.explain() == before
    assert first.say("unsupported", judges.Sample(user_input="这是什么？"), claims="").startswith("以下")


async def test_a_judge_is_made_with_the_folder_later(tmp_path: Path) -> None:
    """What was written serves any judge with `language` and `prompts`; it asks just what the adapted one asks."""
    model = ScriptedModel([ValueError()], cycle=True)
    judge = await adapted(faithfulness(model), translating(), tmp_path)
    judge(user_input="How?", response="So.", retrieved_contexts=["c"])
    prompt = model.prompts[0][0].text
    assert prompt == seen_by(lambda one: faithfulness(one, language="de", prompts=tmp_path))
    assert prompt.startswith("Ü YOU BREAK A TEXT")


async def test_words_of_a_closed_set_keys_and_numbers_stay(tmp_path: Path) -> None:
    """Examples are translated but for what the schema offers, also one whose reply asked for has numbers."""
    await adapted(faithfulness(), translating(), tmp_path)
    example, _ = tomllib.loads((tmp_path / "de/support.toml").read_text(encoding="utf-8"))["examples"]
    assert [one["verdict"] for one in example["reply"]["items"]] == ["supported", "contradicted", "absent"]
    assert [one["number"] for one in example["data"]["claims"]] == [1, 2, 3]
    assert example["data"]["claims"][0]["claim"] == "Ü THE DANUBE FLOWS THROUGH VIENNA."
    judge = await adapted(faithfulness(variant="compat"), translating(), tmp_path / "compat")
    assert judge.compat
    assert 'verdict = "contradicted"' in (tmp_path / "compat/de/support.toml").read_text(encoding="utf-8")


async def test_levels_are_translated_and_criteria_of_the_user_stay(tmp_path: Path) -> None:
    """The new judge rates on its pack's levels; a rubric keeps its own, and the words around are translated."""
    judge = await adapted(Helpfulness("a:b"), translating(), tmp_path)
    assert "1: Ü DOES NOT SERVE" in judge.explain().prompts["helpfulness"]
    assert "1: Does not serve" in Helpfulness("a:b").explain().prompts["helpfulness"]
    judge = await adapted(Rubric("a:b", criteria="Kind?", levels={0: "rude", 1: "kind"}), translating(), tmp_path)
    description = judge.explain().prompts["rubric"]
    assert "\nKind?\n" in description
    assert "0: rude\n1: kind" in description
    assert description.startswith("Ü YOU ASSESS")


def without_placeholders(items: Items) -> Items:
    """Lose what must survive."""
    return [{**one, "text": KEPT.sub("X", one["text"])} for one in items]


def without_one(items: Items) -> Items:
    """Leave a number out."""
    return items[:-1]


def with_one_twice(items: Items) -> Items:
    """Give the first number twice, and the second never."""
    return [items[0], items[0], *items[2:]]


def with_another_line(items: Items) -> Items:
    """Add a line to a text."""
    return [{**items[0], "text": f"{items[0]['text']}\nAnd more."}, *items[1:]]


def with_an_empty_one(items: Items) -> Items:
    """Leave a text empty."""
    return [{**items[0], "text": " "}, *items[1:]]


def untranslated(items: Items) -> Items:
    """Give everything back as it was."""
    english = {german(one): one for pack in faithfulness().packs for one in pack.texts()}
    return [{**one, "text": english[one["text"]]} for one in items]


FAULTS = [
    (without_placeholders, "items, number 1: $claims must stand in it exactly as in the original"),
    (without_one, "items: exactly one text for each number from 1 to 2 is wanted"),
    (with_one_twice, "items: exactly one text for each number from 1 to 2 is wanted"),
    (with_another_line, "items, number 1: 2 lines are wanted, as in the original"),
    (with_an_empty_one, "items, number 1: the text is empty"),
    (untranslated, "items: nothing was translated"),
]


@both_ways
@pytest.mark.parametrize(("spoil", "message"), FAULTS)
async def test_a_spoilt_translation_is_refused(
    spoil: Callable[[Items], Items], message: str, way: Way, tmp_path: Path
) -> None:
    """The fault is named, the model is asked once more, and then adapting fails; nothing is written of it."""
    with pytest.raises(AskFailed) as caught:
        await adapted(faithfulness(), model := translating(spoil), tmp_path, way)
    assert caught.value.detail == message
    assert caught.value.reason == "invalid_output"
    assert message in model.prompts[1][-1].text or way == "async"
    assert not (tmp_path / "de/faithfulness.toml").exists()


@pytest.mark.parametrize(("spoil", "message"), FAULTS)
async def test_a_translation_mended_when_told_is_taken(
    spoil: Callable[[Items], Items], message: str, tmp_path: Path
) -> None:
    """One repair is allowed."""
    model = translating(spoil, times=1)
    judge = await adapted(faithfulness(), model, tmp_path)
    assert len(model.prompts) == 4
    assert judge.explain().prompts["support"].startswith("Ü YOU CHECK")


@both_ways
async def test_what_was_done_before_a_failure_stays(way: Way, tmp_path: Path) -> None:
    """A second attempt asks only for what is wanting."""
    replies = translating()
    left = iter([False, True])

    def reply(messages: list[BaseMessage]) -> object:
        fails = "You break a text" in messages[-1].text and next(left, True) is False
        return "no" if fails or "no" in [one.text for one in messages] else replies.invoke(messages)

    with pytest.raises(AskFailed):
        await adapted(faithfulness(), ScriptedModel(reply), tmp_path, way)
    done = len(list((tmp_path / "de").iterdir()))
    assert done == (1 if way == "sync" else 2)
    again = translating()
    await adapted(faithfulness(), again, tmp_path, way)
    assert len(again.prompts) == 3 - done


@both_ways
async def test_nothing_is_overwritten(way: Way, tmp_path: Path) -> None:
    """A file that is there, reviewed or not, is kept and not asked for, unless it is to be overwritten."""
    await adapted(faithfulness(), translating(), tmp_path, way)
    file = tmp_path / "de/faithfulness.toml"
    file.write_text('[feedback]\ncontradicted = "Falsch:\\n$claims"\n', encoding="utf-8")
    model = translating()
    judge = await adapted(faithfulness(), model, tmp_path, way)
    assert model.prompts == []
    assert judge.say("contradicted", judges.Sample(user_input="q"), claims="- x") == "Falsch:\n- x"
    await adapted(faithfulness(), model, tmp_path, way, overwrite=True)
    assert len(model.prompts) == 3
    assert "Falsch" not in file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("language", "message"),
    [
        ("German", "language is a code such as 'de' or 'pt-BR', not 'German'"),
        ("../de", "not '../de'"),
        ("", "not ''"),
        ("en", "the packs are written in English"),
    ],
)
def test_a_language_is_a_code(language: str, message: str, tmp_path: Path) -> None:
    """A code names the folder, so nothing else will do; where it has no pack, the error tells how to get one."""
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        faithfulness().adapt(language, translating(), folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigurationError, match=r"has no de/\w+\.toml; .* has adapt\(\.\.\.\) for it"):
        faithfulness(language="de")


async def test_files_are_for_people_to_read(tmp_path: Path) -> None:
    """Other scripts are not escaped, long lines are continued, and reading gives what was written."""
    await adapted(load("faithfulness", model="a:b"), translating(), tmp_path)
    for file in (tmp_path / "de").iterdir():
        content = file.read_text(encoding="utf-8")
        assert "Ü" in content
        assert "\\u" not in content
        assert max(map(len, content.splitlines())) < 160
        assert content.startswith(('task = """\n', "[feedback]\n"))


@for_every("file", sorted(PACKS.glob("*/*.toml")))
def test_writing_and_reading_a_pack_changes_nothing(file: Path) -> None:
    """Every packaged prompt survives, in every language."""
    given = prompt(file.stem, file.parent.name)
    assert Prompt.model_validate(tomllib.loads(to_toml(given))) == given


TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ['"""', '""""', "\\", "a\r\nb", " \\\n", "x " * 200, '"' * 7, "\t", "\x00\x7f"]
)
VALUES = st.recursive(
    TEXTS | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXTS, inside, max_size=3),
    max_leaves=6,
)
FIELDS = st.dictionaries(TEXTS, VALUES, max_size=3)


@given(
    st.builds(
        Prompt,
        task=TEXTS,
        reminder=TEXTS.map("r{}".format),
        levels=st.dictionaries(st.integers(-9, 9), TEXTS),
        examples=st.lists(st.builds(Example, data=FIELDS, reply=FIELDS), max_size=2),
        feedback=st.dictionaries(TEXTS, TEXTS, max_size=3),
    )
)
def test_any_prompt_can_be_written(given: Prompt) -> None:
    """Whatever the texts, reading gives back the same."""
    assert Prompt.model_validate(tomllib.loads(to_toml(given))) == given
