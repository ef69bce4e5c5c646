"""Arithmetic over results: plain functions, lists in, values out.

What has no defined value is None, with a reason where the function returns a record: `too_few`, `one_class`,
`zero_variance`, `no_overlap` or `not_identified`. Functions that need numpy and scipy (the extra `trust`) are
loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from judges.errors import ConfigurationError

if TYPE_CHECKING:
    from judges.offline.statistics.active import active_mean, active_probabilities
    from judges.offline.statistics.bias import BiasReport, BiasTest, bias_report, instrumental
    from judges.offline.statistics.certificates import (
        Certificate,
        Counts,
        PolicyRow,
        certify,
        certify_runs,
        hoeffding_bentkus,
        labels_needed,
        weighted_risk,
    )
    from judges.offline.statistics.correction import (
        CorrectedRate,
        neyman,
        ppi_mean,
        ppi_rate,
        rogan_gladen,
        stratified_rate,
    )
    from judges.offline.statistics.discrimination import RankMetrics, rank_metrics
    from judges.offline.statistics.figure import Figure
    from judges.offline.statistics.intervals import clopper_pearson, kendall_tau, pearson, spearman, wilson
    from judges.offline.statistics.judge_agreement import Agreement, agreement, cohen_kappa
    from judges.offline.statistics.multiplicity import benjamini_hochberg, benjamini_yekutieli, holm
    from judges.offline.statistics.paired import mcnemar, sign_flip
    from judges.offline.statistics.planning import n_pairs, n_per_arm
    from judges.offline.statistics.preferences import LengthAdjusted, WinRate, length_adjusted, win_rate
    from judges.offline.statistics.raters import AltTest, alt_test, gwet_ac, human_likeness, krippendorff_alpha
    from judges.offline.statistics.replay import (
        AttemptPoint,
        Gain,
        Replay,
        ReplaySummary,
        best_and_last,
        gains,
        pass_at_attempt,
        replay_run,
        replay_runs,
    )
    from judges.offline.statistics.resampling import Bca, bca, bootstrap, cluster_se
    from judges.offline.statistics.sequential import confidence_sequence, e_cusum, e_value
    from judges.offline.statistics.weighted import certify_weighted

_HOMES = {
    "Agreement": "judge_agreement",
    "AltTest": "raters",
    "AttemptPoint": "replay",
    "Bca": "resampling",
    "BiasReport": "bias",
    "BiasTest": "bias",
    "Certificate": "certificates",
    "CorrectedRate": "correction",
    "Counts": "certificates",
    "Figure": "figure",
    "Gain": "replay",
    "LengthAdjusted": "preferences",
    "PolicyRow": "certificates",
    "RankMetrics": "discrimination",
    "Replay": "replay",
    "ReplaySummary": "replay",
    "WinRate": "preferences",
    "active_mean": "active",
    "active_probabilities": "active",
    "agreement": "judge_agreement",
    "alt_test": "raters",
    "bca": "resampling",
    "benjamini_hochberg": "multiplicity",
    "benjamini_yekutieli": "multiplicity",
    "best_and_last": "replay",
    "bias_report": "bias",
    "bootstrap": "resampling",
    "certify": "certificates",
    "certify_runs": "certificates",
    "certify_weighted": "weighted",
    "clopper_pearson": "intervals",
    "cluster_se": "resampling",
    "cohen_kappa": "judge_agreement",
    "confidence_sequence": "sequential",
    "e_cusum": "sequential",
    "e_value": "sequential",
    "gains": "replay",
    "gwet_ac": "raters",
    "hoeffding_bentkus": "certificates",
    "holm": "multiplicity",
    "human_likeness": "raters",
    "instrumental": "bias",
    "kendall_tau": "intervals",
    "krippendorff_alpha": "raters",
    "labels_needed": "certificates",
    "length_adjusted": "preferences",
    "mcnemar": "paired",
    "n_pairs": "planning",
    "n_per_arm": "planning",
    "neyman": "correction",
    "pass_at_attempt": "replay",
    "pearson": "intervals",
    "ppi_mean": "correction",
    "ppi_rate": "correction",
    "rank_metrics": "discrimination",
    "replay_run": "replay",
    "replay_runs": "replay",
    "rogan_gladen": "correction",
    "sign_flip": "paired",
    "spearman": "intervals",
    "stratified_rate": "correction",
    "weighted_risk": "certificates",
    "wilson": "intervals",
    "win_rate": "preferences",
}
"""Where each function and record lives: loaded when first used, so that only what computes needs numpy."""

__all__ = [
    "Agreement",
    "AltTest",
    "AttemptPoint",
    "Bca",
    "BiasReport",
    "BiasTest",
    "Certificate",
    "CorrectedRate",
    "Counts",
    "Figure",
    "Gain",
    "LengthAdjusted",
    "PolicyRow",
    "RankMetrics",
    "Replay",
    "ReplaySummary",
    "WinRate",
    "active_mean",
    "active_probabilities",
    "agreement",
    "alt_test",
    "bca",
    "benjamini_hochberg",
    "benjamini_yekutieli",
    "best_and_last",
    "bias_report",
    "bootstrap",
    "certify",
    "certify_runs",
    "certify_weighted",
    "clopper_pearson",
    "cluster_se",
    "cohen_kappa",
    "confidence_sequence",
    "e_cusum",
    "e_value",
    "gains",
    "gwet_ac",
    "hoeffding_bentkus",
    "holm",
    "human_likeness",
    "instrumental",
    "kendall_tau",
    "krippendorff_alpha",
    "labels_needed",
    "length_adjusted",
    "mcnemar",
    "n_pairs",
    "n_per_arm",
    "neyman",
    "pass_at_attempt",
    "pearson",
    "ppi_mean",
    "ppi_rate",
    "rank_metrics",
    "replay_run",
    "replay_runs",
    "rogan_gladen",
    "sign_flip",
    "spearman",
    "stratified_rate",
    "weighted_risk",
    "wilson",
    "win_rate",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{home}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"numpy", "scipy"}:
            raise
        raise ConfigurationError(
            f"{name} needs {error.name}, which is not installed: pip install 'selfrefine[trust]'"
        ) from error
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return __all__
