"""What is known about a judge before it runs: its `Entry` in the catalogue, and its `Explanation`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import Any, Literal

Better = Literal["high", "low", "unknown"]
Subject = Literal["answer", "retriever", "agent", "conversation"]
_InLoop = Literal["yes", "with evidence", "with an agent", "no"]

_DIRECTIONS: Mapping[Better, str] = {
    "high": "",
    "low": ", low is good",
    "unknown": "; higher_is_better=... says what is good",
}
_ALTERNATIVE = re.compile(r"(?:or |compat )?((?:\d+|\d*[a-z])(?: \+ (?:\d+|\d*[a-z]))*)(?: .+)?")
"""One of a formula's alternatives, which `,` and `;` part: `2`, `3 + 2n`, `or s for s sentences`."""

_WHOLE: Mapping[Subject, str] = {
    "retriever": "It judges what was found, not what is written.",
    "agent": "It judges what an agent did, and not the text.",
    "conversation": "It judges turns that are over.",
}
"""Why a judge of a subject needs the whole, unless its entry says another reason."""

_WHOLE_REFERENCE = "The reference answers the whole question."

_IN_PIECES = {True: "holds for each piece of an answer", False: "needs the whole answer"}
_BROUGHT_BY_THE_LOOP = frozenset({"user_input", "response"})


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting of a judge.

    Args:
        name: Its name, a keyword of `judges.load`.
        type: The values it takes, as Python writes types.
        default: What counts where it is not set, as Python writes it; empty if it is required.
        required: Whether it must be set.
        meaning: What it does.
        example: How one might set it: `k=5`.
        shared: Whether it means the same in all judges that have it, such as `model` and `threshold`.
        holds_expressions: Whether regular expressions may be in it, one of which may never end.
    """

    name: str
    type: str
    default: str = ""
    required: bool = False
    meaning: str = ""
    example: str = ""
    shared: bool = False
    holds_expressions: bool = False

    def __str__(self) -> str:
        default = "" if self.required else f" = {self.default}"
        return f"{self.name}: {self.type}{default}"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A judge's entry in the catalogue.

    Args:
        name: Its qualified name: the source and the reference's own name in snake case, `"ragas.faithfulness"`.
        asks: The question it answers, in one sentence.
        needs: Required fields of a sample.
        calls: Model calls for one sample, as a formula: n contexts, t topics, k repeats. Alternatives stand behind
            `,` or `;`, each first its sum, then in words when it holds: `"3 + n; compat 3 + 2n"`.
        reads: Criteria that it reads where a sample has them: `guidelines`, `rubrics`.
        aliases: Other names to load it by.
        scale: What `Verdict.value` ranges over.
        better: Whether a high or a low value is good; `Verdict.score` is always high when things are good.
        subject: What is judged. If it is the retriever, rewriting the answer cannot help.
        source: Who defined it: project, paper or page.
        differs: Where `variant="corrected"` differs from the source, and why.
        extra: The package extra it needs; empty where the core suffices.
        tags: Words to find it by besides its names: synonyms, and what it guards against.
        follows: Which generation of the source's classes `variant="compat"` reproduces, where the source has two.
        judges_parts: Whether it holds for a part of an answer as for the whole, so that an answer can be judged
            piece by piece while it is written; None where nobody said so, which counts as no. It is no where a
            reason is given, where the subject is no answer, and where a reference is needed, unless it is said.
        parts_reason: Why, in a sentence, where that is not obvious.
    """

    name: str
    asks: str
    needs: tuple[str, ...]
    calls: str = "0"
    reads: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    scale: str = "0 to 1"
    better: Better = "high"
    subject: Subject = "answer"
    source: str = ""
    differs: str = ""
    extra: str = ""
    tags: tuple[str, ...] = ()
    follows: str = ""
    judges_parts: bool | None = None
    parts_reason: str = ""

    def __post_init__(self) -> None:
        for key, value in vars(self).items():
            if isinstance(value, list):  # nothing that has a list can be remembered
                object.__setattr__(self, key, tuple(value))
        reason = self.parts_reason or _WHOLE.get(self.subject) or ("reference" in self.needs and _WHOLE_REFERENCE)
        if self.judges_parts is None and reason:
            object.__setattr__(self, "judges_parts", False)
            object.__setattr__(self, "parts_reason", reason)

    @property
    def in_loop(self) -> _InLoop:
        """True if its feedback can better an answer in the loop.

        What the retriever found, and turns that are over, cannot be written again; an agent can act again. A judge
        of the answer that needs more than question and answer needs `evidence=`, or a generator that brings it.
        """
        if self.subject in ("retriever", "conversation"):
            return "no"
        if self.subject == "agent":
            return "with an agent"
        return "yes" if _BROUGHT_BY_THE_LOOP.issuperset(self.needs) else "with evidence"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a judge will do, known before anything is spent; `str()` formats it for people.

    Args:
        judge: The judge's name.
        asks: The question it answers.
        needs: Required fields of a sample.
        reads: Further fields that it reads where a sample has them.
        calls: Model calls for one sample, as a formula; see `Entry`.
        scale: What `Verdict.value` ranges over.
        better: Whether a high or a low value is good; `"unknown"` where nobody said so.
        variant: `"corrected"` or `"compat"`; empty where there is only one form.
        models: The models it asks.
        prompts: Its instructions to them, by the name of their file in a pack.
        prompt_tokens: The fewest and the most tokens that its longest prompt has before any data, estimated from
            its letters; the data and the reply come on top, and all must fit the model's context.
        parts: The judges inside it.
        repeats: How often those are asked about one sample.
        settings: The settings of its class, its own before those that all judges share.
        judges_parts: Whether it holds for a part of an answer as for the whole, with these settings.
        parts_reason: Why, in a sentence, where that is not obvious.
    """

    judge: str
    asks: str = ""
    needs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    calls: str = "0"
    scale: str = "0 to 1"
    better: Better = "high"
    variant: str = ""
    models: tuple[str, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    prompt_tokens: tuple[int, int] = (0, 0)
    parts: tuple[Explanation, ...] = ()
    repeats: int = 1
    settings: tuple[Setting, ...] = ()
    judges_parts: bool = False
    parts_reason: str = ""

    @classmethod
    def of_parts(cls, judge: str, parts: Sequence[Explanation], **overrides: Any) -> Explanation:
        """Explain a judge made of judges: it has the needs and the calls of all its parts."""
        calls = [part.calls for part in parts if part.calls != "0"]
        needs = tuple(dict.fromkeys(need for part in parts for need in part.needs))
        reads = tuple(dict.fromkeys(field for part in parts for field in part.reads))
        longest = max((part.prompt_tokens for part in parts), default=(0, 0))
        fields = {
            "needs": needs,
            "reads": reads,
            "calls": " + ".join(calls) or "0",
            "models": tuple(dict.fromkeys(model for part in parts for model in part.models)),
            "prompt_tokens": longest,
            "judges_parts": bool(parts) and all(part.judges_parts for part in parts),
            **overrides,
        }
        return cls(judge=judge, parts=tuple(parts), **fields)

    def most_calls(self, items: int) -> int:
        """Return how many model calls it takes for one sample, at most, as far as its formula says.

        Args:
            items: How many contexts there are, and what else the formula counts by a letter.
        """
        if self.parts:
            return self.repeats * sum(part.most_calls(items) for part in self.parts)
        if not self.models:
            return 0
        alternatives = [_ALTERNATIVE.fullmatch(part.strip()) for part in re.split("[,;]", self.calls)]
        sums = [read[1].split(" + ") for read in alternatives if read is not None]
        return max([1, *(sum(_calls_of(term, items) for term in terms) for terms in sums)])

    @property
    def without_direction(self) -> tuple[str, ...]:
        """The names of the judges, this one or inside it, of which nobody said which value is good."""
        inside = (name for part in self.parts for name in part.without_direction)
        return (*((self.judge,) if self.better == "unknown" else ()), *inside)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.judge}: {self.asks}" if self.asks else self.judge
        fewest, most = self.prompt_tokens
        summary = {
            "needs": ", ".join(self.needs),
            "calls": self.calls,
            "scale": self.scale + _DIRECTIONS[self.better],
            "variant": self.variant,
            "models": ", ".join(self.models),
            "prompt": f"{fewest:,} to {most:,} tokens before the data, as an estimate" if most else "",
            "pieces": "; ".join(filter(None, (_IN_PIECES[self.judges_parts], self.parts_reason))),
            "settings": ", ".join(setting.name for setting in self.settings),
        }
        yield from (f"  {name:<8} {text}" for name, text in summary.items() if text)
        for setting in (setting for setting in self.settings if not setting.shared):
            meaning = "\n".join(
                filter(None, (setting.meaning, setting.example and f"for example {setting.example}"))
            )
            yield f"  setting {setting}" + (f"\n{indent(meaning, '    ')}" if meaning else "")
        for name, text in self.prompts.items():
            yield f"  prompt {name!r}:\n{indent(text, '    | ', lambda _: True)}"
        for part in self.parts:
            yield indent(str(part), "  ")


def own_entry(name: str) -> Entry:
    """Return the entry of a judge of this package: `entries.toml` has all of them, each under its name."""
    return Entry(name=name, **own_tables(__file__, "entries.toml")[name])


@cache
def own_tables(module: str, name: str) -> Mapping[str, Any]:
    """Return the tables of a file of data that lies beside a module of this package."""
    return tomllib.loads(Path(module).with_name(name).read_text(encoding="utf-8"))


def _calls_of(term: str, items: int) -> int:
    number = term.rstrip("abcdefghijklmnopqrstuvwxyz")
    return int(number or 1) * (items if number != term else 1)
