"""A cheap level before a judge: `Learned`, which weighs what a text shows, and `first_level`, both together."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Generator, Mapping, Sequence
from functools import cache
from operator import mul
from pathlib import Path
from typing import Any, Literal, get_args

from judges.compose.cascade import Escalation
from judges.compose.panel import as_judge
from judges.entry import Explanation
from judges.errors import CannotJudge, ConfigurationError, shortened
from judges.judge import Judge
from judges.model import EmbeddingModel
from judges.models.providers.minilm_and_hhem import MiniLM, word_pieces
from judges.requests import Deliberation, Embed
from judges.runtime.faults import write_whole
from judges.sample import Sample
from judges.verdict import HIGHEST, LOWEST, Verdict

Vectors = Literal["none", "pieces", "minilm"]
"""What texts are turned into besides counts: the mean of their word pieces, or what MiniLM makes of a part."""

VECTORS: tuple[Vectors, ...] = get_args(Vectors)
_KIND = "selfrefine.learned"
_VERSION = 2
_LAYERS = (0, 3, 5)
_TOKENS = 24
"""What of MiniLM reads how much of each text: all of both is too slow for a first level.

Area under the curve of "the answer belongs to its question" (`demos/support.jsonl`): 0.94 by all of it, 0.93 by 24
tokens, 0.81 by these layers of them, and 0.57 by word pieces.
"""

_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_LONGEST = 4_000
"""Most characters of a text that are looked at."""

_SHORT_WORD = 4


@cache
def vectors_of(kind: Vectors) -> EmbeddingModel | None:
    """Return the model of a kind of vectors, whose weights are in memory once; None for no vectors."""
    if kind == "minilm":
        return MiniLM(layers=_LAYERS, tokens=_TOKENS)
    return word_pieces() if kind == "pieces" else None


def look_at(sample: Sample, model: EmbeddingModel | None) -> Generator[Any, Any, list[float]]:
    """Return what a sample shows, as numbers, with `yield from`: overlaps and shapes, then vectors.

    Raises:
        CannotJudge: If there is no answer.
    """
    if not (sample.answer or "").strip():
        raise CannotJudge("no_response", "there is no answer to judge")
    question, answer = (sample.question or "")[:_LONGEST], (sample.answer or "")[:_LONGEST]
    contexts = "\n".join(sample.retrieved_contexts or ())[:_LONGEST]
    numbers = _counts(question, answer, contexts)
    if model is None:
        return numbers
    texts = (question or "-", answer, *([contexts] if contexts else ()))
    vectors: list[list[float]] = yield Embed(model, texts)
    question_vector, answer_vector, *context_vectors = vectors
    products = [x * y for x, y in zip(question_vector, answer_vector, strict=True)]
    near = math.fsum(x * y for vector in context_vectors for x, y in zip(vector, answer_vector, strict=True))
    return [*numbers, math.fsum(products), near, *answer_vector, *products]


def _counts(question: str, answer: str, contexts: str) -> list[float]:
    """Return lengths, overlaps and shapes of the texts."""
    question_words, answer_words, context_words = (
        _WORD.findall(text.casefold()) for text in (question, answer, contexts)
    )
    content = {word for word in answer_words if len(word) >= _SHORT_WORD}
    numbers = set(_NUMBER.findall(answer))
    supported = numbers & {*_NUMBER.findall(question), *_NUMBER.findall(contexts)}
    lines = answer.splitlines() or [""]
    return [
        math.log1p(len(answer_words)),
        math.log1p(len(question_words)),
        math.log1p(len(answer_words)) - math.log1p(len(question_words)),
        _share(content & set(question_words), content),
        _share(set(question_words) & set(answer_words), set(question_words)),
        float(bool(contexts)),
        _share(content & set(context_words), content) if contexts else 0.0,
        math.log1p(len(numbers)),
        _share(supported, numbers) if numbers else 1.0,
        _share(set(answer_words), answer_words),
        float(answer.rstrip()[-1:] in ".!?)\"'`。！？"),
        math.log1p(answer.count("?")),
        math.log1p(len(lines)),
        sum(line.lstrip()[:1] in {"-", "*", "•"} or bool(re.match(r"\s*\d+[.)]", line)) for line in lines)
        / len(lines),
        sum(letter.isupper() for letter in answer) / len(answer),
    ]


def _share(part: Sequence[str] | set[str], whole: Sequence[str] | set[str]) -> float:
    return len(part) / len(whole) if whole else 0.0


class Learned(Judge):
    """Decide like another judge where it is sure, by what `judges.offline.learn` learned of its verdicts.

    It rates 4 where it would accept, 1 where it would refuse, and 2 or 3 in between, which is no decision: an
    `Escalation` with `sure=4` then asks the next judge. It gives no feedback. Nothing leaves this process.

    Raises:
        ConfigurationError: If the file cannot be read or was changed, or what it needs is not installed.
    """

    def __init__(self, file: str | Path, *, name: str = "learned") -> None:
        self.name = name
        content = _read_learned(Path(file))
        self._weights: tuple[float, ...] = tuple(content["weights"])
        self._intercept: float = content["intercept"]
        self._accept: float | None = content["accept"]
        self._refuse: float | None = content["refuse"]
        self._kind: Vectors = content["vectors"]
        self._vectors = vectors_of(self._kind)

    def fingerprint_parts(self) -> tuple[object, ...]:
        """Return what its verdicts depend on; where its file lies does not count."""
        return self.name, self._kind, self._weights, self._intercept, self._accept, self._refuse

    def explain(self) -> Explanation:
        """Describe what the judge needs and reads."""
        return Explanation(
            judge=self.name,
            asks="Would the judge that it learned from accept this?",
            needs=("user_input", "response"),
            reads=("retrieved_contexts",),
            scale="1 to 4",
        )

    def deliberate(self, sample: Sample) -> Deliberation:
        """Weigh what the sample shows."""
        if self._accept is None and self._refuse is None:
            return Verdict.rated(LOWEST + 1, success_rating=HIGHEST, detail="it learned to decide nothing")
        if len(sample.answer or "") > _LONGEST:  # or whatever follows so many good words would be accepted unread
            return Verdict.rated(
                LOWEST + 1, success_rating=HIGHEST, detail="it sees a part of an answer this long"
            )
        shown = yield from look_at(sample, self._vectors)
        share = likelihood(self._weights, self._intercept, shown)
        detail = f"accepted with probability {share:.3f}"
        if self._accept is not None and share >= self._accept:
            return Verdict.rated(HIGHEST, detail=detail)
        if self._refuse is not None and share <= self._refuse:
            return Verdict.rated(LOWEST, detail=detail)
        return Verdict.rated(3 if share >= 0.5 else 2, success_rating=HIGHEST, detail=detail)  # noqa: PLR2004


def likelihood(weights: Sequence[float], intercept: float, shown: Sequence[float]) -> float:
    """Return how likely it is that the judge accepts, by logistic regression."""
    logit = intercept + sum(map(mul, weights, shown))
    return 1 / (1 + math.exp(-max(-500.0, min(500.0, logit))))


def first_level(
    file: str | Path, judge: object, *, model: object = None, refuses: bool = False, name: str = "first_level"
) -> Judge:
    """Return a judge that asks another only where what was learned of it is not sure.

    In a `judges.toml`: `use = "judges:first_level"`, `file = "first.json"`, `judge = "helpfulness"`.

    Args:
        file: The file that `refine learn` wrote.
        judge: The judge that it was learned of.
        model: The model of a judge that is given by name.
        refuses: Whether it also refuses alone; else the judge is asked, and writes the feedback.
        name: The name of both together.

    Raises:
        ConfigurationError: If the file or the judge cannot be used.
    """
    levels = [Learned(file), judge if isinstance(judge, str) else as_judge(judge)]
    return Escalation(levels, sure=HIGHEST, sure_bad=LOWEST if refuses else None, model=model, name=name)


def write_learned(file: Path, content: Mapping[str, Any]) -> str:
    """Write what was learned, with an id made of it, and return that."""
    whole = {"kind": _KIND, "version": _VERSION, **content}
    identity = _identity(whole)
    text = json.dumps({**whole, "id": identity}, ensure_ascii=False, indent=1, sort_keys=True)
    write_whole(file, f"{text}\n")
    return identity


def _read_learned(file: Path) -> Mapping[str, Any]:
    """Return what was learned.

    Raises:
        ConfigurationError: If the file cannot be read, holds something else, or was changed.
    """
    remedy = "learn it again, `refine learn attempts.jsonl`"
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no JSON"
        raise ConfigurationError(f"the file {shortened(str(file))} cannot be read: {reason}; {remedy}") from None
    versions = (1, _VERSION) if isinstance(content, dict) and content.get("vectors") != "minilm" else (_VERSION,)
    if not isinstance(content, dict) or content.get("kind") != _KIND or content.get("version") not in versions:
        raise ConfigurationError(f"{shortened(str(file))} is no file that `refine learn` of this version wrote")
    identity = content.pop("id", None)
    if identity != _identity(content):
        raise ConfigurationError(f"{shortened(str(file))} was changed after it was learned; {remedy}")
    return dict(content)


def _identity(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
