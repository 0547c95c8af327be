"""What a container registry says of an image (distribution API v2 over HTTPS, anonymous): digest, size, environment, labels.

Nothing is believed that its digest doesn't prove. Every answer is bounded, in time and in size. Not here: credentials; a
private registry's image has the same digest as the public one that it copies.
"""

from __future__ import annotations

import hashlib
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, NoReturn

from infra.image import ImageReference
from infra.registry_transport import BadAddressError, Deadline, TooLargeError, open_url, read_bounded
from workload.errors import UserError, bad_input

INDEX_TYPES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
MANIFEST_TYPES = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
PLATFORM = ("linux", "amd64")
_SECONDS = 60.0  # for all questions about one image
_MANIFEST_BYTES, _CONFIG_BYTES, _TOKEN_BYTES = 4 << 20, 8 << 20, 256 << 10
_HOSTS = {"docker.io": "registry-1.docker.io"}  # where Docker Hub's API is
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, kw_only=True)
class RemoteImage:
    """The linux/amd64 image behind a reference, as the registry held it."""

    digest: str
    registry: str
    compressed_bytes: int
    environment: Mapping[str, str]
    labels: Mapping[str, str]


def look_up(image: ImageReference, registry: str | None = None, seconds: float = _SECONDS) -> RemoteImage:
    """Asks `registry` (a URL; else the reference's own over HTTPS). Raises: UserError."""
    host, _, name = image.repository.partition("/")
    base = (registry or f"https://{_HOSTS.get(host, host)}").rstrip("/")
    client = _Client(base, name, str(image), Deadline(seconds))
    wanted = image.digest or image.tag or "latest"
    digest, manifest = client.manifest(wanted, image.digest)
    if manifest.get("mediaType") in INDEX_TYPES or "manifests" in manifest:
        digest = _of_platform(manifest, image)
        digest, manifest = client.manifest(digest, digest)
    try:
        config = client.config(manifest["config"]["digest"])
        size = sum(int(layer["size"]) for layer in manifest["layers"])
        inside = config.get("config") or {}
        environment = dict(line.partition("=")[::2] for line in inside.get("Env") or [])
        labels = {str(key): str(value) for key, value in (inside.get("Labels") or {}).items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise bad_input("image", str(image), f"its manifest or configuration isn't an image's: {error!r}", _OTHER) from error
    return RemoteImage(digest=digest, registry=base, compressed_bytes=size, environment=environment, labels=labels)


_OTHER = "name another image or registry"


def _of_platform(index: Mapping[str, Any], image: ImageReference) -> str:
    platforms = []
    for item in index.get("manifests") or []:
        platform = item.get("platform") or {}
        platforms.append((str(platform.get("os")), str(platform.get("architecture"))))
        if platforms[-1] == PLATFORM and isinstance(item.get("digest"), str):
            return item["digest"]
    held = ", ".join("/".join(one) for one in platforms) or "nothing"
    raise bad_input("image", str(image), f"holds {held}, not linux/amd64", "name an image for linux/amd64")


@dataclass
class _Client:
    """One registry and one repository; asks for an anonymous token when the registry wants one."""

    base: str
    name: str
    image: str
    deadline: Deadline
    token: str = ""

    def manifest(self, wanted: str, expected: str | None) -> tuple[str, dict[str, Any]]:
        """Digest and content; the digest is computed, and equals the registry's own and the expected one."""
        accept = ", ".join((*INDEX_TYPES, *MANIFEST_TYPES))
        body, headers = self._get(f"manifests/{wanted}", accept, _MANIFEST_BYTES)
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        for said, by in (
            (headers.get("Docker-Content-Digest"), "the registry's Docker-Content-Digest"),
            (expected, "asked for"),
        ):
            if said and said != digest:
                reason = f"what came has digest {digest}, not {said} ({by}): it was changed on the way, or the registry errs"
                raise bad_input("image", self.image, reason, "don't use it; ask again, and then another registry")
        content = self._json(body, "manifest")
        if content.get("schemaVersion") != 2:
            raise bad_input(
                "image", self.image, "its manifest is of an old kind (schema 1)", "push it again, or use another tag"
            )
        return digest, content

    def config(self, digest: str) -> dict[str, Any]:
        body, _ = self._get(f"blobs/{digest}", "*/*", _CONFIG_BYTES)
        if f"sha256:{hashlib.sha256(body).hexdigest()}" != digest:
            reason = "its configuration doesn't have the digest that the manifest names"
            raise bad_input("image", self.image, reason, "don't use it; ask again, and then another registry")
        return self._json(body, "configuration")

    def _get(self, path: str, accept: str, limit: int) -> tuple[bytes, Mapping[str, str]]:
        url = f"{self.base}/v2/{self.name}/{path}"
        for attempt in (1, 2):
            headers = {"Accept": accept, **({"Authorization": f"Bearer {self.token}"} if self.token else {})}
            try:
                with self._open(url, headers) as response:
                    return read_bounded(response, limit, self.deadline), response.headers
            except urllib.error.HTTPError as error:
                if error.code != 401 or attempt == 2:
                    self._refuse(error)
                self.token = self._anonymous_token(error.headers.get("WWW-Authenticate") or "")
            except (OSError, HTTPException, TooLargeError, BadAddressError) as error:
                raise self._failed(url, error) from error
        raise AssertionError("both attempts return or raise")

    def _anonymous_token(self, challenge: str) -> str:
        scheme, _, rest = challenge.partition(" ")
        parts = dict(_CHALLENGE.findall(rest))
        if scheme.lower() != "bearer" or "realm" not in parts:
            reason = f"the registry wants credentials ({scheme or 'no challenge'}), and this command asks without any"
            raise bad_input("image", self.image, reason, "lock the public image that it copies: the digest is the same")
        default = {"scope": f"repository:{self.name}:pull"}
        query = urllib.parse.urlencode({**default, **{key: parts[key] for key in ("service", "scope") if key in parts}})
        url = f"{parts['realm']}?{query}"
        try:
            with self._open(url, {"Accept": "application/json"}) as response:
                answer = self._json(read_bounded(response, _TOKEN_BYTES, self.deadline), "token")
        except urllib.error.HTTPError as error:
            self._refuse(error)
        except (OSError, HTTPException, TooLargeError, BadAddressError) as error:
            raise self._failed(parts["realm"], error) from error
        token = answer.get("token") or answer.get("access_token")
        if not isinstance(token, str):
            raise bad_input("image", self.image, f"{parts['realm']} gave no token", _OTHER)
        return token

    def _open(self, url: str, headers: Mapping[str, str]) -> Any:
        return open_url(url, headers, self.deadline)

    def _json(self, body: bytes, what: str) -> dict[str, Any]:
        try:
            content = json.loads(body)
        except ValueError as error:
            raise bad_input("image", self.image, f"the {what} that came isn't JSON", _OTHER) from error
        if not isinstance(content, dict):
            raise bad_input("image", self.image, f"the {what} that came isn't a JSON object", _OTHER)
        return content

    def _refuse(self, error: urllib.error.HTTPError) -> NoReturn:
        """Says what an HTTP status means here."""
        code = error.code
        if code == 404:
            raise bad_input("image", self.image, f"{self.base} has no such image", "check repository and tag") from error
        if code in (401, 403):
            reason = f"{self.base} refuses it without credentials (HTTP {code})"
            raise bad_input("image", self.image, reason, "name a public image, or check its name") from error
        if code == 429:
            raise bad_input("image", self.image, f"{self.base} has had too many requests", "wait some minutes") from error
        raise bad_input("image", self.image, f"{self.base} answered HTTP {code}", "try again later") from error

    def _failed(self, url: str, error: Exception) -> UserError:
        host = urllib.parse.urlsplit(url).netloc or url
        if isinstance(error, (TooLargeError, BadAddressError)):
            return bad_input("image", self.image, f"{host}: {error}", _OTHER)
        if isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError):
            return bad_input("image", self.image, f"{host} took longer than {self.deadline.seconds:g} s", "try again later")
        reason = getattr(error, "reason", None) or error
        return bad_input("image", self.image, f"{host} can't be asked: {reason}", "check name, network and proxy")
