"""As much of a Kubernetes API as our client code speaks, over real HTTP: objects by path, finalizers, owners, pod logs."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

RESOURCES = "/apis/ray.io/v1"
SCHEMAS = "/openapi/v3/apis/ray.io/v1"
RAY_JOBS = f"{RESOURCES}/namespaces/ns/rayjobs"
RAY_CLUSTERS = f"{RESOURCES}/namespaces/ns/rayclusters"
JOBS = "/apis/batch/v1/namespaces/ns/jobs"
PODS = "/api/v1/namespaces/ns/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/ns/deployments"
DAEMON_SETS = "/apis/apps/v1/namespaces/ns/daemonsets"
COLLECTIONS = ("rayjobs", "rayclusters", "jobs", "pods", "deployments", "daemonsets")


class FakeCluster:
    """`objects` maps a path to the object there; `operator` says whether someone removes finalizers."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, str] = {}
        self.served = ["rayjobs", "rayclusters"]
        self.job_fields = ["entrypoint", "preRunningDeadlineSeconds"]
        self.operator = True
        self.collects = True  # garbage, as Kubernetes does
        self.new_pods = ("Succeeded", "")  # phase and log of every pod that is made
        self.deleted: list[str] = []
        self.applied: list[dict[str, list[str]]] = []  # the query of each server-side apply
        self.delay_seconds = 0.0
        self.refuses = 0  # the HTTP status that every look at the API gets
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"cluster": self}))
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, collection: str, name: str, labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": labels or {}}
        self.objects[f"{collection}/{name}"] = {"metadata": metadata, **more}
        return self.objects[f"{collection}/{name}"]

    def delete(self, path: str) -> None:
        self.deleted.append(path)
        found = self.objects[path]
        if found["metadata"].get("finalizers") and not self.operator:
            return
        self.remove(path)

    def remove(self, path: str) -> None:
        found = self.objects.pop(path)
        if not self.collects:
            return
        owned = [key for key, item in self.objects.items() if item.get("owner") == found["metadata"]["uid"]]
        for key in owned:
            self.objects.pop(key, None)


class _Handler(BaseHTTPRequestHandler):
    cluster: FakeCluster

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, body: Any, status: int = 200) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")

    def _path(self) -> str:
        return urlsplit(self.path).path.removesuffix("/")

    def _missing(self) -> None:
        self._answer({"kind": "Status", "reason": "NotFound", "code": 404}, 404)

    def do_GET(self) -> None:
        time.sleep(self.cluster.delay_seconds)
        path = self._path()
        if self.cluster.refuses:
            self._answer({"kind": "Status", "code": self.cluster.refuses}, self.cluster.refuses)
        elif path == RESOURCES:
            kinds = [
                {"name": name, "kind": name, "namespaced": True, "singularName": "", "verbs": []}
                for name in self.cluster.served
            ]
            self._answer({"groupVersion": "ray.io/v1", "resources": kinds}) if kinds else self._missing()
        elif path == SCHEMAS and self.cluster.job_fields:
            spec = {"properties": {name: {} for name in self.cluster.job_fields}}
            self._answer({"components": {"schemas": {"io.ray.v1.RayJob": {"properties": {"spec": spec}}}}})
        elif path.endswith("/log"):
            self._answer(self.cluster.logs.get(path.removesuffix("/log"), ""))
        elif path in self.cluster.objects:
            self._answer(self.cluster.objects[path])
        elif path.rsplit("/", 1)[-1] in COLLECTIONS:
            selector = parse_qs(urlsplit(self.path).query).get("labelSelector", [""])[0]
            wanted = dict(part.split("=") for part in selector.split(",") if part)
            items = [item for name, item in self.cluster.objects.items() if name.rpartition("/")[0] == path]
            self._answer({"items": [item for item in items if wanted.items() <= item["metadata"]["labels"].items()]})
        else:
            self._missing()

    def do_POST(self) -> None:
        pod = self._body()
        made = self.cluster.add(self._path(), pod["metadata"]["name"], pod["metadata"]["labels"], spec=pod["spec"])
        made["status"], log = {"phase": self.cluster.new_pods[0]}, self.cluster.new_pods[1]
        self.cluster.logs[f"{self._path()}/{pod['metadata']['name']}"] = log
        self._answer(made, 201)

    def do_PATCH(self) -> None:
        path, change = self._path(), self._body()
        if self.headers["Content-Type"] == "application/apply-patch+yaml":
            established = {"type": "Established", "status": "True"}
            self.cluster.objects[path] = {**change, "status": {"conditions": [established] if self.cluster.operator else []}}
            self.cluster.applied.append(parse_qs(urlsplit(self.path).query))
            return self._answer(self.cluster.objects[path])
        if path not in self.cluster.objects:
            return self._missing()
        self.cluster.objects[path]["metadata"].update(change["metadata"])
        self._answer(self.cluster.objects[path])
        if path in self.cluster.deleted and not change["metadata"].get("finalizers"):
            self.cluster.remove(path)
        return None

    def do_DELETE(self) -> None:
        self._body()
        path = self._path()
        if path not in self.cluster.objects:
            return self._missing()
        found = self.cluster.objects[path]
        self.cluster.delete(path)
        return self._answer(found)


def kubeconfig(path: Path, server: str, context: str = "here") -> Path:
    """A kubeconfig with one context, and a second one that leads nowhere."""
    content = {
        "apiVersion": "v1", "kind": "Config", "current-context": context,
        "clusters": [
            {"name": "one", "cluster": {"server": server}},
            {"name": "two", "cluster": {"server": "http://127.0.0.1:1"}},
        ],
        "users": [{"name": "u", "user": {}}],
        "contexts": [
            {"name": context, "context": {"cluster": "one", "user": "u"}},
            {"name": "nowhere", "context": {"cluster": "two", "user": "u"}},
        ],
    }  # fmt: skip
    path.write_text(json.dumps(content))
    return path
