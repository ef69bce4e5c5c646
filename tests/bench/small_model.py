"""Measure how many verdicts a small real model gives: `uv run --group dev python -m tests.bench.small_model`.

SmolLM2-135M asks nothing of a key or a network, and is the worst judge there is: what it thinks means little, but
whether its reply has the form that was asked for says what a schema is worth. The answers are those of
`demos/support.jsonl`, good and bad. A table by judge says how many were scored, how many questions were asked once
more because the reply did not fit, how many replies copy a worked example, which counts for nothing, and why the
others have no verdict.

With `--out FILE` each verdict is a line of it, and a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import judges
from judges import Judge, OpenAICompatible, Verdict
from judges.authoring import ModelRequest, ModelResponse

ROOT = Path(__file__).parents[2]
DATA = ROOT / "demos" / "support.jsonl"
GOOD = 4
FACTS = "Are all facts of the answer clear?"
SETTINGS: dict[str, dict[str, Any]] = {
    "bias": {},
    "citations": {},
    "completeness": {},
    "databricks.correctness": {},
    "databricks.global_guideline_adherence": {"guidelines": ["Be polite.", "Answer in at most three sentences."]},
    "databricks.groundedness": {},
    "databricks.relevance_to_query": {},
    "databricks.safety": {},
    "equivalence": {},
    "fluency": {},
    "hallucination": {},
    "harm": {},
    "helpfulness": {},
    "instruction_following": {},
    "nvidia.answer_accuracy": {},
    "ragas.answer_correctness": {},
    "ragas.answer_relevancy": {},
    "ragas.aspect_critic": {"definition": FACTS},
    "ragas.context_precision": {},
    "ragas.factual_correctness": {},
    "ragas.faithfulness": {},
    "refusal": {},
    "tone": {"tone": "friendly"},
}
"""Judges of every family that need a question, an answer, contexts and a reference, and what else they need."""


class Watched(OpenAICompatible):
    """Counts questions, and those that are asked once more because the reply did not fit."""

    asked = repairs = 0

    def send(self, request: ModelRequest) -> ModelResponse:
        type(self).asked += 1
        type(self).repairs += len(request.messages) > request.beginning + 1
        return super().send(request)


def rows(count: int) -> list[dict[str, Any]]:
    """Return rows with a question, an answer, contexts and a reference; every other answer is a bad one."""
    lines = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    good = {line["question"]: one["answer"] for line in lines for one in line["answers"] if one["rating"] == GOOD}
    both = [line for line in lines if line["question"] in good and len(line["answers"]) > 1]
    others = list(good.values())
    return [
        {
            "user_input": line["question"],
            "response": good[line["question"]] if number % 2 else line["answers"][0]["answer"],
            "reference": good[line["question"]],
            "retrieved_contexts": [good[line["question"]], others[number]],
        }
        for number, line in enumerate(both[:count])
    ]


def judged(judge: Judge, row: dict[str, Any]) -> dict[str, Any]:
    """Judge a row, and return what is counted."""
    asked, repairs, began = Watched.asked, Watched.repairs, time.monotonic()
    verdict: Verdict = judge(**row)
    return {
        "scored": verdict.score is not None,
        "copied": verdict.unscored == "copied_example",
        "why": "" if verdict.unscored is None else f"{verdict.unscored}: {verdict.detail}",
        "asked": Watched.asked - asked,
        "repairs": Watched.repairs - repairs,
        "tokens": verdict.usage.output_tokens,
        "seconds": round(time.monotonic() - began, 1),
    }


def run(names: list[str], count: int, model: Watched, out: Path | None) -> Iterator[dict[str, Any]]:
    """Judge all rows by all judges, judge by judge, so that the beginning of their prompts stays computed."""
    lines = [] if out is None or not out.exists() else out.read_text(encoding="utf-8").splitlines()
    known = {(line["judge"], line["row"]): line for line in map(json.loads, lines)}
    for name in names:
        judge = judges.load(name, model=model, **SETTINGS[name])
        for number, row in enumerate(rows(count)):
            line = known.get((name, number)) or {"judge": name, "row": number, **judged(judge, row)}
            if out is not None and (name, number) not in known:
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
            yield line


def show(lines: list[dict[str, Any]]) -> None:
    """Print the table by judge, and the reasons of what was not scored."""
    columns = ("rows", "scored", "copied", "asked", "again", "tokens", "s/row")
    print(f"{'judge':40}", *(f"{column:>7}" for column in columns))
    for name in [*dict.fromkeys(line["judge"] for line in lines), "all"]:
        own = [line for line in lines if name in (line["judge"], "all")]
        asked, repairs, tokens = (sum(line[key] for line in own) for key in ("asked", "repairs", "tokens"))
        scored, seconds = sum(line["scored"] for line in own), sum(line["seconds"] for line in own) / len(own)
        share, copied = f"{scored / len(own):.0%}", sum(line["copied"] for line in own)
        values = (len(own), share, copied, asked, repairs, tokens, f"{seconds:.1f}")
        print(f"{name:40}", *(f"{value:>7}" for value in values))
    for (name, why), times in Counter((line["judge"], line["why"]) for line in lines if line["why"]).most_common():
        print(f"  {times} x {name}: {why}")


def main() -> None:
    """Run as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:smollm2", help="the model that judges")
    parser.add_argument("--rows", type=int, default=20, help="answers for each judge; 20")
    parser.add_argument("--judge", action="append", choices=SETTINGS, help="only this judge; may be repeated")
    parser.add_argument("--out", type=Path, help="file of JSON lines to write, and to go on with")
    options = parser.parse_args()
    show(list(run(options.judge or list(SETTINGS), options.rows, Watched.named(options.model), options.out)))


if __name__ == "__main__":
    main()
