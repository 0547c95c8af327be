"""What a Helm release runs in a live cluster, and what keeps it from being ready. All I/O with bounds."""

from __future__ import annotations

from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from infra.cluster_access import Connected, plain, short
from infra.job_status import pod_troubles
from infra.rollout_status import HELM_LABEL, is_of, shortfall


class LiveRollout(Connected):
    """The Deployments and DaemonSets of one release."""

    def __init__(self, kubeconfig: str, namespace: str, release: str) -> None:
        self._namespace, self._release = namespace, release
        super().__init__(kubeconfig, None)
        self._apps, self._core = client.AppsV1Api(self.api), client.CoreV1Api(self.api)

    def problems(self) -> list[str]:
        """A line for each thing that is not ready, then one for each pod that can't start; none when all is ready."""
        try:
            return self._problems()
        except (ApiException, HTTPError) as error:
            return [f"the cluster can't be asked: {short(error)}"]

    def _problems(self) -> list[str]:
        listed = {
            "Deployment": plain(self._apps.list_namespaced_deployment, self._namespace, label_selector=HELM_LABEL),
            "DaemonSet": plain(self._apps.list_namespaced_daemon_set, self._namespace, label_selector=HELM_LABEL),
        }
        ours = [(kind, one) for kind, found in listed.items() for one in found["items"] if is_of(one, self._release)]
        if not ours:
            return [f"there is no Deployment or DaemonSet of release {self._release} in namespace {self._namespace}"]
        lacking = [(kind, one, said) for kind, one in ours if (said := shortfall(one))]
        lines = [f"{kind} {one['metadata']['name']}: {said}" for kind, one, said in lacking]
        return [*lines, *(trouble for _, one, _ in lacking for trouble in self._troubles(one))]

    def _troubles(self, workload: dict[str, Any]) -> list[str]:
        labels = workload["spec"]["selector"]["matchLabels"]
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        return pod_troubles(plain(self._core.list_namespaced_pod, self._namespace, label_selector=selector)["items"])
