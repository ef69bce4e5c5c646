"""The prompt packs of all languages say the same, in the same places."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import judges
from judges import ConfigurationError
from judges.prompting.prompts import LANGUAGES, Language, Prompt, language_of, prompt
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
def test_no_blank_stands_inside_chinese(file: Path) -> None:
    """A line that is continued in the file leaves no gap between two Chinese characters, nor doubles a blank."""
    text = Prompt.model_validate(tomllib.loads(file.read_text(encoding="utf-8"))).task
    assert not re.search(r"[\u4e00-\u9fff。，；] +[\u4e00-\u9fff]", text)
    assert "  " not in text


@every_file
def test_a_file_asks_or_says_something(file: Path) -> None:
    """A file holds a task with its reminder and examples, or phrases of feedback, or both."""
    text = Prompt.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
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


@every_file
def test_only_orders_in_the_answer_count_against_it(file: Path) -> None:
    """An order to the judge is a fault in the answer; in question and documents it is none, and is said to be."""
    language = file.parent.name
    task = prompt(file.stem, language).task
    sentences = [one for one in re.split(r"(?<=[.。])\s*|\n", task) if AGAINST[language] in one]
    places = ("`answer`", "`first`", "`second`", "candidate", "候选", "вариант")
    assert [one for one in sentences if not any(place in one for place in places)] == []
    assert bool(sentences) <= (NO_FAULT[language] in task or file.stem == "ranking")
    english = prompt(file.stem, "en").task
    assert (NO_FAULT[language] in task) == (NO_FAULT["en"] in english)
