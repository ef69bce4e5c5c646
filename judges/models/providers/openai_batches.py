"""The batch endpoints of OpenAI's API: a file of requests is uploaded, and its replies are fetched within a day.

A request whose response was lost may have been carried out, and a batch is paid for. So uploading and creating
look first for what is there already, by a name that no other batch has.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlencode

from judges.models import retry
from judges.models.providers.http import Endpoint
from judges.models.providers.http_errors import EndpointError, EndpointReplyError, EndpointResponse
from judges.models.providers.openai_replies import OK

_Fields = dict[str, Any]

_SECONDS = 60.0
_CONNECTING_S = 10.0
_FILE_SECONDS = 1_800.0
_PAGE = 100
_MOST_PAGES = 100
_TRIES = 4
_GONE = 404
_LABEL = "selfrefine"
"""Key of a batch's metadata that holds the name of its file."""


class BatchEndpoint:
    """The files and batches of one account at an endpoint.

    Args:
        endpoint: The endpoint.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def upload(self, path: Path, name: str, *, may_be_there: bool) -> str:
        """Upload a file of requests unless it is there, and return its id.

        Args:
            path: The file.
            name: Its name at the endpoint, which no other file has.
            may_be_there: Whether an earlier try may have uploaded it.

        Raises:
            EndpointError: If the endpoint refuses, or cannot be reached.
        """

        async def find() -> str | None:
            return await self._find("/files", {"purpose": "batch"}, lambda file: file.get("filename") == name)

        async def make() -> str:
            return _id_in(await self._upload(path, name))

        return await _once(find, make, may_be_there=may_be_there)

    async def create(self, file_id: str, name: str, window: str, *, may_be_there: bool) -> str:
        """Create the batch of an uploaded file unless it is there, and return its id; otherwise as `upload`."""

        async def find() -> str | None:
            return await self._find(
                "/batches", {}, lambda batch: (batch.get("metadata") or {}).get(_LABEL) == name
            )

        async def make() -> str:
            fields = {
                "input_file_id": file_id,
                "endpoint": "/v1/chat/completions",
                "completion_window": window,
                "metadata": {_LABEL: name},
            }
            return _id_in(await self._call("POST", "/batches", json.dumps(fields).encode()))

        return await _once(find, make, may_be_there=may_be_there)

    async def state(self, batch_id: str) -> _Fields:
        """Return what the endpoint says of a batch.

        Raises:
            EndpointError: If the endpoint refuses, or cannot be reached.
        """
        return await self._call("GET", f"/batches/{batch_id}")

    async def download(self, file_id: str, to: BinaryIO) -> None:
        """Write the content of a file to an open file, from its beginning.

        Raises:
            EndpointError: If the endpoint refuses, or cannot be reached.
        """

        async def fetch() -> None:
            to.seek(0)
            to.truncate()
            path = f"/files/{file_id}/content"
            response = await self._send("GET", path, seconds=_FILE_SECONDS, save=to.write)
            if response.status != OK:
                raise self._endpoint.status_error(response, ())

        await retry.acarry_out(fetch, _TRIES)

    async def delete(self, file_id: str, *, may_be_gone: bool) -> None:
        """Delete a file.

        Args:
            file_id: Its id.
            may_be_gone: Whether an earlier try may have deleted it.

        Raises:
            EndpointError: If the endpoint refuses, or cannot be reached.
        """

        async def attempt() -> None:
            nonlocal may_be_gone
            was_tried, may_be_gone = may_be_gone, True
            response = await self._send("DELETE", f"/files/{file_id}", seconds=_SECONDS)
            if response.status != OK and not (was_tried and response.status == _GONE):
                raise self._endpoint.status_error(response, ())

        await retry.acarry_out(attempt, _TRIES)

    async def _upload(self, path: Path, name: str) -> _Fields:
        import aiohttp  # noqa: PLC0415 - loaded by the endpoint, too

        with path.open("rb") as file:
            form = aiohttp.FormData()
            form.add_field("purpose", "batch")
            form.add_field("file", file, filename=name, content_type="application/jsonl")
            body = form()
            headers = {"content-type": body.content_type}  # in place of the endpoint's own
            response = await self._send("POST", "/files", data=body, headers=headers, seconds=_FILE_SECONDS)
        return self._fields(response)

    async def _find(self, path: str, query: dict[str, str], fits: Callable[[_Fields], bool]) -> str | None:
        """Return the id of the first object in a list that fits."""
        after: dict[str, str] = {}
        for _ in range(_MOST_PAGES):
            page = await self._call("GET", f"{path}?{urlencode({**query, 'limit': str(_PAGE), **after})}")
            listed = [one for one in page.get("data") or () if isinstance(one, dict)]
            for one in listed:
                if fits(one):
                    return _id_in(one)
            if not page.get("has_more") or not listed:
                return None
            after = {"after": _id_in(listed[-1])}
        return None

    async def _call(self, method: str, path: str, body: bytes | None = None) -> _Fields:
        return self._fields(await self._send(method, path, data=body, seconds=_SECONDS))

    async def _send(
        self,
        method: str,
        path: str,
        *,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
        seconds: float,
        save: Callable[[bytes], object] | None = None,
    ) -> EndpointResponse:
        """Send a request; `save` takes the body of a good response in parts, whatever its size."""
        import aiohttp  # noqa: PLC0415 - loaded by the endpoint, too

        session, url = await self._endpoint.session(), self._endpoint.url(path)
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECTING_S)
        try:
            async with session.request(
                method, url, data=data, headers=headers, allow_redirects=False, timeout=timeout
            ) as response:
                if save is None or response.status != OK:
                    body = await self._endpoint.body_of(response)
                    return EndpointResponse(response.status, response.headers, body)
                async for part in response.content.iter_any():
                    save(part)
                return EndpointResponse(response.status, response.headers, b"")
        except EndpointError:
            raise
        except Exception as error:  # noqa: BLE001 - classified in one place
            failure = self._endpoint.failure(error)
        raise failure  # outside the handler: a client's own error holds the headers sent

    def _fields(self, response: EndpointResponse) -> _Fields:
        if response.status != OK:
            raise self._endpoint.status_error(response, ())
        with suppress(ValueError, RecursionError):
            fields = json.loads(response.body)
            if isinstance(fields, dict):
                return fields
        raise EndpointReplyError("the endpoint's reply about a batch is no JSON object")


async def _once(
    find: Callable[[], Awaitable[str | None]], make: Callable[[], Awaitable[str]], *, may_be_there: bool
) -> str:
    """Make what is not there; after a try whose response was lost, look before the next one."""

    async def attempt() -> str:
        nonlocal may_be_there
        there = await find() if may_be_there else None
        may_be_there = True
        return there or await make()

    return await retry.acarry_out(attempt, _TRIES)


def _id_in(fields: _Fields) -> str:
    identifier = fields.get("id")
    if not isinstance(identifier, str) or not identifier:
        raise EndpointReplyError("the endpoint's reply about a batch has no id")
    return identifier
