"""A law is one test, and its failure names every case that breaks it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from tests.laws import LONGEST, for_every

LONG = Path(__file__).with_name("long.txt")


def test_every_offender_is_named_and_nobody_else() -> None:
    """Also where a case raises instead of failing; the first error is the cause, with its traceback."""

    @for_every("top, bottom", [(6, 3), (6, 4), (6, 0), (6, 2)])
    def law(top: int, bottom: int) -> None:
        assert top % bottom == 0, "it does not divide"

    with pytest.raises(AssertionError) as caught:
        law()
    message, *broken = str(caught.value).splitlines()
    assert message == "2 of 4 cases break the law:"
    assert [line.partition(":")[0] for line in broken] == ["top=6, bottom=4", "top=6, bottom=0"]
    assert "it does not divide" in broken[0]
    assert "ZeroDivisionError" in broken[1]
    assert isinstance(caught.value.__cause__, AssertionError)


async def test_a_law_may_be_async() -> None:
    """Its cases are awaited, each in its turn."""
    seen: list[str] = []

    @for_every("one", "abc")
    async def law(one: str) -> None:
        seen.append(one)
        assert one != "b"

    with pytest.raises(AssertionError, match=r"^1 of 3 cases break the law:\none='b': "):
        await law()
    assert seen == ["a", "b", "c"]


def test_an_error_that_does_not_come_breaks_a_law_too() -> None:
    """What `pytest.raises` fails with is no `Exception`; the cases behind it are checked all the same."""

    @for_every("text", ["1", "x", "2"])
    def law(text: str) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            int(text)

    with pytest.raises(AssertionError, match=r"^2 of 3 cases break the law"):
        law()


def test_what_all_cases_share_is_left_to_pytest() -> None:
    """Fixtures and the arguments of `parametrize` are still asked for, by the name of the test."""

    @for_every("one", [1])
    def law(one: int, tmp_path: str) -> None:
        """Say something."""
        assert (one, tmp_path) == (1, "given")

    assert list(inspect.signature(law).parameters) == ["tmp_path"]
    assert (law.__name__, law.__doc__) == ("law", "Say something.")
    law(tmp_path="given")


def test_a_case_is_shown_in_short_and_in_plain_characters() -> None:
    """A megabyte does not fill the screen, nor does a hidden character hide."""

    @for_every("text", ["x" * 1_000_000, "\u202e"])
    def law(text: str) -> None:
        assert text == ""

    with pytest.raises(AssertionError) as caught:
        law()
    assert len(str(caught.value)) < 5 * LONGEST
    assert r"\u202e" in str(caught.value)


def test_a_law_over_nothing_is_refused() -> None:
    """It could not fail."""
    with pytest.raises(AssertionError, match="over nothing"):
        for_every("one", [])


def test_names_that_the_test_does_not_take_are_refused() -> None:
    """They are reported when the law is written down."""
    with pytest.raises(AssertionError, match=re.escape("['other']")):

        @for_every("other", [1])
        def law(one: int) -> None:
            assert one


def test_what_is_called_long_is_there() -> None:
    """Every line of tests/long.txt names a test, in order and once; of two that have its name one is enough."""
    lines = LONG.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(set(lines))
    named = [line.partition("[")[0].split("::") for line in lines]
    texts = {file: (LONG.parents[1] / file).read_text(encoding="utf-8") for file, _ in named}
    assert [(file, test) for file, test in named if f"def {test}(" not in texts[file]] == []
