"""CheckpointStore: where checkpoints, evidence and records live, whatever kind of storage that is.

Its parts (`s3_store.py`, `lustre_store.py`, `efs_store.py`) belong to it alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi_kubernetes as kubernetes
from pulumi import ComponentResource, Input, Output, ResourceOptions

from infra import efs_store, lustre_store, s3_store
from infra.eks_settings import EfsStore, FsxStore, S3Store
from infra.mounted_volume import StoreSite
from infra.ray_job_manifest import STORE_MOUNT
from infra.settings_models import ClaimStore, HostPathStore

# Inside the bucket, which is this environment's alone; the pods' rights end there.
PREFIX = "store"


@dataclass(frozen=True, kw_only=True)
class BucketOutputs:
    """The bucket, and what pods need to be allowed."""

    name: Output[str]
    arn: Output[str]
    key_arn: Output[str]
    prefix: str = PREFIX


class CheckpointStore(ComponentResource):
    """Outputs: location (`store` of the run config, as JSON), and volume (a pod's volume without its name) or None.

    `bucket`: what this stack made in S3, if anything; pods need rights in it only when they have no volume. A hostPath
    and an existing claim stay when the stack goes.
    """

    location: Output[dict[str, Any]]
    volume: dict[str, Any] | None = None
    bucket: BucketOutputs | None = None

    def __init__(
        self,
        name: str,
        settings: HostPathStore | ClaimStore | S3Store | FsxStore | EfsStore,
        namespace: Input[str],
        opts: ResourceOptions | None = None,
        *,
        site: StoreSite | None = None,
    ) -> None:
        super().__init__("ray-train-eks:index:CheckpointStore", name, None, opts)
        self._name, self._namespace, self._child = name, namespace, ResourceOptions(parent=self)
        self.location = Output.from_input({"path": STORE_MOUNT})
        if isinstance(settings, HostPathStore):
            self.volume = {"hostPath": {"path": settings.path, "type": "DirectoryOrCreate"}}
        elif isinstance(settings, ClaimStore):
            self.volume = _claim(settings.claim_name or self._create_claim(settings))
        else:
            assert site, "settings allow the kinds on AWS with a cluster on AWS alone"
            self._create_on_aws(settings, site)
        self.register_outputs({"location": self.location, "volume": self.volume})

    def _create_on_aws(self, settings: S3Store | FsxStore | EfsStore, site: StoreSite) -> None:
        if isinstance(settings, EfsStore):
            args = efs_store.EfsStoreArgs(settings=settings, site=site, namespace=self._namespace)
            self.volume = _claim(efs_store.EfsStore(f"{self._name}-efs", args, self._child).claim_name)
            return
        bucket = s3_store.S3Store(
            f"{self._name}-s3",
            settings.noncurrent_days,
            settings.purge_on_destroy,
            lustre=isinstance(settings, FsxStore),
            opts=self._child,
        )
        self.bucket = BucketOutputs(name=bucket.bucket, arn=bucket.bucket_arn, key_arn=bucket.key_arn)
        if isinstance(settings, FsxStore):
            lustre_args = lustre_store.LustreStoreArgs(
                settings=settings, site=site, bucket=bucket.bucket, prefix=PREFIX, namespace=self._namespace
            )
            self.volume = _claim(lustre_store.LustreStore(f"{self._name}-lustre", lustre_args, self._child).claim_name)
        else:
            where = {"kind": "s3", "prefix": PREFIX, "region": site.region, "endpoint": settings.endpoint}
            self.location = bucket.bucket.apply(lambda found: {**where, "bucket": found})

    def _create_claim(self, settings: ClaimStore) -> Input[str]:
        """Not awaited: classes that bind at first use would wait for pods that wait for the claim."""
        claim = kubernetes.core.v1.PersistentVolumeClaim(
            f"{self._name}-claim",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name="ray-train-store", namespace=self._namespace, annotations={"pulumi.com/skipAwait": "true"}
            ),
            spec=kubernetes.core.v1.PersistentVolumeClaimSpecArgs(
                access_modes=list(settings.access_modes or ()),
                storage_class_name=settings.storage_class,
                resources=kubernetes.core.v1.VolumeResourceRequirementsArgs(requests={"storage": settings.size or ""}),
            ),
            opts=self._child,
        )
        return claim.metadata.name


def _claim(name: Input[str]) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": name}}
