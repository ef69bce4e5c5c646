"""Usage errors of the command line in one line: what is wrong, and which command tells more."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

INTERRUPTED = 130
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
            code = error_exit("interrupted", code=INTERRUPTED).exit_code
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
        raise error_exit(f"interrupted{_hint(run)}", code=INTERRUPTED) from None


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
