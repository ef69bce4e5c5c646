"""The command line `refine`. Its imports wait until a command runs, so that `--help` answers at once."""

from __future__ import annotations

import sys
from importlib.util import find_spec

__all__ = ["main"]


def main() -> None:
    """Run the command line; the entry point of the script `refine`."""
    missing = [name for name in ("typer", "rich") if find_spec(name) is None]
    if missing:
        sys.stderr.write(f"refine: {' and '.join(missing)} missing; install the extra: selfrefine[cli]\n")
        raise SystemExit(2)
    from refine.cli.app import app  # noqa: PLC0415 - an extra, opened on demand

    app(prog_name="refine")
