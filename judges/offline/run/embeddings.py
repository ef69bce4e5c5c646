"""Vectors of texts as the journal of a run holds them: exact, and as small as JSON allows."""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from pydantic import ValidationError

from judges.fingerprint import fingerprint
from judges.model import EmbeddingModel, EmbeddingResponse
from judges.verdict import Usage


def digest_of(model: EmbeddingModel, texts: Sequence[str]) -> str:
    """Return a digest of all that vectors depend on."""
    parts = ["embeddings", fingerprint(model), list(texts)]
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def response_json(response: EmbeddingResponse) -> bytes:
    """Return vectors and what they cost as JSON."""
    vectors = [base64.b64encode(array("d", vector).tobytes()).decode() for vector in response.vectors]
    usage = response.usage.model_dump(mode="json")
    return json.dumps({"vectors": vectors, "usage": usage, "model": response.model}).encode()


def read(record: Mapping[str, Any]) -> EmbeddingResponse | None:
    """Return the vectors that `response_json` has written; None where they cannot be read."""
    try:
        vectors = [array("d", base64.b64decode(text, validate=True)).tolist() for text in record["vectors"]]
        usage = Usage.model_validate(record["usage"])
    except (KeyError, TypeError, ValueError, ValidationError):
        return None
    return EmbeddingResponse(vectors, usage, record.get("model"))
