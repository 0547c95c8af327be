"""A container registry on loopback: tokens, manifest lists, manifests, blobs, and whatever a test wants to go wrong."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
NAME = "deep-learning-containers/ray"
AWS_ENVIRONMENT = ("PATH=/opt/venv/bin:/bin", "CUDA_VERSION=13.0.2", "FI_PROVIDER=efa")
AWS_LABELS = {"framework": "ray", "framework_version": "2.58.0", "dlc_major_version": "1"}


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


class FakeRegistry:
    """Serves one repository; `answers` maps a path to what overrides the true answer."""

    def __init__(self) -> None:
        self.bodies: dict[str, tuple[bytes, str]] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.answers: dict[str, Any] = {}
        self.challenge = 'Bearer realm="{url}/token/",service="public.ecr.aws",scope="aws"'
        self.token: str | None = "anonymous-token"
        self.drips = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def hold(
        self,
        tag: str,
        environment: tuple[str, ...] = AWS_ENVIRONMENT,
        labels: dict[str, str] | None = None,
        platforms: tuple[str, ...] = ("linux/arm64", "linux/amd64"),
        *,
        index: bool = True,
    ) -> str:
        """Pushes an image, for each platform another; returns the digest of the linux/amd64 manifest."""
        items, found = [], ""
        for platform in platforms:
            system, architecture = platform.split("/")
            config = {"os": system, "architecture": architecture, "config": {"Env": list(environment)}}
            config["config"]["Labels"] = AWS_LABELS if labels is None else labels
            manifest = {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": {"digest": self._put("blobs", config), "size": 1},
                "layers": [{"size": 9_000_000_000}, {"size": 500_000_000}],
            }
            digest = self._put("manifests", manifest)
            items.append({"digest": digest, "platform": {"os": system, "architecture": architecture}})
            found = digest if platform == "linux/amd64" else found
        top: dict[str, Any] = {"schemaVersion": 2, "mediaType": INDEX, "manifests": items}
        top_digest = self._put("manifests", top) if index else found
        self.bodies[f"/v2/{NAME}/manifests/{tag}"] = self.bodies[f"/v2/{NAME}/manifests/{top_digest}"]
        return found

    def _put(self, kind: str, content: dict[str, Any]) -> str:
        body = json.dumps(content).encode()
        digest = digest_of(body)
        self.bodies[f"/v2/{NAME}/{kind}/{digest}"] = (body, str(content.get("mediaType", "application/json")))
        return digest

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                registry._answer(self)

        return Handler

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(request.path)
        self.requests.append((parts.path, request.headers.get("Authorization")))
        special = self.answers.get(parts.path)
        if callable(special):
            special(request)
        elif parts.path == "/token/":
            assert parse_qs(parts.query) == {"service": ["public.ecr.aws"], "scope": ["aws"]}
            self.send(request, 200, json.dumps({"token": self.token}).encode())
        elif self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            self.send(request, 401, b"{}", {"WWW-Authenticate": self.challenge.format(url=self.url)})
        elif parts.path not in self.bodies:
            self.send(request, 404, b"{}")
        else:
            body, kind = self.bodies[parts.path]
            digest = special if isinstance(special, str) else digest_of(body)
            self.send(request, 200, body, {"Content-Type": kind, "Docker-Content-Digest": digest})

    def send(
        self,
        request: BaseHTTPRequestHandler,
        code: int,
        body: bytes,
        headers: dict[str, str] | None = None,
        length: int | None = None,
    ) -> None:
        request.send_response(code)
        for name, value in (headers or {}).items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body) if length is None else length))
        request.end_headers()
        try:
            for piece in [body[i : i + 1] for i in range(len(body))] if self.drips else [body]:
                request.wfile.write(piece)
                request.wfile.flush()
                time.sleep(0.05 if self.drips else 0)
        except OSError:
            pass  # the client has had enough, which is what such a test is about
