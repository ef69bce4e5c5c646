"""Code in the answer: found, parsed by its language, never run; what is not checked is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from judges import ConfigurationError, load

GOOD = {
    "python": "async def f(x: int) -> int:\n    return await g(x)",
    "py": "    import re\n    re.compile('\\d')",
    "json": '{"a": [1, null]}',
    "jsonl": '{"a": 1}\n\n{"a": 2}',
    "toml": 'a = 1\n[b]\nc = "d"',
    "yaml": "a: [1, 2]\n---\nb: {c: d}",
    "sql": "SELECT a FROM b WHERE c > 1",
    "postgresql": "SELECT a::int FROM b",
}
BAD = {
    "python": "def f(:\n    pass",
    "json": "{'a': 1}",
    "jsonl": '{"a": 1}\n{"a": }',
    "toml": "a = ",
    "yaml": "a: [1, 2\nb: c",
    "sql": "SELECT FROM WHERE (",
}


def fenced(language: str, text: str) -> str:
    """Write a block as an answer does."""
    return f"Here it is:\n\n```{language}\n{text}\n```\nDone."


def test_every_language_has_its_parser() -> None:
    """What is right parses, what is wrong is an item that says in which line, and in the feedback, too."""
    judge = load("code")
    for language, text in GOOD.items():
        verdict = judge(answer=fenced(language, text))
        assert (verdict.score, verdict.feedback, verdict.usage.calls) == (1, "", 0), language
    for language, text in BAD.items():
        verdict = judge(answer=fenced(language, text))
        assert (verdict.score, verdict.items[0].subject) == (0, f"1 ({language})"), language
        assert verdict.items[0].rationale in verdict.feedback
    assert "line 2" in judge(answer=fenced("jsonl", BAD["jsonl"])).feedback


def test_code_is_never_run(tmp_path: Path) -> None:
    """Neither a statement of Python nor a tag of YAML has an effect."""
    file = tmp_path / "ran"
    python = fenced("python", f"open({str(file)!r}, 'w')")
    tagged = fenced("yaml", f"!!python/object/apply:os.mkdir [{str(file)!r}]")
    assert load("code")(answer=python).score == load("code")(answer=tagged).score == 1
    assert not file.exists()


def test_what_cannot_be_checked_is_named_and_not_counted() -> None:
    """Other languages are unscored items; an answer of nothing else has no score."""
    both = fenced("python", "x = 1") + "\n" + fenced("rust", "fn main() {")
    verdict = load("code")(answer=both)
    assert (verdict.score, verdict.detail) == (1, "2 (rust) was not checked")
    assert [item.unscored for item in verdict.items] == [None, "undefined"]
    alone = load("code")(answer=fenced("", "x = 1"))
    assert alone.unscored == "undefined"
    assert "a block without a language" in alone.detail
    deep = load("code")(answer=fenced("json", "[" * 90_000))
    assert "nested too deeply" in deep.detail


def test_fences_nest_and_may_be_left_open() -> None:
    """A longer fence holds a shorter one, tildes are fences, and an open one fails."""
    nested = "````markdown\n```python\ndef (\n```\n````\n~~~json\n{}\n~~~"
    verdict = load("code")(answer=nested)
    assert [item.subject for item in verdict.items] == ["1 (markdown)", "2 (json)"]
    assert verdict.score == 1
    assert "not closed" in load("code")(answer="```python\nx = 1").feedback


def test_what_looks_like_code_and_is_none_fails() -> None:
    """A misspelt verb of SQL, NaN in JSON, and a return outside a function do not pass; a quoted block may."""
    for language, text in {"sql": "SELEC x", "json": '{"a": NaN}', "python": "return 1"}.items():
        assert load("code")(answer=fenced(language, text)).score == 0, language
    assert load("code")(answer="> ```json\n> {}\n> ```").score == 1
    assert "session" in load("code")(answer=fenced("python", ">>> 1 + 1\n2")).detail


def test_no_code_has_no_score_unless_the_answer_is_code() -> None:
    """With `unfenced` the whole answer is a block; without any the reason is said."""
    verdict = load("code")(answer="There is no code here.")
    assert (verdict.unscored, verdict.detail) == ("undefined", "there is no fenced code in the answer")
    assert load("code", unfenced="python")(answer="x = 1").score == 1
    assert load("code", unfenced="json")(answer="x = 1").score == 0
    with pytest.raises(ConfigurationError, match="unfenced names a language"):
        load("code", unfenced=" ")
