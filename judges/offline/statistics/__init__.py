"""Arithmetic over results: plain functions, lists in, values out.

What has no defined value is None, with a reason where the function returns a record: `too_few`, `one_class`,
`zero_variance`, `no_overlap` or `not_identified`. Functions that need numpy and scipy (the extra `trust`) load
them when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judges.offline.statistics.benefit import LoopBenefit, RiseGap, judged_together, loop_benefit, rise_gap
    from judges.offline.statistics.bias import BiasReport, BiasTest, bias_report, instrumental
    from judges.offline.statistics.certificates import (
        AssistedLabel,
        Certificate,
        Counts,
        PolicyRow,
        assisted_e_value,
        certify,
        certify_runs,
        certify_weighted,
        confidence_sequence,
        e_cusum,
        e_value,
        hoeffding_bentkus,
        labels_needed,
        weighted_risk,
    )
    from judges.offline.statistics.comparing import (
        ArmEffect,
        LengthAdjusted,
        WinRate,
        arm_effects,
        length_adjusted,
        mcnemar,
        n_pairs,
        n_per_arm,
        sign_flip,
        win_rate,
    )
    from judges.offline.statistics.correction import (
        CorrectedRate,
        active_mean,
        active_probabilities,
        neyman,
        ppi_mean,
        ppi_rate,
        rogan_gladen,
        stratified_rate,
    )
    from judges.offline.statistics.intervals import (
        Figure,
        benjamini_hochberg,
        benjamini_yekutieli,
        clopper_pearson,
        holm,
        kendall_tau,
        pearson,
        spearman,
        wilson,
    )
    from judges.offline.statistics.judge_agreement import (
        Agreement,
        RankMetrics,
        agreement,
        cohen_kappa,
        rank_metrics,
    )
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

_MODULES = (
    *("intervals", "resampling", "replay", "certificates", "benefit", "comparing", "correction"),
    *("judge_agreement", "raters", "bias"),
)
"""Where names are looked for, in this order when they are first used: what the first has needs no numpy."""

__all__ = [
    "Agreement",
    "AltTest",
    "ArmEffect",
    "AssistedLabel",
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
    "LoopBenefit",
    "PolicyRow",
    "RankMetrics",
    "Replay",
    "ReplaySummary",
    "RiseGap",
    "WinRate",
    "active_mean",
    "active_probabilities",
    "agreement",
    "alt_test",
    "arm_effects",
    "assisted_e_value",
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
    "judged_together",
    "kendall_tau",
    "krippendorff_alpha",
    "labels_needed",
    "length_adjusted",
    "loop_benefit",
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
    "rise_gap",
    "rogan_gladen",
    "sign_flip",
    "spearman",
    "stratified_rate",
    "weighted_risk",
    "wilson",
    "win_rate",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = (import_module(f"{__name__}.{home}") for home in _MODULES)
    value = globals()[name] = next(getattr(module, name) for module in modules if hasattr(module, name))
    return value


def __dir__() -> list[str]:
    return __all__
