"""What every test shares: no request leaves for a provider, nothing is traced, and one thread calculates."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from judges import no_model_requests

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""Read when NumPy is loaded: where tests share the cores, its threads take thirty times as long as one does."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run single files in this process, as starting others would take longer; folders get one more than cores.

    Tests of deadlines and of servers wait, and while they do another process can work.
    """
    named = [config.invocation_params.dir / one.partition("::")[0] for one in config.args]
    return 0 if all(one.is_file() for one in named) else (os.cpu_count() or 1) + 1


@pytest.fixture(autouse=True)
def _no_provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep tests from reaching a provider, or a tracing service, by accident."""
    for variable in ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2"):
        monkeypatch.setenv(variable, "false")
    with no_model_requests():
        yield
