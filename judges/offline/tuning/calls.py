"""Model calls that are counted, bounded and kept: what was asked before a crash is not asked again."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from judges.errors import AskFailed, ConfigurationError
from judges.model import JudgeModel, ModelRequest, ModelResponse
from judges.models.wrappers.cache import key_of
from judges.models.wrappers.wrapped import Wrapped

_MOST_LOST = 8
"""Most calls set aside for those whose replies are lost in a crash: as many as are under way at once."""


@cache
def _responses() -> TypeAdapter[ModelResponse]:
    return TypeAdapter(ModelResponse)


class JournaledCalls:
    """Step before a model that keeps each reply in a file, and sends no more calls than the budget has.

    The same request counts once and is sent once. What counts is the same whether replies come from the file or
    from the model, so that work that goes on after a crash ends as it would have. Calls that were sent without
    their replies being kept count besides; a few calls of the budget are set aside for them.

    Args:
        file: The journal; replies in it are taken.
        budget: Most calls, with those before a crash.
        purpose: Digest of what the calls are for; a journal of another purpose is refused.

    Raises:
        ConfigurationError: If the journal is of another purpose, or cannot be read.
    """

    def __init__(self, file: Path, budget: int, *, purpose: str) -> None:
        self._file, self._budget = file, budget
        self.limit = budget - min(_MOST_LOST, budget // 20)
        self._lock = threading.Lock()
        self._replies: dict[str, ModelResponse] = {}
        self._counted: set[str] = set()
        self._sent = 0
        self._read(purpose)

    @property
    def counted(self) -> int:
        """Calls so far: different requests, whether their replies were kept or came now."""
        return len(self._counted)

    @property
    def sent(self) -> int:
        """Calls that reached the model, with those before a crash."""
        return self._sent

    @contextmanager
    def keeping(self, calls: int) -> Iterator[None]:
        """Keep some calls for what comes after this block."""
        self.limit -= calls
        try:
            yield
        finally:
            self.limit += calls

    def around(self, model: JudgeModel) -> JudgeModel:
        """Return the model behind this step."""
        return Wrapped(model, self)

    def send(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Return the reply that was kept, or send the request."""
        key = key_of(model.name, request).hex()
        kept = self._claim(key)
        return kept or self._keep(key, request, model.send(request))

    async def asend(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Do the same without blocking."""
        key = key_of(model.name, request).hex()
        kept = self._claim(key)
        return kept or self._keep(key, request, await model.asend(request))

    def _claim(self, key: str) -> ModelResponse | None:
        """Count a request, and return its reply if that was kept.

        Raises:
            AskFailed: If no call is left.
        """
        with self._lock:
            if key not in self._counted and len(self._counted) >= self.limit:
                raise AskFailed("budget", "the calls for tuning are used up")
            self._counted.add(key)
            if key in self._replies:
                return self._replies[key]
            if self._sent >= self._budget:
                raise AskFailed("budget", "the calls for tuning are used up")
            self._sent += 1
            self._append({"sent": key})
            return None

    def _keep(self, key: str, request: ModelRequest, response: ModelResponse) -> ModelResponse:
        record = _responses().dump_json(response).decode()
        if request.nonce:
            record = re.sub(request.nonce, "", record, flags=re.IGNORECASE)
        with self._lock:
            self._append({"key": key, "reply": json.loads(record)})
            self._replies[key] = response
        return response

    def _append(self, line: dict[str, Any]) -> None:
        with self._file.open("a", encoding="utf-8") as out:
            out.write(f"{json.dumps(line, ensure_ascii=False)}\n")

    def _read(self, purpose: str) -> None:
        """Read the journal; a line that a crash tore is left out, and ended."""
        if not self._file.exists():
            self._append({"purpose": purpose})
            return
        content = self._file.read_text(encoding="utf-8")
        lines = list(_lines_of(content))
        if not lines or lines[0].get("purpose") != purpose:
            raise ConfigurationError(
                f"{self._file.parent} holds a tuning of other labels, another judge or other settings; choose "
                f"another folder (--out), or delete it first"
            )
        if not content.endswith("\n"):
            with self._file.open("a", encoding="utf-8") as out:
                out.write("\n")
        self._sent = sum("sent" in line for line in lines)
        for line in lines:
            if "key" in line:
                self._replies[line["key"]] = _responses().validate_json(json.dumps(line["reply"]))


def _lines_of(content: str) -> Iterator[dict[str, Any]]:
    for text in content.splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            yield line
