"""OpenAI's files and batches on the model server of the tests: uploads, lists, states and outputs, with faults."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.model_server import Asked, Reply, Wire, answered

Answer = Callable[[Asked], Reply | str | None]
"""What comes of a request in a batch: a reply, the code of an error, or no line at all."""


class BatchProvider:
    """Answers the requests of batches when a batch is looked at for the last time before it ends.

    Args:
        answer: What comes of a request.
        looks: How often a batch is looked at before it has ended.

    Attributes:
        files: Uploaded files and outputs by id, each as name and content.
        batches: Batches by id.
        ending: The status with which batches end.
        lost: How many responses to uploads and creations are lost, though they were carried out.
        deleting: The status with which deletions of files are answered.
        log: What was asked, as method and path.
    """

    def __init__(self, answer: Answer, *, looks: int = 1) -> None:
        self.answer, self.looks = answer, looks
        self.files: dict[str, tuple[str, bytes]] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.ending = "completed"
        self.lost = 0
        self.deleting = 200
        self._numbers = itertools.count(1)
        self.log: list[str] = []

    def __call__(self, asked: Asked) -> Reply | Wire:
        """Answer a request."""
        url = urlsplit(asked["path"])
        method, path = asked["method"], url.path.removeprefix("/v1")
        self.log.append(f"{method} {path}")
        match method, path.strip("/").split("/"):
            case "POST", ["files"]:
                return self._carried_out(self._upload(asked["raw"]))
            case "GET", ["files"]:
                listed = [{"id": one, "filename": name} for one, (name, _) in self.files.items()]
                return self._page(listed, parse_qs(url.query))
            case "GET", ["files", file_id, "content"]:
                return answered(self.files[file_id][1], kind="application/octet-stream")
            case "DELETE", ["files", file_id]:
                if self.deleting != HTTPStatus.OK or file_id not in self.files:
                    return Reply(status=self.deleting if self.deleting != HTTPStatus.OK else 404, text="no")
                del self.files[file_id]
                return self._carried_out({"id": file_id, "deleted": True})
            case "POST", ["batches"]:
                return self._carried_out(self._create(asked))
            case "GET", ["batches"]:
                return self._page(list(self.batches.values()), parse_qs(url.query))
            case "GET", ["batches", batch_id]:
                return answered(self._look(self.batches[batch_id]))
            case _:
                return Reply(status=404, text="no such page")

    @property
    def requests(self) -> int:
        """How many requests the batches have that were created."""
        return sum(batch["request_counts"]["total"] for batch in self.batches.values())

    def _carried_out(self, made: dict[str, Any]) -> Wire:
        if self.lost:
            self.lost -= 1
            return Wire(then="reset")
        return answered(made)

    def _upload(self, raw: bytes) -> dict[str, Any]:
        match = re.search(rb'filename="([^"]+)".*?\r\n\r\n(.*)\r\n--', raw, re.DOTALL)
        assert match is not None
        assert b'name="purpose"\r\n\r\nbatch' in raw
        file_id = f"file-{next(self._numbers)}"
        self.files[file_id] = match[1].decode(), match[2]
        return {"id": file_id, "filename": match[1].decode()}

    def _create(self, asked: Asked) -> dict[str, Any]:
        assert asked["endpoint"] == "/v1/chat/completions"
        _, content = self.files[asked["input_file_id"]]
        batch_id = f"batch-{len(self.batches) + 1}"
        counts = {"total": content.count(b"\n"), "completed": 0, "failed": 0}
        self.batches[batch_id] = {
            "id": batch_id,
            "status": "in_progress",
            "input_file_id": asked["input_file_id"],
            "metadata": asked["metadata"],
            "request_counts": counts,
            "looks": 0,
        }
        return self.batches[batch_id]

    def _page(self, listed: list[dict[str, Any]], query: dict[str, list[str]]) -> Wire:
        listed.reverse()  # newest first
        after = query.get("after", [None])[0]
        start = next((place + 1 for place, one in enumerate(listed) if one["id"] == after), 0)
        page = listed[start : start + int(query["limit"][0])]
        return answered({"data": page, "has_more": start + len(page) < len(listed)})

    def _look(self, batch: dict[str, Any]) -> dict[str, Any]:
        batch["looks"] += 1
        if batch["looks"] <= self.looks or batch["status"] != "in_progress":
            return batch
        batch["status"] = self.ending
        if self.ending == "failed":
            batch["errors"] = {
                "data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached"}]
            }
            return batch
        output, errors = self._outputs(self.files[batch["input_file_id"]][1])
        for name, lines in (("output_file_id", output), ("error_file_id", errors)):
            if lines:
                batch[name] = f"file-{next(self._numbers)}"
                self.files[batch[name]] = name, "".join(f"{json.dumps(line)}\n" for line in lines[::-1]).encode()
        batch["request_counts"] |= {"completed": len(output), "failed": len(errors)}
        return batch

    def _outputs(self, content: bytes) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        output: list[dict[str, Any]] = []
        errors: list[dict[str, Any]] = []
        for request in map(json.loads, content.splitlines()):
            answer = self.answer(request["body"])
            line: dict[str, Any] = {"id": "r", "custom_id": request["custom_id"], "response": None, "error": None}
            if isinstance(answer, str):
                errors.append(line | {"error": {"code": answer, "message": "m"}})
            elif answer is not None:
                body = json.loads(answer.wire(request["body"]).sent.partition(b"\r\n\r\n")[2])
                line |= {"response": {"status_code": answer.status, "request_id": "r", "body": body}}
                (output if answer.status == HTTPStatus.OK else errors).append(line)
        return output, errors
