"""CheckpointStore: where checkpoints, evidence and records live, as a volume for the run's pods."""

from __future__ import annotations

from typing import Any

import pulumi_kubernetes as kubernetes
from pulumi import ComponentResource, Input, ResourceOptions

from infra.settings_models import ClaimStore, HostPathStore


class CheckpointStore(ComponentResource):
    """Outputs: volume (a pod's volume without its name). A hostPath and an existing claim stay when the stack goes."""

    volume: dict[str, Any]

    def __init__(
        self, name: str, settings: HostPathStore | ClaimStore, namespace: Input[str], opts: ResourceOptions | None = None
    ) -> None:
        super().__init__("ray-train-eks:index:CheckpointStore", name, None, opts)
        if isinstance(settings, HostPathStore):
            self.volume = {"hostPath": {"path": settings.path, "type": "DirectoryOrCreate"}}
        else:
            claim_name = settings.claim_name or self._create_claim(name, settings, namespace)
            self.volume = {"persistentVolumeClaim": {"claimName": claim_name}}
        self.register_outputs({"volume": self.volume})

    def _create_claim(self, name: str, settings: ClaimStore, namespace: Input[str]) -> Input[str]:
        """Not awaited: classes that bind at first use would wait for pods that wait for the claim."""
        claim = kubernetes.core.v1.PersistentVolumeClaim(
            f"{name}-claim",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name="ray-train-store", namespace=namespace, annotations={"pulumi.com/skipAwait": "true"}
            ),
            spec=kubernetes.core.v1.PersistentVolumeClaimSpecArgs(
                access_modes=list(settings.access_modes or ()),
                storage_class_name=settings.storage_class,
                resources=kubernetes.core.v1.VolumeResourceRequirementsArgs(requests={"storage": settings.size or ""}),
            ),
            opts=ResourceOptions(parent=self),
        )
        return claim.metadata.name
