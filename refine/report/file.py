"""The file of a report: which format it has, and who may read it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from judges import ConfigurationError
from judges.offline import Evaluation
from judges.runtime.validation import naming_settings
from refine.report.contents import build_report, read_run
from refine.report.document import Document
from refine.report.trial import trial_document
from refine.report.trust import TrustSources
from refine.trials.labels import read_trial
from refine.trials.manifest import is_trial

_Format = Literal["html", "md", "csv"]

_FORMATS: Mapping[str, _Format] = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".csv": "csv"}
_STDOUT = Path("-")


@naming_settings("write_report(['runs/1'], 'report.html')")
def write_report(
    runs: Sequence[str | Path] | str | Path,
    out: str | Path | None = None,
    *,
    form: str | None = None,
    slices: Sequence[str] = (),
    labels: Path | None = None,
    attempts: Path | None = None,
    certificate: Path | None = None,
    title: str = "",
    seed: int = 0,
) -> Path:
    """Write a report of a finished run, of two over the same questions, or of a trial, and return where it is.

    Args:
        runs: Folder of the run, or of a trial; or of two runs, the earlier one first.
        out: The file, which its owner alone can read; `-` is stdout. None is report.html in the folder of the run.
        form: `html`, `md` or `csv`; None takes what the name of the file ends with.
        slices: Columns of the metadata by whose values rows are grouped.
        labels: File of labels; None takes what `refine label` left in the folder of the run.
        attempts: File of recorded attempts.
        certificate: File that `refine certify` wrote.
        title: What the run is called; empty is its folder.
        seed: Seed of all resamples.

    Raises:
        ConfigurationError: If a run has not finished, a column is unknown, or the file cannot be written.
    """
    from judges.offline.trust.rows import labels_beside  # noqa: PLC0415 - loads numpy

    if isinstance(runs, Evaluation):
        raise ConfigurationError(
            "a report is of finished runs: evaluate(rows, judge, run='runs/1'), then write_report(['runs/1'])"
        )
    folders = [Path(run) for run in ([runs] if isinstance(runs, str | Path) else runs)]
    file = None if out is None else Path(out)
    named_format = _format_of(file, form)
    if any(map(is_trial, folders)):
        _check_trial(folders, named_format, slices or attempts or certificate)
        document = trial_document(read_trial(folders[0], labels), folders[0], title)
        return _put(document, file or folders[0] / f"report.{named_format}", named_format)
    data = [read_run(folder) for folder in folders]
    data[-1] = replace(data[-1], name=title or data[-1].name)
    sources = TrustSources(labels=labels or labels_beside(folders[-1]), attempts=attempts, certificate=certificate)
    document = build_report(data, slices=slices, sources=sources, seed=seed)
    return _put(document, file or folders[-1] / f"report.{named_format}", named_format)


def _check_trial(folders: Sequence[Path], form: _Format, others: object) -> None:
    """Check that a report of a trial is about it alone, and of sections."""
    if len(folders) > 1 or others:
        raise ConfigurationError("a trial is reported by itself; leave out the other run, --slice, and the like")
    if form == "csv":
        raise ConfigurationError("a table of rows is of a run; of a trial write a .html or a .md file")


def _put(document: Document, file: Path, form: _Format) -> Path:
    """Write a report where it is to be, and return that."""
    text = _renderer(form)(document)
    if file == _STDOUT:
        sys.stdout.write(text)
    else:
        _write(file, text.encode("utf-8", "backslashreplace"))
    return file


def _format_of(file: Path | None, form: str | None) -> _Format:
    """Return the format: as it is named, or else as the name of the file ends."""
    if form is not None:
        named = _FORMATS.get(f".{form.lower().lstrip('.')}")
        if named is None:
            raise ConfigurationError(f"--format is html, md or csv, not {form!r}")
        return named
    if file is None:
        return "html"
    if file.is_dir():
        raise ConfigurationError(f"--out {file} is a folder; name a file in it, report.html")
    by_name = _FORMATS.get(file.suffix.lower())
    if by_name is None:
        raise ConfigurationError(
            f"--out {str(file)!r} ends with no known format; name a .html, .md or .csv file, or --format"
        )
    return by_name


def _renderer(form: _Format) -> Callable[[Document], str]:
    match form:
        case "html":
            from refine.report.page import page  # noqa: PLC0415 - one of three

            return page
        case "md":
            from refine.report.markdown import markdown  # noqa: PLC0415 - one of three

            return markdown
        case "csv":
            from refine.report.markdown import csv_rows  # noqa: PLC0415 - one of three

            return csv_rows


def _write(path: Path, content: bytes) -> None:
    """Write a file that its owner alone can read, since it holds what users asked."""
    try:
        if path.is_dir():
            raise ConfigurationError(f"--out {path} is a folder; name a file in it, e.g. {path / 'report.html'}")
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"--out {path} cannot be written: {reason}; choose another file") from None
