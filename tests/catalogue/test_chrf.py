"""chrF of an answer, in any script."""

from __future__ import annotations

import pytest
import sacrebleu

from judges import ConfigurationError, load


def test_further_settings_of_sacrebleu() -> None:
    """By the name ragas gives them."""
    sample = {"response": "a b c", "reference": "ab c d"}
    for kwargs in ({"remove_whitespace": False}, {"word_order": 2}, {"eps_smoothing": True}):
        expected = sacrebleu.corpus_chrf([sample["response"]], [[sample["reference"]]], **kwargs).score / 100
        assert load("chrf_score", kwargs=kwargs)(sample).score == pytest.approx(expected)
    with pytest.raises(ConfigurationError, match="kwargs: corpus_chrf takes no"):
        load("chrf_score", kwargs={"order": 1})
