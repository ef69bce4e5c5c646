"""A certificate as text for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judges.certificate.issued import CertifiedRow, IssuedCertificate

_HEADER = ("accepts from", "released", "bad", "share bad", "at most", "p", "status", "releases", "attempts")
_STATUS = {"certified": "certified", "refused": "refused", "too_few": "too few", "not_tested": "not tested"}
_NEVER = 5


def certificate_text(certificate: IssuedCertificate) -> str:
    """Return a certificate, or the finding that nothing is certified, as lines for a terminal."""
    return "\n".join(_lines(certificate))


def _lines(certificate: IssuedCertificate) -> Iterator[str]:
    yield from _verdict(certificate)
    yield ""
    yield from _table(certificate)
    yield ""
    yield f"{certificate.runs} questions, {certificate.labels} labels; {_method(certificate)}"
    if certificate.assumes:
        yield f"ASSUMES {certificate.assumes}"
    yield from certificate.notes
    if certificate.certified:
        yield "It holds for questions like these, this judge, these prompts and models, and this loop; a change of"
        yield "one of them voids it. It says nothing about answers that did not pass, nor about any single answer."


def _verdict(certificate: IssuedCertificate) -> Iterator[str]:
    if certificate.threshold is not None:
        yield f"CERTIFIED  {certificate.policy_name}"
        yield f"{certificate.promise[0].upper()}{certificate.promise[1:]}."
        return
    yield "NOT CERTIFIED  this is an answer: no threshold keeps the promise that was asked for"
    yield f"Asked for: at most {certificate.alpha:.1%} bad, with confidence {1 - certificate.delta:.1%}."
    if certificate.reachable_alpha is not None:
        yield f"The best one would have passed at {certificate.reachable_alpha:.1%} (not a certificate)."
    yield _needed(certificate)


def _needed(certificate: IssuedCertificate) -> str:
    rates = [row.rate for row in certificate.rows if row.rate is not None]
    if certificate.labels_needed is None and rates and min(rates) < certificate.alpha:
        return "More than 3,000 labels would be needed: the share of bad answers is close to what was asked for."
    if certificate.labels_needed is None:
        return "More labels will not do: as many answers are bad as that, or more. Mend judge or generator."
    more = certificate.labels_needed - certificate.released
    return (
        f"About {certificate.labels_needed} released and labelled answers are needed, {max(more, 1)} more than "
        f"now, if the share of bad ones stays as it is."
    )


def _table(certificate: IssuedCertificate) -> Iterator[str]:
    lines = [_HEADER, *(_cells(row, certificate) for row in certificate.rows)]
    shown = [column for column in range(len(_HEADER)) if any(cells[column] for cells in lines[1:])]
    widths = {column: max(len(cells[column]) for cells in lines) for column in shown}
    for cells in lines:
        yield "  ".join(_placed(cells[column], widths[column], left=column in {0, 6}) for column in shown).rstrip()
    if certificate.kind == "escalation":
        for row in certificate.rows:
            yield f"{policy_text(row)}: {_stages(row.shares)}"


def _placed(cell: str, width: int, *, left: bool) -> str:
    return cell.ljust(width) if left else cell.rjust(width)


def _cells(row: CertifiedRow, certificate: IssuedCertificate) -> tuple[str, ...]:
    interval = row.release_interval
    bounds = "" if interval is None else f" ({interval[0]:.0%} to {interval[1]:.0%})"
    evidence = row.e if certificate.method == "anytime" else row.p
    return (
        policy_text(row),
        str(row.released),
        str(row.bad),
        "-" if row.rate is None else f"{row.rate:.1%}",
        "-" if row.upper is None else f"{row.upper:.1%}",
        "-" if evidence is None else f"{'E ' if certificate.method == 'anytime' else ''}{evidence:.3g}",
        _STATUS[row.status],
        "" if row.release_rate is None else f"{row.release_rate:.0%}{bounds}",
        "" if row.mean_attempts is None else f"{row.mean_attempts:.2f}",
    )


def policy_text(row: CertifiedRow) -> str:
    """Return a policy of the chain as text."""
    if isinstance(row.policy, tuple):
        return " / ".join("never" if least >= _NEVER else f"{least:g}" for least in row.policy)
    return f"{row.policy:g}"


def _stages(shares: Sequence[float]) -> str:
    *judges, people = shares
    decided = ", ".join(f"judge {number} releases {share:.0%}" for number, share in enumerate(judges, 1))
    return f"{decided}, people decide {people:.0%}"


def _method(certificate: IssuedCertificate) -> str:
    names = {
        "sequence": "exact test, strictest first",
        "fallback": "exact test, with shares of delta",
        "anytime": "e-values, which hold at any look",
    }
    again = certificate.use_of_labels
    spent = "" if again == 1 else f"; certificate {again} on these labels, so delta is {certificate.delta:.3g}"
    return f"{names[certificate.method]}{spent}"
