"""Reading a finished run."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from judges.errors import ConfigurationError
from judges.offline.results import Evaluation, Row, summarised
from judges.offline.run.manifest import Manifest
from judges.offline.run.outputs import RESULTS


def load_run(folder: str | Path) -> Evaluation:
    """Return the evaluation of a finished run, with its rows; latencies are not in it.

    Raises:
        ConfigurationError: If the folder holds no run, or one that has not finished.
    """
    folder = Path(folder)
    path = folder / RESULTS
    if not path.is_file():
        Manifest.read(folder)
        raise ConfigurationError(f"{folder} has not finished; go on with `refine resume {folder}`")
    try:
        with path.open("rb") as file, _garbage_left():
            rows = tuple(Row.model_validate_json(line) for line in file)
    except ValidationError as error:
        fault = error.errors()[0]
        raise ConfigurationError(f"{path} cannot be read: {fault['msg']}; it was changed after the run") from None
    return Evaluation(rows=rows, summary=summarised(rows))


@contextmanager
def _garbage_left() -> Iterator[None]:
    """Do not look for garbage: every row read stays, and looking through them takes twice as long as reading."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
