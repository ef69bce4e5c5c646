"""A guard in a thread of its own, for notebooks, demos and tests; to serve others there is `refine serve`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any, Self

from refine.server.building import service_of
from refine.server.config import load_settings
from refine.server.serving import address, app_of
from refine.server.socket_server import GuardServer, listening_socket

_STARTING_S = 10.0


class RunningGuard:
    """A guard that runs while a `with` block does.

    Args:
        settings: Settings as the configuration has them: `{"upstream": "http://...", "judge": "length", ...}`;
            without `port` a free one is taken.

    Raises:
        ConfigurationError: If a setting cannot be used.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = load_settings(None, {"port": 0, **settings})
        self.service = service_of(self._settings)
        self._socket = listening_socket(self._settings.host, self._settings.port)
        self._server = GuardServer(app_of(self._settings, self.service), self._settings)
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="guard", daemon=True)

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return self._url

    def __enter__(self) -> Self:
        self._url = address(self._socket)
        self._thread.start()
        if not self._started.wait(_STARTING_S):
            raise RuntimeError("the guard did not start; its log says why")
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.should_exit = True
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        serving = asyncio.ensure_future(self._server.serve([self._socket]))
        while not self._server.started and not serving.done():  # noqa: ASYNC110 - uvicorn only sets a flag
            await asyncio.sleep(0.005)
        self._started.set()
        await serving
