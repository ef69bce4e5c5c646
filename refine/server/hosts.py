"""Names under which a server without keys answers, so that no page of a stranger reaches it by a name of its own.

A page of another site can have its own name lead to this machine (DNS rebinding); its browser then takes the
server for a part of that site. Such a name is in the public DNS, so it has a dot and is no address.
"""

from __future__ import annotations

import ipaddress
import re
from fnmatch import fnmatchcase
from functools import lru_cache

from judges.errors import shortened
from refine.server.errors import ApiError

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[\w.-]+)(?::\d{1,5})?", re.ASCII)
_LOCAL = ("localhost", "*.localhost")


def check_host(header: str | None, allowed: tuple[str, ...]) -> None:
    """Check the name by which a request asks for this server; one without any comes from no browser.

    Args:
        header: The header `Host`.
        allowed: Patterns of further names, for instance `*.internal`.

    Raises:
        ApiError: If a stranger may have given the name to this machine.
    """
    if header and not _is_own(header, allowed):
        raise ApiError(
            403,
            f"this server has no keys, so it answers to addresses, names without a dot and `allowed_hosts`, not "
            f"to {shortened(header)}; add the name there, or give the server keys",
            code="host_not_allowed",
        )


@lru_cache(maxsize=256)
def _is_own(header: str, allowed: tuple[str, ...]) -> bool:
    match = _HOST.fullmatch(header.strip().lower())
    if match is None:
        return False
    name = match[1].removesuffix(".").strip("[]")
    return (
        _is_address(name)
        or not {".", ":"} & set(name)
        or any(fnmatchcase(name, pattern.lower()) for pattern in (*_LOCAL, *allowed))
    )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
