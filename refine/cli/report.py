"""The command `refine report`: one file about a run, or about two."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from judges import ConfigurationError
from refine.cli.options import ReportOptions
from refine.report.building import build, read_run
from refine.report.view import Report, TrustSources

_Format = Literal["html", "md", "csv"]

_FORMATS: Mapping[str, _Format] = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".csv": "csv"}
_STDOUT = Path("-")


def run_report(options: ReportOptions) -> int:
    """Write the report, say where it is, and return the exit code.

    Raises:
        ConfigurationError: If a run has not finished, a column is unknown, or the file cannot be written.
    """
    form = _format(options)
    folders = [run for run in (options.run, options.later_run) if run is not None]
    out = options.out or folders[-1] / f"report.{form}"
    runs = [read_run(folder) for folder in folders]
    gc.freeze()  # the rows stay to the end: nobody need look for garbage among them
    report = build(runs, slices=options.slices, sources=_sources(options, folders[-1]), seed=options.seed)
    text = _renderer(form)(report)
    if out == _STDOUT:
        sys.stdout.write(text)
        return 0
    _write(out, text.encode("utf-8", "backslashreplace"))
    sys.stdout.write(f"{out}\n")
    return 0


def _sources(options: ReportOptions, run: Path) -> TrustSources:
    """Return the sources, with the labels that `refine label` left in the folder of the run."""
    from judges.offline.trust.beside import labels_beside  # noqa: PLC0415 - not every report has labels

    labels = options.labels or labels_beside(run)
    return TrustSources(labels=labels, attempts=options.attempts, certificate=options.certificate)


def _format(options: ReportOptions) -> _Format:
    """Return the format: as it is named, or else as the name of the file ends."""
    if options.format is not None:
        named = _FORMATS.get(f".{options.format.lower().lstrip('.')}")
        if named is None:
            raise ConfigurationError(f"--format is html, md or csv, not {options.format!r}")
        return named
    if options.out is None:
        return "html"
    if options.out.is_dir():
        raise ConfigurationError(f"--out {options.out} is a folder; name a file in it, report.html")
    by_name = _FORMATS.get(options.out.suffix.lower())
    if by_name is None:
        raise ConfigurationError(
            f"--out {str(options.out)!r} ends with no known format; name a .html, .md or .csv file, or --format"
        )
    return by_name


def _renderer(form: _Format) -> Callable[[Report], str]:
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
