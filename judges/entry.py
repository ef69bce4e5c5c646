"""What is known of a judge before it is asked: its `Entry` in the catalogue, and its `Explanation`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import indent
from typing import Any, Literal

Better = Literal["high", "low"]
Subject = Literal["answer", "retriever", "agent", "conversation"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A judge's place in the catalogue.

    Args:
        name: Its qualified name: the source and the reference's own name in snake case, `"ragas.faithfulness"`.
        asks: The question it answers, in one sentence.
        needs: Fields of a sample it cannot do without.
        calls: Model calls for one sample, as a formula: n contexts, t topics, k repeats.
        aliases: Other names it is loaded by.
        scale: What `Verdict.value` ranges over.
        better: Whether a high or a low value is good; `Verdict.score` is high when things are good, always.
        subject: What is judged. Where it is the retriever, no rewrite of the answer can mend it.
        source: Who defined it: project, paper or page.
        differs: Where `variant="corrected"` differs from the source, and why.
        extra: The extra it needs; empty where the core suffices.
    """

    name: str
    asks: str
    needs: tuple[str, ...]
    calls: str = "0"
    aliases: tuple[str, ...] = ()
    scale: str = "0 to 1"
    better: Better = "high"
    subject: Subject = "answer"
    source: str = ""
    differs: str = ""
    extra: str = ""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a judge will do, told before anything is spent; `str()` of it is for people.

    Args:
        judge: The judge's name.
        asks: The question it answers.
        needs: Fields of a sample it cannot do without.
        calls: Model calls for one sample, as a formula; see `Entry`.
        scale: What `Verdict.value` ranges over.
        better: Whether a high or a low value is good.
        variant: `"corrected"` or `"compat"`; empty where there is one form only.
        models: The models it asks.
        prompts: The instructions it gives them, by the name of their file in a pack.
        parts: The judges inside it.
    """

    judge: str
    asks: str = ""
    needs: tuple[str, ...] = ()
    calls: str = "0"
    scale: str = "0 to 1"
    better: Better = "high"
    variant: str = ""
    models: tuple[str, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[Explanation, ...] = ()

    @classmethod
    def of_parts(cls, judge: str, parts: Sequence[Explanation], **told: Any) -> Explanation:
        """Explain a judge made of judges: it needs what they need, and makes the calls that they make."""
        calls = [one.calls for one in parts if one.calls != "0"]
        needs = tuple(dict.fromkeys(need for one in parts for need in one.needs))
        models = tuple(dict.fromkeys(model for one in parts for model in one.models))
        given = {"needs": needs, "calls": " + ".join(calls) or "0", "models": models, **told}
        return cls(judge=judge, parts=tuple(parts), **given)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.judge}: {self.asks}" if self.asks else self.judge
        told = {
            "needs": ", ".join(self.needs),
            "calls": self.calls,
            "scale": self.scale + (", low is good" if self.better == "low" else ""),
            "variant": self.variant,
            "models": ", ".join(self.models),
        }
        yield from (f"  {name:<8} {text}" for name, text in told.items() if text)
        for name, text in self.prompts.items():
            yield f"  prompt {name!r}:\n{indent(text, '    | ', lambda _: True)}"
        for part in self.parts:
            yield indent(str(part), "  ")
