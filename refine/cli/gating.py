"""The gate of a command: what the run must reach, said on stderr, in a JUnit file and in the exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from judges import ConfigurationError
from judges.errors import shortened
from judges.offline import Evaluation, load_run
from judges.offline.run.gate import MOST_UNSCORED, Check, Gate, junit, result_of
from refine.cli.one_line import STOPPED

_CODES = {"passed": 0, "failed": 1, "unscored": STOPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """The options of a gate, as they were written on the command line."""

    fail_under: tuple[str, ...] = ()
    baseline: Path | None = None
    max_unscored: float = MOST_UNSCORED
    junit: Path | None = None


class RunGate:
    """A gate whose options have been read and checked.

    Args:
        options: The options.
        judges: Names of the judges of the run.

    Raises:
        ConfigurationError: If an option is wrong, or the baseline is no finished run.
    """

    def __init__(self, options: GateOptions, judges: Sequence[str]) -> None:
        self._gate = Gate(fail_under=dict(map(_parse, options.fail_under)), max_unscored=options.max_unscored)
        self._gate.check_names(judges)
        self._junit, self._baseline = options.junit, options.baseline
        self._before: Evaluation | None = None
        if self._baseline is not None:
            self._before = load_run(self._baseline)
        if self._junit is not None and not self.is_set:
            raise ConfigurationError(
                "--junit reports a gate; set one with --fail-under NAME=SCORE or --baseline RUN"
            )

    @property
    def is_set(self) -> bool:
        """Whether there is anything to reach."""
        return bool(self._gate.fail_under) or self._before is not None

    def exit_code(self, folder: Path, evaluation: Evaluation) -> int:
        """Say what became of each condition, and return the exit code: 0 passed, 1 failed, 3 too many unscored."""
        checks = self._checks(folder, evaluation)
        for check in checks:
            sys.stderr.write(f"refine: gate {check}\n")
        if self._junit is not None:
            try:
                self._junit.parent.mkdir(parents=True, exist_ok=True)
                self._junit.write_bytes(junit(checks, name=f"refine {folder}"))
            except OSError as error:
                raise ConfigurationError(f"--junit {self._junit} cannot be written: {error.strerror}") from None
        return _CODES[result_of(checks)]

    def _checks(self, folder: Path, evaluation: Evaluation) -> list[Check]:
        if self._before is None:
            return self._gate.checks(evaluation)
        from judges.offline import compare_runs  # noqa: PLC0415 - loads numpy and scipy

        names = (str(self._baseline), str(folder))
        return self._gate.checks(evaluation, compare_runs(self._before, load_run(folder), names=names))


def _parse(text: str) -> tuple[str, float]:
    name, equals, figure = text.rpartition("=")
    try:
        least = float(figure)
    except ValueError:
        least = -1.0
    if not equals or not name.strip() or not 0 <= least <= 1:
        raise ConfigurationError(
            f"--fail-under is a judge and its least mean score from 0 to 1, helpfulness=0.8, not {shortened(text)}"
        )
    return name.strip(), least
