"""What every test shares: no request leaves for a provider, nothing is traced, terminals have 80 columns."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import certifi
import pytest
import structlog
from pydantic.fields import FieldInfo

from judges import no_model_requests

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from xdist.workermanage import WorkerController

    from tests.kit import Clock, Hang

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""Read when NumPy is loaded: where tests share the cores, its threads take thirty times as long as one does."""

LONG = Path(__file__).with_name("long.txt")
LEFT_OUT = pytest.StashKey[int]()
SELECTING = ("all_tests", "keyword", "lf", "markexpr")
"""Options that say which tests to run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--all`."""
    parser.addoption("--all", dest="all_tests", action="store_true", help="run the tests of tests/long.txt, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark long tests, and leave them out where nobody said which tests to run."""
    listed = set(LONG.read_text(encoding="utf-8").splitlines())
    for item in items:
        if listed & {item.nodeid, item.nodeid.partition("[")[0]}:
            item.add_marker("long")
    if runs_short_ones(config):
        left_out = [item for item in items if item.get_closest_marker("long")]
        items[:] = [item for item in items if not item.get_closest_marker("long")]
        config.stash[LEFT_OUT] = len(left_out)
        config.hook.pytest_deselected(items=left_out)


def runs_short_ones(config: pytest.Config) -> bool:
    """Return whether a run is one that names neither files nor tests, as the process that was started was told."""
    told: dict[str, Any] = getattr(config, "workerinput", {})
    named = config.args_source is pytest.Config.ArgsSource.ARGS or any(map(config.getoption, SELECTING))
    return bool(told.get("runs_short_ones", not named))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell a worker, to which everything is named."""
    node.workerinput["runs_short_ones"] = runs_short_ones(node.config)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that started a worker how many tests were left out."""
    output: dict[str, Any] = getattr(session.config, "workeroutput", {})
    output["left_out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    """Note what a worker left out; all leave out the same."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many tests were left out, and how they are run."""
    if left_out := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(f"{left_out} long tests were left out; `pytest --all` runs them, too")


def pytest_configure(config: pytest.Config) -> None:
    """Keep bytecode in pytest's own cache, and give no example of a property a deadline.

    The former where the environment forbids Python to write it beside the sources: else each worker, and each
    process that a test starts, would compile every framework anew. It comes before anything large is imported.
    """
    if sys.dont_write_bytecode and hasattr(config, "cache"):
        sys.pycache_prefix = str(config.cache.mkdir("bytecode"))
        sys.dont_write_bytecode = False
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    _look_at_factories_once()
    if not hasattr(config, "workerinput") and hasattr(config, "cache"):
        _trust_one_authority(config.cache.mkdir("trusted") / "one.pem")
    with suppress(ModuleNotFoundError):  # the lowest versions are tested without it
        from hypothesis import settings  # noqa: PLC0415 - not everywhere

        settings.register_profile("untimed", deadline=None)  # an example's time says how busy the machine is
        settings.load_profile("untimed")


def _look_at_factories_once() -> None:
    """Keep what pydantic finds out about a field's default: `repr` of a message would take twice as long."""
    found: dict[Any, bool | None] = {}
    look = vars(FieldInfo)["default_factory_takes_validated_data"].fget

    def takes_data(field: FieldInfo) -> bool | None:
        if field.default_factory not in found:
            found[field.default_factory] = look(field)
        return found[field.default_factory]

    FieldInfo.default_factory_takes_validated_data = property(takes_data)  # type: ignore[assignment,method-assign]


def _trust_one_authority(file: Path) -> None:
    """Have clients trust one authority, as none of them leaves this machine: to read all takes 20 ms a client."""
    end = "-----END CERTIFICATE-----\n"
    file.write_text(Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0] + end, encoding="utf-8")
    os.environ["SSL_CERT_FILE"] = str(file)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among all that is loaded: while it is being loaded, there is none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_unconfigure() -> None:
    """Leave the end of the process as it is: connections that are still open are closed without a word."""
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run single files in this process, as starting others would take longer; folders get one more than cores.

    Tests of deadlines and of servers wait, and while they do another process can work.
    """
    named = [config.invocation_params.dir / one.partition("::")[0] for one in config.args]
    return 0 if all(one.is_file() for one in named) else (os.cpu_count() or 1) + 1


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Chromium once a module: while it runs, no test has an event loop of its own."""
    from tests.browsers import open_browser  # noqa: PLC0415 - most tests need none

    with open_browser() as browser:
        yield browser


@pytest.fixture
def hang() -> Iterator[Hang]:
    """Give calls that hang; the test fails if they were waited for."""
    from tests.kit import Hang  # noqa: PLC0415 - it loads much, of which bytecode must be kept

    hang = Hang()
    yield hang
    hang.end()
    assert not hang.waited_out, "what hangs was waited for"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Give the clocks of this process, to be put forward."""
    from tests.kit import Clock  # noqa: PLC0415 - it loads much, of which bytecode must be kept

    return Clock(monkeypatch)


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every terminal 80 columns: lines would else be broken elsewhere for whoever runs the tests."""
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(autouse=True)
def _logs_as_users_find_them() -> Iterator[None]:
    """Leave logging unconfigured: what one test does to it would else decide where the warnings of others go."""
    loggers = [logging.getLogger(name) for name in ("refine", "refine.access", "judges")]
    before = [(one, one.handlers, one.propagate, one.level) for one in loggers]
    yield
    structlog.reset_defaults()
    for one, handlers, propagate, level in before:
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)


@pytest.fixture(autouse=True)
def _no_provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep tests from reaching a provider, or a tracing service, by accident."""
    for variable in ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2"):
        monkeypatch.setenv(variable, "false")
    with no_model_requests():
        yield
