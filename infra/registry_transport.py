"""HTTP for the registry: HTTPS alone (plain HTTP to this machine), a deadline and a size for every answer.

A redirect to another host, which registries use for blobs, doesn't get the token.
"""

from __future__ import annotations

import ipaddress
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, override

_CHUNK = 64 << 10
_SILENCE_SECONDS = 15.0  # between two pieces of an answer


class TooLargeError(Exception):
    """The answer is larger than anything that belongs here."""


class BadAddressError(Exception):
    """Neither HTTPS nor this machine."""


class Deadline:
    """One bound over many waits."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Raises: TimeoutError."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return min(left, _SILENCE_SECONDS)


class _Redirects(urllib.request.HTTPRedirectHandler):
    @override
    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        _check_address(newurl)
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None and following.host != req.host:
            following.remove_header("Authorization")
        return following


def open_url(url: str, headers: Mapping[str, str], deadline: Deadline) -> Any:
    """The open answer. Raises: urllib.error.HTTPError, OSError, BadAddressError."""
    handlers: list[Any] = [_Redirects()]
    if _check_address(url):
        handlers.append(urllib.request.ProxyHandler({}))  # a proxy doesn't reach this machine
    request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 - the address is checked
    return urllib.request.build_opener(*handlers).open(request, timeout=deadline.left())


def read_bounded(response: Any, limit: int, deadline: Deadline) -> bytes:
    """Raises: TooLargeError, TimeoutError."""
    body = bytearray()
    while chunk := response.read1(_CHUNK):
        body += chunk
        if len(body) > limit:
            raise TooLargeError(f"answered with more than {limit >> 10} KiB")
        deadline.left()
    return bytes(body)


def _check_address(url: str) -> bool:
    """Whether it is this machine. Raises: BadAddressError."""
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not host or parts.scheme not in ("http", "https") or (parts.scheme == "http" and not local):
        raise BadAddressError(f"{parts.scheme or 'no scheme'}: isn't https; plain http is for a registry on this machine")
    return local
