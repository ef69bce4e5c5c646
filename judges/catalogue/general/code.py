"""Code in the answer: every fenced block is parsed by the rules of its language, and never run."""

from __future__ import annotations

from typing import ClassVar, Unpack

from judges.catalogue.metric import ComputedMetric, MetricSettings
from judges.catalogue.parts.code_blocks import CodeBlock, NotChecked, code_blocks, fault_in_code
from judges.catalogue.parts.items import bullets, share
from judges.catalogue.parts.needed import answer_in
from judges.entry import Entry
from judges.errors import CannotJudge, ConfigurationError, shortened
from judges.sample import Sample
from judges.verdict import Verdict


class Code(ComputedMetric):
    """Judge whether the code in the answer parses: Python, JSON (lines), TOML, YAML and, with the extra, SQL.

    Score = blocks that parse / blocks that could be checked; each block is an item, and one in another language is
    an unscored item that names it. A block whose fence is not closed fails. Nothing is ever run.

    Args:
        unfenced: Language of an answer without any fence, such as `"python"`; None leaves such an answer unscored.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    entry: ClassVar[Entry] = Entry(
        name="code",
        aliases=("code_syntax", "valid_code", "Code"),
        asks="Does the code in the answer parse?",
        needs=("response",),
        tags=("syntax", "programming", "python", "json", "toml", "yaml", "sql", "format", "compile"),
        examples=('unfenced="python"',),
    )
    pack = "code"
    pass_mark = 1.0

    def __init__(self, *, unfenced: str | None = None, **settings: Unpack[MetricSettings]) -> None:
        value: object = unfenced
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise ConfigurationError(f"unfenced names a language such as 'python', not {shortened(unfenced)}")
        super().__init__(**settings)
        self._unfenced = unfenced

    def compute(self, sample: Sample) -> Verdict:
        """Parse every block."""
        answer = answer_in(sample)
        blocks = code_blocks(answer)
        if not blocks and self._unfenced is not None:
            blocks = (CodeBlock(self._unfenced.strip().lower(), answer),)
        if not blocks:
            raise CannotJudge("undefined", "there is no fenced code in the answer")
        items = [_verdict_on(number, block) for number, block in enumerate(blocks, 1)]
        scored = [item for item in items if item.unscored is None]
        if not scored:
            details = "; ".join(dict.fromkeys(item.detail for item in items))
            return Verdict.without_score("undefined", f"no code could be checked: {details}", items=tuple(items))
        failed = [f"{item.subject}: {item.rationale}" for item in scored if not item.passed]
        skipped = "; ".join(f"{item.subject} was not checked" for item in items if item.unscored is not None)
        feedback = self.say("broken", sample, blocks=bullets(failed)) if failed else ""
        rationale = "\n".join(failed) or f"{len(scored)} of {len(items)} blocks were checked, and parse."
        return self.verdict(
            share(scored), items=tuple(items), rationale=rationale, feedback=feedback, detail=skipped
        )


def _verdict_on(number: int, block: CodeBlock) -> Verdict:
    subject = f"{number} ({block.language or '?'})"
    if not block.is_closed:
        return Verdict.checked(passed=False, subject=subject, rationale="the fence is not closed")
    try:
        fault = fault_in_code(block)
    except NotChecked as reason:
        return Verdict.without_score("undefined", f"not checked: {reason}", subject=subject)
    return Verdict.checked(not fault, subject=subject, rationale=fault or "It parses.")
