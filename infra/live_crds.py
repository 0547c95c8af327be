"""The operator's CRDs in a live cluster: applied server-side, marked with the hash of what they were made from.

The label alone would stay when somebody applies other schemas over ours, so the generation is compared too: Kubernetes
counts each change of a spec in it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from infra import ray_crds
from infra.cluster_access import Connected, plain

_DIGEST_LABEL = "ray-train-eks/crds"
_MANAGER = "ray-train-eks"
_APPLY_SECONDS = 60  # for one object, of up to half a megabyte
_ESTABLISHED_SECONDS = 60
_POLL_SECONDS = 1


class LiveCrds(Connected):
    """Those of one version of the operator. `digest`: of the file that they come from."""

    def __init__(self, kubeconfig: str, version: str, digest: str) -> None:
        self._crds = {crd["metadata"]["name"]: crd for crd in ray_crds.operator_crds(version)}
        self._label = digest[:16]
        super().__init__(kubeconfig, None)
        self._definitions = client.ApiextensionsV1Api(self.api)

    def apply(self) -> dict[str, int]:
        """Also over what a chart or a person has put there: from here on the stack keeps them. Returns their generations.

        Raises: TimeoutError.
        """
        for name, crd in self._crds.items():
            metadata = crd["metadata"]
            labels = {**metadata.get("labels", {}), _DIGEST_LABEL: self._label}
            self._put(name, {**crd, "metadata": {**metadata, "labels": labels}})
        return {name: _generation(crd) for name, crd in self._established().items()}

    def are_applied(self, generations: Mapping[str, int]) -> bool:
        """Whether each is there, made from these bytes, and not changed since it had its number of `generations`."""
        found = {name: self._read(name) or {} for name in self._crds}
        marks = [crd.get("metadata", {}).get("labels", {}).get(_DIGEST_LABEL) for crd in found.values()]
        changed = [name for name, crd in found.items() if _generation(crd) != generations.get(name, _generation(crd))]
        return not changed and all(mark == self._label for mark in marks)

    def _put(self, name: str, body: Mapping[str, Any]) -> None:
        """By hand, because the client's own method sends a body of another type."""
        self.api.call_api(
            f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}",
            "PATCH",
            query_params=[("fieldManager", _MANAGER), ("force", "true")],
            header_params={"Accept": "application/json", "Content-Type": "application/apply-patch+yaml"},
            body=body,
            auth_settings=["BearerToken"],
            _preload_content=False,
            _request_timeout=_APPLY_SECONDS,
        )

    def _established(self) -> dict[str, dict[str, Any]]:
        """All of them, once the cluster serves what they say. Raises: TimeoutError."""
        deadline = time.monotonic() + _ESTABLISHED_SECONDS
        found: dict[str, dict[str, Any]] = {}
        while waiting := [name for name in self._crds if not _is_established(found.get(name, {}))]:
            if found and time.monotonic() > deadline:
                raise TimeoutError(f"not established after {_ESTABLISHED_SECONDS} s: CRD {', '.join(waiting)}")
            if found:
                time.sleep(_POLL_SECONDS)
            found |= {name: self._read(name) or {} for name in waiting}
        return found

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            return plain(self._definitions.read_custom_resource_definition, name)
        except ApiException as error:
            if error.status == 404:
                return None
            raise


def _generation(crd: Mapping[str, Any]) -> int:
    return crd.get("metadata", {}).get("generation", 0)


def _is_established(crd: Mapping[str, Any]) -> bool:
    conditions = crd.get("status", {}).get("conditions", [])
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
