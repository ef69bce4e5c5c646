"""Noise sensitivity is the share of an answer's claims that are wrong and come from the contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from judges import ConfigurationError, Panel, load
from judges.testing import ScriptedModel
from tests.kit import Shown, items, replying

NAME = "ragas.noise_sensitivity"
ANSWER, REFERENCE = "The answer.", "The reference."


@dataclass(frozen=True)
class Support:
    """What supports what: for each context the claims of the reference and of the answer, and which are right."""

    wanted: Sequence[Sequence[int]]
    given: Sequence[Sequence[int]]
    right: Sequence[int]

    @property
    def row(self) -> dict[str, Any]:
        """Make the sample."""
        contexts = [f"context {number}" for number, _ in enumerate(self.wanted)]
        return {"question": "What?", "answer": ANSWER, "reference": REFERENCE, "contexts": contexts}

    def model(self) -> ScriptedModel:
        """Make a model that finds just this."""
        return replying(self.found)

    def found(self, data: Shown) -> dict[str, Any]:
        """Reply to one question."""
        if "text" in data:
            answers = data["text"] == ANSWER
            return {"claims": [f"{'a' if answers else 'r'}{n}" for n in range(len(self._side(answers=answers)))]}
        if "context" in data:
            number = int(data["context"].split()[-1])
            found = {"reference_claims": self.wanted[number], "answer_claims": self.given[number]}
            return {key: items(*map(bool, marks))["items"] for key, marks in found.items()}
        (premise,) = data["contexts"]
        if premise == REFERENCE:
            return items(*("supported" if one else "absent" for one in self.right))
        raise AssertionError(premise)

    def _side(self, *, answers: bool) -> Sequence[int]:
        return self.right if answers else self.wanted[0]

    def compat_model(self) -> ScriptedModel:
        """Make a model that marks one list at a time."""
        return replying(self.marked)

    def marked(self, data: Shown) -> dict[str, Any]:
        """Reply as ragas' prompts ask for it."""
        if "text" in data:
            return self.found(data)
        (premise,) = data["contexts"]
        if premise == REFERENCE:
            return items(*self.right)
        number = int(premise.split()[-1])
        of_answer = data["claims"] and data["claims"][0]["claim"].startswith("a")
        return items(*(self.given if of_answer else self.wanted)[number])


LIC = Support(
    wanted=[(0, 1, 0), (1, 0, 0), (0, 0, 1), (0, 0, 0)],
    given=[(0, 0, 0), (1, 1, 0), (0, 1, 1), (0, 0, 0)],
    right=(1, 1, 0),
)
INVENTED = Support(wanted=[(1, 1), (0, 0)], given=[(0, 0), (0, 0)], right=(0, 0))
NOISY = Support(wanted=[(1,), (0,)], given=[(0, 1, 0), (1, 1, 0)], right=(0, 0, 0))


@pytest.mark.parametrize(
    ("support", "mode", "value"),
    [
        (LIC, "relevant", 1 / 3),
        (LIC, "irrelevant", 0.0),
        (LIC, "hallucination", 0.0),
        (INVENTED, "relevant", 0.0),
        (INVENTED, "irrelevant", 0.0),
        (INVENTED, "hallucination", 1.0),
        (NOISY, "relevant", 1 / 3),
        (NOISY, "irrelevant", 1 / 3),
        (NOISY, "hallucination", 1 / 3),
    ],
)
async def test_the_value(support: Support, mode: str, value: float) -> None:
    """Wrong claims of the kind / all claims, low is good; 3 + n calls, and 3 + 2n in compat."""
    count = len(support.wanted)
    judge = load(NAME, model=support.model(), mode=mode)
    for verdict in (judge(support.row), await judge.acall(support.row)):
        assert verdict.value == pytest.approx(value, abs=1e-12)
        assert verdict.score == pytest.approx(1 - value, abs=1e-12)
        assert verdict.usage.calls == 3 + count
    old = load(NAME, model=support.compat_model(), mode=mode, variant="compat")(support.row)
    assert old.value == pytest.approx(value, abs=1e-12)
    assert old.usage.calls == 3 + 2 * count


@pytest.mark.parametrize("variant", ["corrected", "compat"])
async def test_the_modes_share_their_calls(variant: str) -> None:
    """Two modes in a panel cost as much as one."""
    model = LIC.model() if variant == "corrected" else LIC.compat_model()
    modes = {mode: load(NAME, model=model, mode=mode, variant=variant) for mode in ("relevant", "irrelevant")}
    panel = Panel(modes)
    expected = 7 if variant == "corrected" else 11
    for verdict in (panel(LIC.row), await panel.acall(LIC.row)):
        assert verdict.usage.calls == expected
    assert len(model.prompts) == 2 * expected


def test_every_claim_is_told_where_it_comes_from() -> None:
    """The three kinds of wrong claims add up, and the feedback names them."""
    verdict = load(NAME, model=NOISY.model(), mode="relevant", threshold=0.9)(NOISY.row)
    assert [one.value for one in verdict.items] == ["irrelevant", "relevant", "unsupported"]
    assert verdict.detail == "0 correct, 1 relevant, 1 irrelevant, 1 unsupported"
    assert [line for line in verdict.feedback.splitlines() if line.startswith("- ")] == ["- a1", "- a0", "- a2"]
    assert verdict.passed is False


@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_an_answer_without_claims_is_unscored(variant: str) -> None:
    """Where ragas gives NaN."""
    silent = Support(wanted=[(1,)], given=[()], right=())
    model = silent.model() if variant == "corrected" else silent.compat_model()
    assert load(NAME, model=model, variant=variant)(silent.row).unscored == "no_claims"


def test_ragged_lists_are_unscored_in_compat() -> None:
    """Where ragas raises."""
    ragged = Support(wanted=[(1,), (1,)], given=[(1, 1), (1,)], right=(1, 1))
    verdict = load(NAME, model=ragged.compat_model(), variant="compat")(ragged.row)
    assert verdict.unscored == "invalid_output"


@pytest.mark.parametrize("number", [2, 4])
def test_compat_divides_by_the_marks_that_came(number: int) -> None:
    """Fewer or more than the three claims sent, as long as all lists are of one length."""
    found = Support(wanted=[(1, 1)], given=[(1, *(0,) * (number - 1))], right=(0,) * number)

    def marked(data: Shown) -> dict[str, Any]:
        return {"claims": ["a0", "a1", "a2"]} if data.get("text") == ANSWER else found.marked(data)

    verdict = load(NAME, model=replying(marked), variant="compat")(found.row)
    assert verdict.value == pytest.approx(1 / number)
    assert [one.subject for one in verdict.items] == ["a0", "a1", "a2", ""][:number]


def test_a_missing_verdict_is_asked_for_again() -> None:
    """A matrix that leaves a claim out is no valid reply."""
    short = Support(wanted=[(1, 1)], given=[(1,)], right=(1, 0))
    verdict = load(NAME, model=short.model())(short.row)
    assert (verdict.unscored, verdict.detail) == ("invalid_output", "answer_claims: no verdict for number 2")


@pytest.mark.parametrize("mode", ["relevant", "irrelevant", "hallucination"])
@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_a_reference_without_claims_is_unscored(variant: str, mode: str) -> None:
    """Where ragas raises; no context would be relevant, so that noise would look perfect. Two calls are made."""
    empty = Support(wanted=[(), ()], given=[(1, 0), (0, 0)], right=(0, 0))
    model = empty.model() if variant == "corrected" else empty.compat_model()
    verdict = load(NAME, model=model, variant=variant, mode=mode)(empty.row)
    assert (verdict.unscored, verdict.detail) == ("no_claims", "the reference makes no claim")
    assert verdict.usage.calls == 2


@pytest.mark.parametrize(
    "support",
    [
        Support(wanted=[()], given=[(1,)], right=(0,)),
        Support(wanted=[(1,)], given=[()], right=()),
    ],
)
def test_compat_without_marks_is_unscored(support: Support) -> None:
    """Where ragas gives NaN or raises, although there are claims."""

    def reply(data: Shown) -> dict[str, Any]:
        return {"claims": ["a0" if data["text"] == ANSWER else "r0"]} if "text" in data else support.marked(data)

    verdict = load(NAME, model=replying(reply), variant="compat")(support.row)
    assert (verdict.unscored, verdict.detail) == ("no_claims", "no claim was verified")


def test_a_number_twice_is_asked_for_again() -> None:
    """A matrix with two verdicts on one claim is no valid reply."""
    right = Support(wanted=[(1,)], given=[(1,)], right=(1,))

    def reply(data: Shown) -> dict[str, Any]:
        found = right.found(data)
        return {**found, "reference_claims": found["reference_claims"] * 2} if "context" in data else found

    verdict = load(NAME, model=replying(reply))(right.row)
    assert verdict.unscored == "invalid_output"
    assert verdict.detail == "reference_claims: 2 verdicts for 1 numbers; exactly one for each is wanted"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"contexts": []}, "no_contexts"),
        ({"reference": ""}, "no_reference"),
        ({"answer": ""}, "no_response"),
    ],
)
def test_nothing_to_judge_is_unscored(fields: dict[str, Any], reason: str) -> None:
    """No call is made where something is missing."""
    verdict = load(NAME, model=LIC.model())({**LIC.row, **fields})
    assert (verdict.unscored, verdict.usage.calls) == (reason, 0)


def test_an_unknown_mode_is_refused() -> None:
    """One line names those there are."""
    with pytest.raises(ConfigurationError, match="mode is 'relevant', 'irrelevant' or 'hallucination'"):
        load(NAME, model=LIC.model(), mode="noise")
