"""What judged rows hold for a report on bias: labels, lengths, and probes of the judge."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from judges.offline.statistics import BiasReport, bias_report
from judges.offline.trust.labels import lower_median
from judges.offline.trust.rows import JudgedRow

_ORDERS = 2
_FAMILY = 2
_LEAST_RATERS = 2


def bias_of(rows: Sequence[JudgedRow], judge: str, *, ratings: bool, seed: int) -> BiasReport | None:
    """Return the report on bias for which the rows hold data; None where they hold none.

    A probe is a row with `probe`, its kind, for instance `"verbosity"` or `"authority"`, and `probe_of`, the `id`
    of the row it is made from. `repeat_of` marks a plain second one. `places` is which place, F, S or T, won a
    pair in each of the two orders, for instance `"FS"`. `family` (`"own"` or `"other"`) and `control_rating` serve
    the test of self-preference.

    Args:
        rows: All rows.
        judge: The judge.
        ratings: Whether labels are ratings, and there are any.
        seed: Seed of sign flips and resamples.
    """
    rated = [(row, mark.as_rating) for row in rows if (mark := row.marks.get(judge)) is not None]
    scored = [(row, rating) for row, rating in rated if rating is not None]
    probes, triples = _probes(scored)
    labelled = [(row, rating) for row, rating in scored if row.opinions and not row.metadata.get("probe")]
    places = [str(row.metadata["places"]) for row in rows if len(str(row.metadata.get("places") or "")) == _ORDERS]
    families = _families(scored)
    verbosity = probes.pop("verbosity", None)
    data = {
        "position": places or None,
        "verbosity": verbosity,
        "cues": probes or None,
        "robustness": triples or None,
        "self_preference": families or None,
    }
    report = bias_report(
        **data,  # type: ignore[arg-type]  # each is what the argument of its name takes
        leniency=[(lower_median(row.opinions) or 0.0, float(rating)) for row, rating in labelled]
        if ratings
        else None,
        length=_lengths(labelled) if ratings else None,
        clusters=[row.question_id for row, _ in labelled] if ratings else None,
        seed=seed,
    )
    return report if report.tests else None


def _probes(
    scored: Sequence[tuple[JudgedRow, int]],
) -> tuple[dict[str, list[tuple[float, float]]], dict[str, list[tuple[int, int, int]]]]:
    """Return by kind the rating without and with the probe, and where there is one of a second one."""
    plain = {str(row.metadata["id"]): rating for row, rating in scored if row.metadata.get("id") is not None}
    again = {
        str(row.metadata["repeat_of"]): rating
        for row, rating in scored
        if row.metadata.get("repeat_of") is not None
    }
    pairs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    triples: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for row, rating in scored:
        kind, origin = row.metadata.get("probe"), str(row.metadata.get("probe_of"))
        if kind and origin in plain:
            pairs[str(kind)].append((float(plain[origin]), float(rating)))
            if origin in again:
                triples[str(kind)].append((plain[origin], rating, again[origin]))
    return dict(pairs), dict(triples)


def _families(scored: Sequence[tuple[JudgedRow, int]]) -> list[tuple[float, float, float, float]]:
    by_question: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for row, rating in scored:
        family, control = row.metadata.get("family"), row.metadata.get("control_rating")
        if family in {"own", "other"} and isinstance(control, int | float):
            by_question[row.question_id][str(family)] = (float(rating), float(control))
    return [(*both["own"], *both["other"]) for both in by_question.values() if len(both) == _FAMILY]


def _lengths(
    labelled: Sequence[tuple[JudgedRow, int]],
) -> tuple[list[float], list[float], list[float] | None, list[float]] | None:
    """Return ratings of judge and people with the logarithm of the lengths; with one person alone, no second."""
    chosen = [(row, rating) for row, rating in labelled if row.length]
    if not chosen or len(chosen) < len(labelled):
        return None
    several = all(len(row.opinions) >= _LEAST_RATERS for row, _ in chosen)
    return (
        [float(rating) for _, rating in chosen],
        [row.opinions[0].rating for row, _ in chosen],
        [row.opinions[1].rating for row, _ in chosen] if several else None,
        [math.log(row.length) for row, _ in chosen],
    )
