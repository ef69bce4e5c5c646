"""NVIDIA's metrics ask two graders with tasks of their own."""

from __future__ import annotations

import pytest

from judges import load
from judges.prompting.prompts import LANGUAGES, prompt
from tests.catalogue.cases import sample_for
from tests.catalogue.filling import FillingModel


@pytest.mark.parametrize("pack", ["answer_accuracy", "context_relevance", "response_groundedness"])
def test_the_graders_have_tasks_of_their_own(pack: str) -> None:
    """The questions are worded apart, in every language, that of the question, and each item says who gave it."""
    for language in LANGUAGES:
        model = FillingModel(language=language)
        verdict = load(f"nvidia.{pack}", model=model)(sample_for("helpfulness", language=language))
        assert [one.judge for one in verdict.items] == [pack, f"{pack}_second"]
        tasks = [prompt(name, language).task for name in (pack, f"{pack}_second")]
        told = [messages[0].text for messages in model.prompts]
        assert sorted(sum(task in text for text in told) for task in tasks) == [1, 1]
