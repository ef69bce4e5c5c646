"""BLEU of an answer: as ragas computes it, and of the whole answer in any script."""

from __future__ import annotations

from typing import Any

import pytest
import sacrebleu

from judges import ConfigurationError, load


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
