"""Options that the commands on runs have in common; only typer is loaded for them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.", show_default=False)]
Rows = Annotated[
    Path,
    typer.Argument(
        metavar="ROWS",
        help="Dataset: .jsonl (one object per line), .json, .csv or .tsv with a header, or .parquet.",
        show_default=False,
    ),
]
Judges = Annotated[
    list[str],
    typer.Option(
        "--judge",
        metavar="NAME[:KEY=VALUE,...]",
        help="Judge by name, with its settings, module:object, or a judges.toml; repeat it for several.",
        show_default=False,
    ),
]
Out = Annotated[str, typer.Option("--out", metavar="RUN", help="New folder of the run.", show_default=False)]
Model = Annotated[
    str | None,
    typer.Option("--model", metavar="PROVIDER:NAME", help="Model that the judges ask. E.g. openai:gpt-5-mini"),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url", metavar="URL", help="OpenAI-compatible server of the model. E.g. http://localhost:8000/v1"
    ),
]
Language = Annotated[
    str | None,
    typer.Option("--language", metavar="en|zh|ru", help="Language of the judges' prompts. Default: the row's."),
]
MaxConcurrency = Annotated[
    int, typer.Option("--max-concurrency", min=1, metavar="N", help="Model calls in flight at once.")
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Judge the first N rows only.")]
KeepUnreadable = Annotated[
    bool, typer.Option("--keep-unreadable", help="Keep rows that cannot be read, unscored, instead of stopping.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON instead of a table.")]
Batch = Annotated[
    bool,
    typer.Option("--batch", help="Send calls by the provider's batch endpoint: half the price, within a day."),
]
Poll = Annotated[
    float, typer.Option("--poll", min=0.01, metavar="SECONDS", help="Seconds between two looks at a batch.")
]
Processes = Annotated[
    int,
    typer.Option(
        "--processes", min=1, metavar="N", help="Judge in N processes, which divide rows and limits between them."
    ),
]
Rate = Annotated[int | None, typer.Option("--rate", min=1, metavar="N", help="Most model calls a minute.")]
TokensPerMinute = Annotated[
    int | None, typer.Option("--tokens-per-minute", min=1, metavar="N", help="Most tokens a minute.")
]
MaxCalls = Annotated[
    int | None, typer.Option("--max-calls", min=1, metavar="N", help="Stop after N model calls; resume later.")
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", min=0, metavar="USD", help="Stop before more is spent; resume later.")
]
Prices = Annotated[
    Path | None,
    typer.Option("--prices", metavar="FILE", help='Prices a million tokens: {"NAME": {"input": 1, "output": 2}}'),
]
FailUnder = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-under", metavar="JUDGE=SCORE", help="Least mean score of a judge; exit code 1 below. Repeatable."
    ),
]
Baseline = Annotated[
    Path | None,
    typer.Option("--baseline", metavar="RUN", help="A run before: exit code 1 if a judge's scores fell since."),
]
MaxUnscored = Annotated[
    float,
    typer.Option(
        "--max-unscored",
        min=0,
        max=1,
        metavar="SHARE",
        help="Share of rows that a judge of the gate may fail to judge; exit code 3 above.",
    ),
]
Junit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write the gate as JUnit XML.")]
Shard = Annotated[
    str | None, typer.Option("--shard", metavar="I/N", help="Judge part I of N only; see `refine merge`.")
]
AcceptChanges = Annotated[
    bool, typer.Option("--accept-changes", help="Judge what changed in dataset or judges since again.")
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Judge cells again whose judging failed.")]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="FIELD=COLUMN", help="Column that holds a field. E.g. answer=outputs.text; repeatable."
    ),
]
Encoding = Annotated[str, typer.Option("--encoding", metavar="NAME", help="Encoding of the file. E.g. latin-1")]
DatasetMoved = Annotated[
    Path | None, typer.Option("--rows", metavar="ROWS", help="Where the dataset is now, if it was moved.")
]
Slices = Annotated[
    list[str] | None,
    typer.Option("--slice", metavar="COLUMN", help="Also by the values of this column of the rows. Repeatable."),
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of resamples and sign flips.")]


_INTERRUPTED = 130
"""Exit code that a shell expects of a program stopped with Ctrl-C."""

STOPPED = 3
"""Exit code of a run that stopped at a limit, or that has too many cells without a score."""

_NO_WAY_ON = ("refine resume", " is in use by ", "begin a new run")
"""What a message says that tells how to go on, or that going on is in vain."""

_HELP_INSTEAD = "NoArgsIsHelpError"
"""What typer raises, in place of an error, to show the help of a command without arguments."""


_GUESSES = {
    **dict.fromkeys(("find", "list", "ls", "metrics", "search"), "judges"),
    **dict.fromkeys(("run", "score", "test"), "evaluate"),
    **dict.fromkeys(("guard", "proxy", "start", "up"), "serve"),
    **dict.fromkeys(("agreement", "calibrate"), "align"),
    **dict.fromkeys(("continue", "retry"), "resume"),
    **dict.fromkeys(("cost", "price"), "estimate"),
    **dict.fromkeys(("annotate", "rate"), "label"),
    "diff": "compare",
    "watch": "monitor",
}
"""Commands by words that others have for them."""


class OneLineErrors(TyperGroup):
    """A group of commands that reports wrong usage like all other wrong input: in one line, with exit code 2."""

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run a command, and end the process unless `standalone_mode` is off."""
        if not settings.get("standalone_mode", True):
            return super().main(*args, **settings)
        try:
            code = super().main(*args, **{**settings, "standalone_mode": False})
        except typer.Abort:
            code = error_exit("interrupted", code=_INTERRUPTED).exit_code
        except Exception as error:
            code = _report(error)
            if code is None:
                raise
        return sys.exit(code or 0)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is called; of a word that others have for it, the error names ours."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            if args[0] in _GUESSES and hasattr(error, "message"):
                error.message = f"No such command {args[0]!r}. Did you mean {_GUESSES[args[0]]!r}?"
            raise


def error_exit(message: str, *, code: int = 2) -> typer.Exit:
    """Write a message as one line to stderr, and return the exit to raise."""
    typer.echo(f"refine: {' '.join(message.split())}", err=True)
    return typer.Exit(code)


@contextmanager
def one_line_errors(run: Path | None = None) -> Iterator[None]:
    """Report wrong input in one line on stderr, and exit with 2; where a run can be resumed, say how."""
    from judges import JudgesError  # noqa: PLC0415 - loads pydantic

    try:
        yield
    except OSError as error:
        raise error_exit(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from None
    except JudgesError as error:
        is_stop = type(error).__name__ == "RunStopped"
        raise error_exit(f"{error}{_hint(run, str(error))}", code=STOPPED if is_stop else 2) from None
    except KeyboardInterrupt:
        raise error_exit(f"interrupted{_hint(run)}", code=_INTERRUPTED) from None


def _hint(run: Path | None, message: str = "") -> str:
    """Return how to go on with a run of which something is judged."""
    if run is None or any(words in message for words in _NO_WAY_ON):
        return ""
    try:
        is_begun = (run / "journal.jsonl").exists() and not (run / "summary.json").exists()
    except (OSError, ValueError):
        return ""
    return f"; go on with `refine resume {run}`" if is_begun else ""


def _report(error: Exception) -> int | None:
    """Report an error of typer's own, and return the exit code; None for any other error."""
    describe = getattr(error, "format_message", None)
    if describe is None:
        return None
    if type(error).__name__ == _HELP_INSTEAD:
        typer.echo(describe(), err=True)
        return 2
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    return error_exit(f"{describe().rstrip('.')}{hint}").exit_code
