"""Judge a chat application's answers before anyone sees them, and refine them until they are good enough."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from refine.process import refuse_shadows

if TYPE_CHECKING:
    from graphs import Attempt, NotAccepted, Outcome, Policy, QuestionRefused, self_refine
    from judges.offline import compare, evaluate
    from judges.runtime.faults import losses
    from refine.logs import log_json_lines, request_log
    from refine.middleware import SelfRefineMiddleware
    from refine.record import DatabaseRecord, OutcomeFilter
    from refine.report.file import write_report
    from refine.selfrefine import SelfRefine
    from refine.telemetry import continued_trace
    from refine.trials.results import Arm, Trial
    from refine.trials.trial import atrial, trial
    from refine.webhooks import Webhook

_HOMES = {
    "Arm": "refine.trials.results",
    "Attempt": "graphs",
    "DatabaseRecord": "refine.record",
    "NotAccepted": "graphs",
    "QuestionRefused": "graphs",
    "Outcome": "graphs",
    "OutcomeFilter": "refine.record",
    "Policy": "graphs",
    "SelfRefine": "refine.selfrefine",
    "SelfRefineMiddleware": "refine.middleware",
    "Trial": "refine.trials.results",
    "Webhook": "refine.webhooks",
    "atrial": "refine.trials.trial",
    "compare": "judges.offline",
    "continued_trace": "refine.telemetry",
    "evaluate": "judges.offline",
    "log_json_lines": "refine.logs",
    "losses": "judges.runtime.faults",
    "request_log": "refine.logs",
    "self_refine": "graphs",
    "trial": "refine.trials.trial",
    "write_report": "refine.report.file",
}
"""The module of each public name, imported on first use so that the command line starts at once."""

__all__ = [
    "Arm",
    "Attempt",
    "DatabaseRecord",
    "NotAccepted",
    "Outcome",
    "OutcomeFilter",
    "Policy",
    "QuestionRefused",
    "SelfRefine",
    "SelfRefineMiddleware",
    "Trial",
    "Webhook",
    "atrial",
    "compare",
    "continued_trace",
    "evaluate",
    "log_json_lines",
    "losses",
    "request_log",
    "self_refine",
    "trial",
    "write_report",
]


refuse_shadows("graphs", "judges")
import_module("judges.first_guesses")  # says what to import instead of modules that there are not


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise import_module("judges.first_guesses").no_such_name(__name__, name, _hint_for(name))
    try:
        value = getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "sqlalchemy":
            raise
        raise import_module("judges.errors").ConfigurationError(
            f"refine.{name} needs SQLAlchemy; install the extra: selfrefine[record]"
        ) from error
    globals()[name] = value
    return value


def _hint_for(name: str) -> str:
    if name.startswith("_"):
        return ""
    hint: str = import_module("judges.first_guesses").of_package(__name__, name, __all__)
    return hint


def __dir__() -> list[str]:
    return __all__
