"""The table of a certificate, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from judges.certificate.row import CertifiedRow

_HEADER = ("accepts from", "released", "bad", "share bad", "at most", "p", "status", "releases", "attempts")
_STATUS = {"certified": "certified", "refused": "refused", "too_few": "too few", "not_tested": "not tested"}


def table_lines(
    rows: Sequence[CertifiedRow], method: Literal["sequence", "fallback", "anytime", "weighted"]
) -> Iterator[str]:
    """Yield the lines of the table, and for an escalation who decides how much."""
    lines = [_HEADER, *(_cells(row, anytime=method == "anytime") for row in rows)]
    shown = [column for column in range(len(_HEADER)) if any(cells[column] for cells in lines[1:])]
    widths = {column: max(len(cells[column]) for cells in lines) for column in shown}
    for cells in lines:
        yield "  ".join(_placed(cells[column], widths[column], left=column in {0, 6}) for column in shown).rstrip()
    for row in rows:
        if row.shares:
            yield f"{row.policy_text}: {_stages(row.shares)}"


def _placed(cell: str, width: int, *, left: bool) -> str:
    return cell.ljust(width) if left else cell.rjust(width)


def _cells(row: CertifiedRow, *, anytime: bool) -> tuple[str, ...]:
    interval = row.release_interval
    bounds = "" if interval is None else f" ({interval[0]:.0%} to {interval[1]:.0%})"
    evidence = row.e if anytime else row.p
    return (
        row.policy_text,
        str(row.released),
        str(row.bad),
        "-" if row.rate is None else f"{row.rate:.1%}",
        "-" if row.upper is None else f"{row.upper:.1%}",
        "-" if evidence is None else f"{'E ' if anytime else ''}{evidence:.3g}",
        _STATUS[row.status],
        "" if row.release_rate is None else f"{row.release_rate:.0%}{bounds}",
        "" if row.mean_attempts is None else f"{row.mean_attempts:.2f}",
    )


def _stages(shares: Sequence[float]) -> str:
    *judges, people = shares
    decided = ", ".join(f"judge {number} releases {share:.0%}" for number, share in enumerate(judges, 1))
    return f"{decided}, people decide {people:.0%}"
