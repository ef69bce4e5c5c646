"""BLEU of an answer: as ragas computes it, and of the whole answer in any script."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import sacrebleu

from judges import ConfigurationError, load
from tests.catalogue.test_strings import CHINESE, ENGLISH

FIRST = "The cat sat on the mat today."


@pytest.mark.parametrize(
    ("sample", "value"),
    [
        (ENGLISH, 0.7071067811865478),
        (CHINESE, 0.0),
        ({"response": "x", "reference": "x"}, 0.0),
        ({"response": "a b", "reference": "a b"}, 0.0),
        ({"response": "", "reference": "a"}, 0.0),
        ({"response": "", "reference": ""}, 0.0),
        ({"response": FIRST, "reference": FIRST}, 1.0000000000000004),
        ({"response": f"{FIRST} Utterly wrong words.", "reference": f"{FIRST} It purred."}, 1.0000000000000004),
        ({"response": "It purred.", "reference": f"{FIRST} It purred."}, 0.0),
        ({"response": FIRST[:-1], "reference": f"{FIRST} It purred."}, 1.0),
    ],
)
def test_compat_scores_the_first_sentence(sample: dict[str, str], value: float) -> None:
    """The number of ragas, in `value`; the score is never above 1."""
    verdict = load("ragas.bleu_score", variant="compat")(sample)
    assert verdict.value == pytest.approx(value, abs=1e-12)
    assert verdict.score == pytest.approx(min(value, 1.0), abs=1e-12)


@pytest.mark.parametrize(
    ("sample", "score"),
    [
        (ENGLISH, 0.7071067811865478),
        (CHINESE, 0.6606328636027612),
        ({"response": "x", "reference": "x"}, 1.0),
        ({"response": "a b", "reference": "a b"}, 1.0),
        ({"response": "巴黎", "reference": "巴黎"}, 1.0),
        ({"response": FIRST, "reference": FIRST}, 1.0),
        ({"response": "nothing shared", "reference": "other words"}, 0.0),
    ],
)
async def test_corrected_scores_the_whole_text(sample: dict[str, str], score: float) -> None:
    """Short texts and Chinese have a score, and none is above 1, sync and async."""
    judge = load("bleu")
    for verdict in (judge(sample), await judge.acall(sample)):
        assert verdict.score == pytest.approx(score, abs=1e-12)
        assert verdict.value == verdict.score
        assert verdict.usage.calls == 0


def test_a_wrong_second_sentence_costs() -> None:
    """Corrected: the whole answer is compared; compat sees the first sentence only."""
    sample = {"response": f"{FIRST} Utterly wrong words here.", "reference": f"{FIRST} It purred at the dog."}
    assert load("BleuScore")(sample).score == pytest.approx(0.5334317510807477, abs=1e-12)
    assert load("BleuScore", variant="compat")(sample).score == 1


@pytest.mark.parametrize(
    ("settings", "score"),
    [({}, 0.0), ({"lowercase": True}, 1.0), ({"tokenizer": "word"}, 1.0), ({"tokenizer": "char"}, 0.0)],
)
def test_capital_letters_count_unless_told(settings: dict[str, Any], score: float) -> None:
    """`lowercase`, or a tokenizer that folds them."""
    assert load("bleu_score", **settings)(response="ABCD EFG", reference="abcd efg").score == score


@pytest.mark.parametrize("text", ["🙂", "!!!", "<skipped>", "Paris"])
@pytest.mark.parametrize("tokenizer", ["auto", "word", "char", "13a"])
def test_the_same_text_scores_1(text: str, tokenizer: Any) -> None:
    """Also where a tokenizer leaves nothing of it."""
    assert load("bleu_score", tokenizer=tokenizer)(response=text, reference=text).score == 1


@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_further_settings_of_sacrebleu(variant: Any) -> None:
    """By the name ragas gives them, and with its own tokenizer where one is asked for."""
    sample = {"response": "the cat sat on a mat", "reference": "the cat sat on the mat today"}
    given, wanted = [sample["response"]], [[sample["reference"]]]
    for kwargs in ({"smooth_method": "floor", "smooth_value": 0.5}, {"tokenize": "char"}):
        expected = sacrebleu.corpus_bleu(given, wanted, force=True, **kwargs).score / 100
        verdict = load("bleu_score", kwargs={**kwargs, "use_effective_order": False}, variant=variant)(sample)
        assert verdict.score == pytest.approx(expected)
    for wrong in ({"smooth": 1}, {"smooth_method": "none at all"}):
        with pytest.raises(ConfigurationError, match="kwargs: corpus_bleu takes no"):
            load("bleu_score", kwargs=wrong)


def test_wrong_settings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown tokenizer, or a library that is not there."""
    with pytest.raises(ConfigurationError, match="tokenizer is 'auto', '13a', 'zh', 'char' or 'word', not 'ja'"):
        load("bleu_score", tokenizer="ja")
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ConfigurationError, match=r"needs the extra: selfrefine\[sacrebleu\]"):
        load("bleu_score")


def test_a_blank_text_is_unscored() -> None:
    """Nothing to compare."""
    assert load("bleu")(response="", reference="a").unscored == "no_response"
    assert load("bleu")(response="a", reference=" ").unscored == "no_reference"
