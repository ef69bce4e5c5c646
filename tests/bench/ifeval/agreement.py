"""Compare `verifiable_instructions` with IFEval's own checker: `python -m tests.bench.ifeval.agreement`.

    python -m tests.bench.ifeval.agreement --prompts prompts.jsonl --check check.py --answers 20

The answers are those that a real model gave to each prompt, from the raw attempts, and these once more as somebody
would write them who keeps, or nearly keeps, one of the instructions. Each difference is counted by its kind, with
an example, for a person to say who is right.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from judges import Sample, load
from tests.bench.ifeval.prompts import ifeval_set, module_at
from tests.bench.ifeval.raw import read_all

_SEED = 0


def main() -> None:
    """Compare, and print the shares and the differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=Path, required=True, help="IFEval's prompts.jsonl")
    parser.add_argument("--check", type=Path, required=True, help="a module with follows(row, answer)")
    parser.add_argument("--answers", type=int, default=20, help="how many to each prompt")
    options = parser.parse_args()
    questions = ifeval_set(options.prompts, options.check).questions
    follows, judge = module_at(options.check).follows, load("verifiable_instructions")
    total, same, differences, examples = 0, 0, Counter[tuple[str, str]](), dict[tuple[str, str], str]()
    for question, texts in zip(questions, _answers(questions, options.answers), strict=True):
        row: dict[str, Any] = {**question.metadata, "prompt": question.question}
        for text in texts:
            verdict = judge(question.model_copy(update={"response": text}))
            for name, theirs, item in zip(
                row["instruction_id_list"], follows(row, text), verdict.items, strict=True
            ):
                ours = bool(item.passed)
                total, same = total + 1, same + (ours == theirs)
                if ours != theirs:
                    kind = name, "kept" if ours else "not kept"
                    differences[kind] += 1
                    examples.setdefault(kind, text)
    print(
        f"{total} instructions of {len(questions)} prompts x {options.answers} answers: {same / total:.2%} alike"
    )
    for kind, times in differences.most_common():
        print(f"{times:5} {kind[0]}: here {kind[1]}, there not so; such as {examples[kind][:160]!r}")


def _answers(questions: list[Sample], count: int) -> Iterator[list[str]]:
    """Yield answers to each question: those of the model, and changed ones until there are enough."""
    given: dict[int, dict[str, None]] = {}
    for facts, found in read_all().values():
        for row in found.rows if facts["set"] == "ifeval" else ():
            given.setdefault(row.question, {}).update((one.text, None) for one in row.attempts if one.text.strip())
    for number, question in enumerate(questions):
        texts, draw = list(given.get(number, {}))[: count // 2], random.Random(f"{_SEED}/{number}")
        real = texts or ["I cannot say."]
        while len(texts) < count:
            changes = draw.sample(_CHANGES, draw.randint(1, 3))
            text = draw.choice(real)
            for change in changes:
                text = change(text, {**question.metadata, "prompt": question.question})
            if text.strip():
                texts.append(text)
        yield texts


def _settings(metadata: Mapping[str, Any], name: str, otherwise: Any) -> Any:
    return next((one[name] for one in metadata["kwargs"] if one.get(name) is not None), otherwise)


def _with_keywords(text: str, metadata: Mapping[str, Any]) -> str:
    words = _settings(metadata, "keywords", None) or _settings(metadata, "forbidden_words", ["word"])
    return f"{text} {' '.join(words)}"


def _with_keyword(text: str, metadata: Mapping[str, Any]) -> str:
    times = _settings(metadata, "frequency", 2)
    return "".join(f"{text}\n{_settings(metadata, 'keyword', 'thing')} " for _ in range(times))


def _in_paragraphs(text: str, metadata: Mapping[str, Any]) -> str:
    parts = re.split(r"(?<=[.!?])\s+", text)[: _settings(metadata, "num_paragraphs", 3)]
    divider = "\n\n" if _settings(metadata, "first_word", None) else "\n***\n"
    return divider.join(f"{_settings(metadata, 'first_word', '')} {part}".strip() for part in parts)


def _in_bullets(text: str, metadata: Mapping[str, Any]) -> str:
    return "\n".join(f"* {line}" for line in text.split(". ")[: _settings(metadata, "num_bullets", 3)])


def _in_sections(text: str, metadata: Mapping[str, Any]) -> str:
    heading, number = _settings(metadata, "section_spliter", "SECTION"), _settings(metadata, "num_sections", 2)
    return "\n".join(f"{heading} {n + 1}\n{text[n * 80 : n * 80 + 80]}" for n in range(number))


_CHANGES: list[Callable[[str, Mapping[str, Any]], str]] = [
    lambda text, _: text.upper(),
    lambda text, _: text.lower(),
    lambda text, _: text.replace(",", ""),
    lambda text, _: f'"{text.strip()}"',
    lambda text, _: f"<<{text[:20].strip()}>>\n{text}",
    lambda text, _: f"{text}\nP.S. {text[:30]}",
    lambda text, _: f"{text}\nP.P.S {text[:30]}",
    lambda text, _: text[: len(text) // 3],
    lambda text, _: f"{text}\n\n{text}",
    lambda text, _: f"{text}\n******\n{text[::-1]}",
    lambda text, _: re.sub(r"(\w+) (\w+)", r"*\1* \2", text, count=6),
    lambda text, _: re.sub(r"(\w+) (\w+)", r"[\1] \2", text, count=5),
    lambda text, _: f'```json\n{{"answer": "{re.sub(r"[^a-z ]", "", text)}"}}\n```',
    lambda text, metadata: f"{metadata['prompt']}\n{text}",
    lambda text, metadata: f"{text} {_settings(metadata, 'end_phrase', 'Done.')}",
    lambda text, _: f"{text} My answer is yes.",
    _with_keywords,
    _with_keyword,
    _in_paragraphs,
    _in_bullets,
    _in_sections,
]


if __name__ == "__main__":
    main()
