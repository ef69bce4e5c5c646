"""A synthetic annotator with a hidden rule, and a judge's model that keeps to it only if its prompt reveals it."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from judges.testing import ScriptedModel
from tests.kit import shown

TOPICS = ["parcel", "invoice", "login", "refund", "warranty", "delivery", "password", "address"]
RULE = "An answer with numbered steps is good; one without is bad."
OTHER = "A polite answer is good."


def labelled(count: int, *, seed: int = 0, shuffled: bool = False) -> list[dict[str, Any]]:
    """Return answers with labels: Ann calls good what has numbered steps, or, shuffled, anything."""
    draw = random.Random(seed)
    rows, goods = [], []
    for number in range(count):
        topic, polite, steps = draw.choice(TOPICS), draw.random() < 0.5, draw.random() < 0.5
        how = f"Step 1: open page {number}-{seed}. Step 2: confirm." if steps else f"look at page {number}-{seed}."
        answer = f"{'Thank you for asking. ' if polite else ''}About the {topic}: {how}"
        rows.append({"user_input": f"Question {number} of {seed}: my {topic}?", "response": answer})
        goods.append(steps)
    if shuffled:
        draw.shuffle(goods)
    return [{**row, "labels": [{"by": "ann", "up": up}]} for row, up in zip(rows, goods, strict=True)]


def reply_to(messages: Sequence[Any], *, finds: bool = True) -> Mapping[str, Any]:
    """Reply as the model: politeness counts, unless guidelines or examples in the prompt show what really does.

    Args:
        messages: The prompt.
        finds: Whether it finds the rule when it is asked for guidelines or wordings.
    """
    data, before = shown(list(messages)), "\n".join(one.text for one in messages[:-1])
    if "cases" in data:
        cases = [("Step 1" in case["answer"], case["people_say"] == "good") for case in data["cases"]]
        found = RULE if finds and sum(x == y for x, y in cases) >= 0.9 * len(cases) else OTHER
        if "`cause`" in before:
            return {"cause": "It says nothing of steps.", "instructions": f"{data['instructions']}\n{found}"}
        return {"pattern": "What people go by.", "guidelines": [found]}
    known = RULE in before or _reveals(before)
    good = "Step 1" in data["answer"] if known else "Thank you" in data["answer"]
    advice = "" if good else "Mend it."
    return {"rationale": f"Of page {data['answer'][-12:]}", "rating": 4 if good else 1, "feedback": advice}


def _reveals(text: str) -> bool:
    """Whether the worked examples in a prompt show that steps are what counts."""
    parts = text.split('"answer": ')[1:]
    examples = [
        ("Step 1" in part[:200], '"rating":4' in part or '"kept"' in part)
        for part in parts
        if '"rationale":' in part
    ]
    return len(examples) >= 4 and all(steps == good for steps, good in examples)


def scripted(*, finds: bool = True) -> ScriptedModel:
    """Return the model; what it replies depends on the prompt alone."""
    return ScriptedModel(partial(reply_to, finds=finds), name="apprentice")


def texts_of(model: ScriptedModel) -> list[str]:
    """Return what each prompt so far says besides the answer that it judges."""
    texts = []
    for messages in model.prompts:
        data = shown(list(messages))
        rest = json.dumps(data.get("cases", ""), ensure_ascii=False)
        texts.append("\n".join([*(one.text for one in messages[:-1]), rest]))
    return texts
