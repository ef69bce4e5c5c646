"""Replies that come compressed although none was asked for, as from a proxy that compresses whatever passes."""

from __future__ import annotations

import zlib
from dataclasses import replace

from refine.server.errors import UpstreamFailed
from refine.server.upstream import UpstreamReply

_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31
_MOST_BYTES = 50_000_000


def uncompressed(reply: UpstreamReply) -> UpstreamReply:
    """Return a reply whose body is not compressed by gzip; JSON and HTML never begin as such a body does.

    Raises:
        UpstreamFailed: If the body is broken, or too large.
    """
    if not reply.body.startswith(_GZIP):
        return reply
    reader = zlib.decompressobj(_GZIP_WINDOW)
    try:
        body = reader.decompress(reply.body, _MOST_BYTES)
    except zlib.error:
        raise UpstreamFailed(502, "the upstream's reply is no whole gzip", code="upstream_reply") from None
    if not reader.eof:
        raise UpstreamFailed(
            502, f"the upstream's reply is cut, or larger than {_MOST_BYTES:,} bytes", code="upstream_reply"
        )
    return replace(reply, body=body)
