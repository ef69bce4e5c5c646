"""120 malformed verdicts, beside those of `test_parse`, by each of the three ways: none is accepted."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import JsonOutputParser
from langchain_core.runnables import Runnable

from judges import Helpfulness, Verdict
from judges.models.providers.langchain import LangChainModel
from judges.models.structured import Method
from judges.testing import ScriptedModel
from tests.laws import for_every

GOOD: dict[str, Any] = {"rationale": "It is right.", "rating": 4, "feedback": ""}
WRITTEN = json.dumps(GOOD)
BAD = json.dumps({**GOOD, "rating": 1})
METHODS: tuple[Method, ...] = ("tools", "json_schema", "text")


def rated(rating: str) -> str:
    """Write a verdict with this in the place of the rating."""
    return f'{{"rationale": "r", "rating": {rating}, "feedback": "f"}}'


def keyed(key: str) -> str:
    """Write a verdict with this for the key of the rating."""
    return json.dumps({"rationale": "r", key: 4, "feedback": "f"}, ensure_ascii=False)


def valued(**values: Any) -> str:
    """Write a good verdict with other values."""
    return json.dumps({**GOOD, **values})


PLAIN = (
    "-4 -0 40 44 4. 4.00 4.0e0 40e-1 0.4e1 4E0 4.0000000000000001 1e400 -1e400 4_0 4L 0b100 0o4 (4) 4/4 2+2 4; "
    '4,5 four None undefined nan inf +Infinity \'4\' “4” "4.0" "4/4" "" "\\u0034" \u0664 \u096a ④ Ⅳ ⁴ <4> $4 '
    "[1,4] [[4]] {} [] /*1*/4 4//1 4\\n 9223372036854775808"
)
RATINGS = [
    *PLAIN.split(),
    *(
        "4 of 4",
        "4 or 1",
        '"rating 4"',
        "4 4",
        "4\u200b",
        "\u200b4",
        "\u202e4",
        "\u00a04",
        "4\u00a0",
        '{"value": 4}',
    ),
]
KEYS = "r\u0430ting rating\u200b \u200brating \uff52ating RATING 'rating' rating: score rat\u00adng ratıng total"
SHAPES = [
    json.dumps(WRITTEN),
    json.dumps({"arguments": GOOD}),
    json.dumps({"name": "Assessment", "arguments": GOOD}),
    json.dumps({"parameters": GOOD}),
    json.dumps({"properties": GOOD}),
    json.dumps({"result": WRITTEN}),
    json.dumps({"rationale": WRITTEN, "feedback": ""}),
    json.dumps([GOOD, GOOD]),
    json.dumps({"0": GOOD}),
    f"{WRITTEN},{BAD}",
    f"{WRITTEN}\x1e{BAD}",
    f"{WRITTEN}\n---\n{BAD}",
    f"{WRITTEN}{WRITTEN}",
    f"{WRITTEN}null",
    f"{WRITTEN}\x00",
    f"\x00{WRITTEN}",
    f"{WRITTEN};",
    f"{WRITTEN}}}",
    f"{{{WRITTEN}}}",
    f"[{WRITTEN}",
    f"({WRITTEN})",
    f"rating: 4\n{WRITTEN}",
    f"json\n{WRITTEN}",
    f"```\n{WRITTEN}\n```",
    f"~~~json\n{WRITTEN}\n~~~",
    f"```json\n{WRITTEN}",
    f"`{WRITTEN}`",
    f"<tool_call>{WRITTEN}</tool_call>",
    f"[TOOL_CALLS] [{WRITTEN}]",
    f"<|python_tag|>{WRITTEN}",
    f"<|im_start|>assistant\n{WRITTEN}",
    f"Assessment({WRITTEN})",
    "Assessment(rationale='r', rating=4, feedback='')",
    f"<json>{WRITTEN}</json>",
    f"// verdict\n{WRITTEN}",
    f"# verdict\n{WRITTEN}",
    f"data: {WRITTEN}",
    f"\u200b{WRITTEN}",
    f"{WRITTEN}\u200b",
    "rationale: r\nrating: 4\nfeedback: ''",
    'rationale = "r"\nrating = 4\nfeedback = ""',
    "rationale,rating,feedback\nr,4,f",
    "{rationale: 'r', rating: 4, feedback: 'f'}",
    '{"rationale" => "r", "rating" => 4, "feedback" => "f"}',
    '{"rationale": "r" "rating": 4, "feedback": "f"}',
    '{"rationale": "r",, "rating": 4, "feedback": "f"}',
    '{"rationale": "r"; "rating": 4; "feedback": "f"}',
    '{"rationale": "\\x72", "rating": 4, "feedback": "f"}',
    '{"rationale": "\\u12", "rating": 4, "feedback": "f"}',
    '{"rationale": "\t", "rating": 4, "feedback": "f"}',
    '{"rationale": "say "yes"", "rating": 4, "feedback": "f"}',
    '{"rationale": "r", "rating": 4, "feedback": "f"',
    '{"rationale": "r", "rating": 4, "feedback": "f',
    '"rationale": "r", "rating": 4, "feedback": "f"',
    '{"rating": 1, "rationale": "r", "feedback": "f", "\\u0072ating": 4}',
    '{"rating": 4, "rationale": {"rating": 1, "rating": 4}, "feedback": "f"}',
    '{"rating": 4, "rationale": "r", "feedback": "f", "": {"a": 1, "a": 2}}',
    valued(rationale=["r"]),
    valued(rationale=True),
    valued(rationale={}),
    valued(feedback=0),
    valued(feedback=None),
    valued(feedback="\ud83d"),
    valued(rationale="\udc00\ud800"),
    valued(confidence=0.9),
    valued(Rating=1),
    valued(**{"rating ": 1}),
    valued(__proto__={"rating": 4}),
    valued(score=None),
    base64.b64encode(WRITTEN.encode()).decode(),
    quote(WRITTEN),
    WRITTEN.replace('"', "&quot;"),
    WRITTEN.replace('"', "“"),
    WRITTEN.replace(":", "："),
    WRITTEN.replace("{", "｛").replace("}", "｝"),
    WRITTEN.replace(",", "，"),
    WRITTEN.replace('"', '\\"'),
    WRITTEN.encode().hex(),
    WRITTEN[::-1],
    "4/4",
    "Rating: 4",
    "[RESULT] 4",
    "<score>4</score>",
    "\\boxed{4}",
    "\ufeff",
    "\x00",
    "{",
    "}",
    "{}{}",
    "undefined",
]
MALFORMED = [*map(rated, RATINGS), *map(keyed, KEYS.split()), *SHAPES]


class Model(ScriptedModel):
    """A model that can be asked by schema too, the way LangChain's OpenAI class is."""

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[Any, Any]:
        """Bind the schema, and parse as leniently as LangChain does."""
        fields = {"type": "json_schema", "json_schema": {"name": "Assessment", "schema": schema}}
        return self.bind(response_format=fields) | JsonOutputParser()


def said(method: Method, written: str) -> AIMessage:
    """Give a reply the way it was asked for: as a call whose raw arguments are handed on, or as text."""
    if method != "tools":
        return AIMessage(written)
    return AIMessage(
        "",
        tool_calls=[{"name": "Assessment", "args": GOOD, "id": "1"}],
        additional_kwargs={"tool_calls": [{"function": {"name": "Assessment", "arguments": written}}]},
    )


def judged(method: Method, *replies: AIMessage) -> tuple[Verdict, Model]:
    """Judge with a model that is asked by this method and gives these replies."""
    model = Model(replies)  # type: ignore[call-arg, arg-type]  # not seen: its __init__
    return Helpfulness(LangChainModel(model, method=method))(user_input="q", response="a"), model


def test_there_are_120() -> None:
    """The verdicts are as many as promised, all of them different."""
    assert len(set(MALFORMED)) == len(MALFORMED) >= 120


@pytest.mark.parametrize("method", METHODS)
@for_every("written", MALFORMED)
def test_a_malformed_verdict_is_never_accepted(method: Method, written: str) -> None:
    """By tool, schema or text: one re-ask, which does not help, then `invalid_output` without any rating."""
    verdict, model = judged(method, said(method, written), said(method, written), said(method, WRITTEN))
    assert (verdict.unscored, verdict.rating, verdict.score) == ("invalid_output", None, None)
    assert len(model.prompts) == verdict.usage.calls == 2


@pytest.mark.parametrize("method", METHODS)
@for_every("written", MALFORMED[::10])
def test_a_mended_verdict_counts(method: Method, written: str) -> None:
    """A good reply to the one re-ask is the verdict: what is refused above is the form alone."""
    verdict, model = judged(method, said(method, written), said(method, WRITTEN))
    assert (verdict.rating, len(model.prompts)) == (4, 2)


@pytest.mark.parametrize(
    ("method", "bound"),
    [("tools", {"tools", "tool_choice"}), ("json_schema", {"response_format"}), ("text", set())],
)
def test_each_way_is_the_one_named(method: Method, bound: set[str]) -> None:
    """The three ways above do differ in what the model is asked."""
    _, model = judged(method, said(method, WRITTEN))
    assert set(model.settings[0]) - {"temperature"} == bound
