"""One RayJob in a cluster: its status, what keeps its pods from starting, its removal. All I/O with bounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from infra.cluster_access import REQUEST_SECONDS, Connected, plain, short
from infra.job_status import Failed, Started, Waiting, judge, pod_troubles

_RAY = ("ray.io", "v1")
_OPERATOR_SECONDS = 30  # what the operator has for its part of a removal before we do it
_LEFTOVER_SECONDS = 60  # what Kubernetes has to collect what the job owned
_POLL_SECONDS = 1
_LOG_LINES = 500


class LiveJob(Connected):
    """Reads and removes the RayJob `namespace`/`name`."""

    def __init__(self, kubeconfig: str | None, context: str | None, namespace: str, name: str) -> None:
        self._namespace, self._name = namespace, name
        super().__init__(kubeconfig, context)
        self._custom, self._core, self._batch = (
            client.CustomObjectsApi(self.api),
            client.CoreV1Api(self.api),
            client.BatchV1Api(self.api),
        )

    def read(self) -> dict[str, Any] | None:
        """The whole object, or None when it is gone."""
        try:
            found: Any = self._custom.get_namespaced_custom_object(
                *_RAY, self._namespace, "rayjobs", self._name, _request_timeout=REQUEST_SECONDS
            )
        except ApiException as error:
            if error.status == 404:
                return None
            raise
        return found

    def verdict(self) -> Waiting | Started | Failed:
        """What can be said of the job now; a cluster that doesn't answer at once is one to wait for."""
        try:
            found = self.read()
        except (ApiException, HTTPError) as error:
            return Waiting(f"the cluster can't be asked: {short(error)}")
        return judge(found.get("status") or {}) if found else Failed("gone: something else has removed it")

    def troubles(self) -> list[str]:
        """What keeps the job's pods from starting, a line each."""
        try:
            return pod_troubles(self._pods())
        except (ApiException, HTTPError) as error:
            return [f"its pods can't be listed: {short(error)}"]

    def driver_log(self, since_seconds: int | None = None) -> str:
        """The newest lines of what the job's driver prints, each behind its time, as its submitter passes them on.

        Empty, before the submitter has started and after it is gone.
        """
        pods = [pod for pod in self._pods() if pod["metadata"]["labels"].get("app.kubernetes.io/component") == "submitter"]
        if not pods:
            return ""
        newest = max(pods, key=lambda pod: pod["metadata"].get("creationTimestamp", ""))
        more = {"since_seconds": since_seconds} if since_seconds else {}
        try:
            answer: Any = self._core.read_namespaced_pod_log(
                newest["metadata"]["name"], self._namespace, timestamps=True, tail_lines=_LOG_LINES, **more,
                _preload_content=False, _request_timeout=REQUEST_SECONDS,
            )  # fmt: skip
        except ApiException as error:
            if error.status in (400, 404):
                return ""
            raise
        return answer.data.decode(errors="replace")

    def remove(self, uid: str) -> None:
        """Deletes the job and waits until nothing of it is left, with or without an operator. Another uid is another job."""
        found = self.read()
        if found is not None and found["metadata"]["uid"] == uid:
            self._ask_for_deletion(uid)
            if not self._wait(lambda: self.read() is None, _OPERATOR_SECONDS):
                self._drop_finalizers()
                self._wait(lambda: self.read() is None, _OPERATOR_SECONDS)
        elif found is not None:
            return
        if self._wait(lambda: not self._leftovers(), _LEFTOVER_SECONDS):
            return
        for delete in self._leftovers().values():
            _unless_gone(partial(delete, _preload_content=False, _request_timeout=REQUEST_SECONDS))
        if not self._wait(lambda: not self._leftovers(), _OPERATOR_SECONDS):
            raise TimeoutError(f"still there after the removal of RayJob {self._name}: {', '.join(self._leftovers())}")

    def _ask_for_deletion(self, uid: str) -> None:
        body = client.V1DeleteOptions(propagation_policy="Background", preconditions=client.V1Preconditions(uid=uid))
        _unless_gone(
            lambda: self._custom.delete_namespaced_custom_object(
                *_RAY, self._namespace, "rayjobs", self._name, body=body, _request_timeout=REQUEST_SECONDS
            )
        )

    def _drop_finalizers(self) -> None:
        """What the operator would do: without it, its finalizer keeps the object and the namespace for ever."""
        bare = {"metadata": {"finalizers": None}}
        _unless_gone(
            lambda: self._custom.patch_namespaced_custom_object(
                *_RAY, self._namespace, "rayjobs", self._name, bare, _request_timeout=REQUEST_SECONDS
            )
        )

    def _pods(self) -> list[dict[str, Any]]:
        selector = f"app.kubernetes.io/instance={self._name}"
        return plain(self._core.list_namespaced_pod, self._namespace, label_selector=selector)["items"]

    def _leftovers(self) -> dict[str, Callable[..., Any]]:
        """What the job owned and still exists, as it would be named to a user -> how to delete it."""
        where, origin = self._namespace, f"ray.io/originated-from-cr-name={self._name}"
        clusters = plain(self._custom.list_namespaced_custom_object, *_RAY, where, "rayclusters", label_selector=origin)
        jobs = plain(self._batch.list_namespaced_job, where, label_selector=origin)
        delete_cluster = partial(self._custom.delete_namespaced_custom_object, *_RAY, where, "rayclusters")
        delete_job = partial(self._batch.delete_namespaced_job, namespace=where, propagation_policy="Background")
        delete_pod = partial(self._core.delete_namespaced_pod, namespace=where, grace_period_seconds=0)
        return {
            **{f"raycluster/{name}": partial(delete_cluster, name) for name in _names(clusters["items"])},
            **{f"job/{name}": partial(delete_job, name) for name in _names(jobs["items"])},
            **{f"pod/{name}": partial(delete_pod, name) for name in _names(self._pods())},
        }

    @staticmethod
    def _wait(condition: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True


def _names(objects: list[dict[str, Any]]) -> list[str]:
    return [one["metadata"]["name"] for one in objects]


def _unless_gone(action: Callable[[], Any]) -> None:
    try:
        action()
    except ApiException as error:
        if error.status != 404:
            raise
