"""The two sets of prompts, each with the truth that says which answers keep their rules."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges import Sample

_SHORT = Path(__file__).with_name("short.jsonl")
_FENCE = re.compile(r"\A```(?:json)?\n(.*)\n```\Z", re.DOTALL)


@dataclass(frozen=True)
class QuestionSet:
    """A set of questions.

    Args:
        name: What it is called.
        questions: The questions, with what the judge of the loop is to check.
        truth: Says whether an answer keeps all rules of its question.
    """

    name: str
    questions: list[Sample]
    truth: Callable[[Sample], bool]


def ifeval_set(prompts: Path, checker: Path) -> QuestionSet:
    """Return IFEval's prompts, with its own checker as the truth.

    Args:
        prompts: Lines with `key`, `prompt`, `instruction_id_list` and `kwargs`.
        checker: A module with `follows(row, answer)`, which returns a list of booleans, one an instruction.
    """
    rows = [json.loads(line) for line in prompts.read_text(encoding="utf-8").splitlines() if line.strip()]
    follows = module_at(checker).follows
    by_key = {row["key"]: row for row in rows}

    def official(sample: Sample) -> bool:
        return all(follows(by_key[sample.metadata["key"]], sample.answer))

    return QuestionSet("ifeval", [_ifeval_sample(row) for row in rows], official)


def short_set() -> QuestionSet:
    """Return the short prompts, with a rule each."""
    rows = [json.loads(line) for line in _SHORT.read_text(encoding="utf-8").splitlines()]
    questions = [
        Sample(user_input=row["question"], metadata={"rule": row["rule"], "instructions": row["instructions"]})
        for row in rows
    ]

    def keeps_its_rule(sample: Sample) -> bool:
        rule: Any = sample.metadata["rule"]
        return _RULES[rule["kind"]](rule, (sample.answer or "").strip())

    return QuestionSet("short", questions, keeps_its_rule)


def _ifeval_sample(row: Mapping[str, Any]) -> Sample:
    metadata = {name: row[name] for name in ("key", "instruction_id_list", "kwargs")}
    return Sample(user_input=row["prompt"], metadata=metadata)


def module_at(path: Path) -> Any:
    """Return the module in a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        sys.exit(f"--check {path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _is_object_with(rule: Mapping[str, Any], answer: str) -> bool:
    fenced = _FENCE.match(answer)
    try:
        value = json.loads(fenced[1] if fenced else answer)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and set(rule["keys"]) <= value.keys()


def _is_short(rule: Mapping[str, Any], answer: str) -> bool:
    return 0 < len(answer.split()) <= int(rule["at_most"])


def _uses_all(rule: Mapping[str, Any], answer: str) -> bool:
    return all(re.search(rf"\b{re.escape(word)}", answer, re.IGNORECASE) for word in rule["words"])


def _is_lower(_: Mapping[str, Any], answer: str) -> bool:
    return answer.islower()


def _has_bullets(rule: Mapping[str, Any], answer: str) -> bool:
    lines = [line.strip() for line in answer.splitlines()]
    return sum(line.startswith(("* ", "- ")) for line in lines) == int(rule["exactly"])


_RULES: Mapping[str, Callable[[Mapping[str, Any], str], bool]] = {
    "bullets": _has_bullets,
    "json": _is_object_with,
    "lower": _is_lower,
    "use": _uses_all,
    "words": _is_short,
}
