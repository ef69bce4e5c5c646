"""The page about a measurement, docs/benefit.md, and its plot: made of the raw attempts alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from graphs import Policy
from judges.offline.statistics import LoopBenefit
from refine import Trial

_DOCS = Path(__file__).parents[3] / "docs"
_LEAST_BESIDE_FRESH = -0.04
_LEAST_P = 0.001
_NAMES = {"ifeval": "IFEval's prompts", "short": "short prompts, a rule each"}

_HEAD = """# Does feedback help? A measurement

A real model answers prompts whose rules a program can check. Every arm begins with the same first answer, and may
generate {attempts} in all; the loop's judge, `verifiable_instructions`, decides whether to go on. Whether an
answer is good is for another program to say: for IFEval its own checker, for the short prompts a few lines beside
them. `fresh` asks again without feedback, so it is what a loop has to beat. All figures come from the raw attempts
in `tests/bench/ifeval/raw`:

```sh
python -m tests.bench.ifeval --replay
```

The form of the default retry and its words were chosen on 78 prompts of our own, which are not among these; why
retries failed was looked at here, with the form of 0.7.0. The short prompts were asked twice since: first in three
arms, where the default was 11.1 points above fresh answers (+4.5 to +17.5; at temperature 0 21.7, +10.4 to +31.6),
then anew in all six, as shown here. IFEval's prompts were asked once at each temperature, in three arms.

![Difference from fresh answers, in points, with 95 % intervals](benefit.svg)
"""

_TAIL = """## Does the loop's judge agree with IFEval's checker?

In 99.6 % of 7,180 instructions: 20 answers to each of the 233 prompts, those of the model, and these changed
towards a rule (`python -m tests.bench.ifeval.agreement`). The others, and who is right:

- how often "!" occurs: IFEval's checker takes it for no letter and counts a letter drawn at random; the judge is
  right.
- text in one case: IFEval's checker also wants it to be recognised as English, which drafts that say little are
  not; the judge is right by the words of the instruction.
- the language of the answer: two ways to recognise it differ on drafts that are hardly in any; neither is right.

## What this does not say

- It is one small model ({models}, answers of at most {tokens} tokens). Of larger ones it says
  nothing: find out with [a trial](trial.md) on your own questions and model.
- At temperature 0 `fresh` hardly does more than repeat itself: what `restated` is better than is the first answer.
- The loop's judge checks rules and is almost always right. A judge that is wrong breaks good answers, too.
- The prompts are English, and their rules are about form. Nothing here is about facts.
- IFEval's prompts are those that need no sentence tokenizer (Apache-2.0, arXiv 2311.07911).
"""


def write_page(found: Mapping[str, tuple[Mapping[str, Any], Trial]]) -> None:
    """Write page and plot of measurements by name, each with the facts about it."""
    (_DOCS / "benefit.svg").write_text(_plot(found), encoding="utf-8")
    (_DOCS / "benefit.md").write_text(page_of(found), encoding="utf-8")


def page_of(found: Mapping[str, tuple[Mapping[str, Any], Trial]]) -> str:
    """Return the page about measurements by name, each with the facts about it."""
    return "\n".join(_page(found))


def _page(found: Mapping[str, tuple[Mapping[str, Any], Trial]]) -> Iterator[str]:
    facts = [fact for fact, _ in found.values()]
    yield _HEAD.format(attempts=max(one.max_attempts for _, one in found.values()))
    yield "\n".join(_demands(found))
    for fact, one in found.values():
        yield from _measurement(fact, one)
    models = ", ".join(sorted({fact["model"] for fact in facts}))
    yield _TAIL.format(models=models, tokens=max(fact["max_tokens"] for fact in facts))


def _demands(found: Mapping[str, tuple[Mapping[str, Any], Trial]]) -> Iterator[str]:
    """Say of each demand on the default loop whether it was met."""
    yield f"## Is the default loop worth it?\n\nThe default form of a retry is `{Policy().augment}`.\n"
    for fact, one in found.values():
        effect = one.effects.get("loop") or one.effects.get(str(Policy().augment))
        beside = None if effect is None else effect.beside
        place = f"{_NAMES[fact['set']]}, temperature {fact['temperature']:g}"
        if beside is None or beside.net.value is None or beside.net.low is None:
            yield f"- {place}: it was not among the arms"
            continue
        if fact["set"] == "short":
            demand, is_met = "better than fresh answers", beside.net.low > 0
        else:
            demand = "not worse than fresh answers, the interval from -4 points up"
            is_met = beside.net.value >= 0 and beside.net.low >= _LEAST_BESIDE_FRESH
        yield f"- {place}: {demand}:\n  **{'yes' if is_met else 'no'}**, {_points(beside)}"
    echoes = sum(_accepted_echoes(one) for _, one in found.values())
    yield f"- accepted answers that are echoes of the feedback: **{echoes}**\n"


def _measurement(fact: Mapping[str, Any], one: Trial) -> Iterator[str]:
    rows = one.by_arm["first"]
    n = len({row.question for row in rows})
    yield f"## {_NAMES[fact['set']][0].upper()}{_NAMES[fact['set']][1:]}, temperature {fact['temperature']:g}\n"
    draws = len(rows) // max(1, n)
    yield f"{n} prompts, {draws} draw{'' if draws == 1 else 's'} each.\n"
    yield "| arm | good | mended | broken | beside fresh, points (95 %) | p, Holm | answers | echoes | repeats |"
    yield "| --- | --: | --: | --: | --: | --: | --: | --: | --: |"
    for name, arm in one.summary.items():
        effect = arm.effect
        if effect is None:
            continue
        beside = effect.beside
        net, p = (
            ("", "")
            if beside is None
            else (_points(beside), "< 0.001" if beside.p < _LEAST_P else f"{beside.p:.3f}")
        )
        cells = [name, f"{100 * (effect.own.good_after or 0):.1f} %", effect.own.mended, effect.own.broken, net, p]
        yield f"| {' | '.join(map(str, [*cells, arm.generations, arm.echoes, arm.repeats]))} |"
    yield ""


def _points(beside: LoopBenefit) -> str:
    net = beside.net
    if net.value is None or net.low is None or net.high is None:
        return ""
    return f"{100 * net.value:+.1f} ({100 * net.low:+.1f} to {100 * net.high:+.1f})"


def _accepted_echoes(one: Trial) -> int:
    released = [row.released_attempt for row in one.rows if row.passed]
    return sum(attempt is not None and attempt.kind == "echo" for attempt in released)


_LEFT, _WIDTH, _LINE, _REACH = 250, 400, 22, 0.4


def _plot(found: Mapping[str, tuple[Mapping[str, Any], Trial]]) -> str:
    """Draw the difference of every arm from the baseline, a line each, as SVG."""
    parts, y = [], 30
    for fact, one in found.values():
        parts.append(_text(8, y, f"{_NAMES[fact['set']]}, temperature {fact['temperature']:g}", "bold"))
        y += _LINE
        for name, effect in one.effects.items():
            if effect.beside is not None and effect.beside.net.value is not None:
                parts.append(_text(24, y, name, "normal"))
                parts += _interval(y, effect.beside)
                y += _LINE
        y += _LINE // 2
    axis = [
        f'<line x1="{_x(0)}" y1="12" x2="{_x(0)}" y2="{y - 10}" stroke="#888"/>',
        *(_text(_x(share) - 12, y + 8, f"{100 * share:+.0f}", "normal") for share in (-0.4, -0.2, 0, 0.2, 0.4)),
    ]
    size = f'width="{_LEFT + _WIDTH + 30}" height="{y + 24}"'
    style = "<style>text{font:13px sans-serif;fill:#808080}</style>"
    lines = "\n".join([*axis, *parts])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{style}\n{lines}\n</svg>\n'


def _x(share: float) -> float:
    held = min(_REACH, max(-_REACH, share))
    return round(_LEFT + _WIDTH * (held + _REACH) / (2 * _REACH), 1)


def _interval(y: int, beside: LoopBenefit) -> Iterator[str]:
    colour = {"helps": "#2a7", "harms": "#c33"}.get(beside.effect, "#777")
    net = beside.net
    yield (
        f'<line x1="{_x(net.low or 0)}" y1="{y - 4}" x2="{_x(net.high or 0)}" y2="{y - 4}" stroke="{colour}" '
        f'stroke-width="2"/>'
    )
    yield f'<circle cx="{_x(net.value or 0)}" cy="{y - 4}" r="4" fill="{colour}"/>'


def _text(x: float, y: int, text: str, weight: str) -> str:
    return f'<text x="{x}" y="{y}" font-weight="{weight}">{text}</text>'
