"""The shape of an environment's settings, one model per config object. Shapes only: every default is in `settings.py`.

What a run is made of (`training`, and the four numbers in `workers` that Ray needs) comes from the contract with the
workload and isn't declared a second time.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from infra.eks_settings import EfsStore, EksConfiguration, FsxStore, S3Store
from infra.image import CustomImage
from infra.quantities import Cpu, Memory
from workload.run_config import (
    AbsolutePath,
    AnyStoreConfig,
    NotNegative,
    Positive,
    Provenance,
    RunConfig,
    Section,
    TrainingConfig,
    WorkersConfig,
)

DnsLabel = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]


class TargetSettings(Section):
    """The cluster: `existing` is any Kubernetes that a kubeconfig reaches; `eks` is made here, and reads no kubeconfig.

    Without `kubeconfig` the file is the one that kubectl would read; without `context` it is the file's current one.
    """

    kind: Literal["existing", "eks"]
    namespace: DnsLabel
    kubeconfig: str | None = None
    context: str | None = None


class HostPathStore(Section):
    """A folder on the nodes: shared only if all workers run on one node, or if every node mounts the same file system there."""

    kind: Literal["hostPath"]
    path: AbsolutePath


class ClaimStore(Section):
    """A volume claim: an existing one by `claimName`, or a new one of `size` from `storageClass`, which goes with the stack."""

    kind: Literal["claim"]
    claim_name: DnsLabel | None = None
    storage_class: str | None = None
    size: Memory | None = None
    access_modes: tuple[Literal["ReadWriteMany", "ReadWriteOnce"], ...] | None = None


class ImageSettings(Section):
    """What head, workers and submitter run; `rayVersion` is the version of Ray inside."""

    reference: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][-a-zA-Z0-9._/:@]*[a-zA-Z0-9]$", max_length=255)]
    ray_version: Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+$")]
    pull_policy: Literal["Always", "IfNotPresent", "Never"]
    custom: CustomImage | None = None  # required on EKS for another image than AWS's


class WorkersSettings(WorkersConfig):
    """Ray Train ranks and the pods that hold them; `sharedMemory` is /dev/shm, and counts as memory of the pod."""

    cpu: Cpu  # per pod; requested, not a limit
    memory: Memory  # per pod; requested and limit
    shared_memory: Memory  # per pod


class PodResources(Section):
    cpu: Cpu  # requested, not a limit
    memory: Memory  # requested and limit


class JobSettings(Section):
    """The Ray job around the training, and every bound on how long it may take."""

    head: PodResources
    submitter: PodResources
    pre_running_deadline_seconds: Positive  # from submission until it runs: image pulls, missing capacity
    active_deadline_seconds: Positive  # the whole job
    retries: NotNegative  # each on a new Ray cluster, after the first try
    keep_cluster_seconds: NotNegative  # head and workers stay this long after the end
    wait_for_running_seconds: Positive  # `pulumi up` waits this long for the job to run


class Configuration(Section):
    """The config objects of an environment, under their names."""

    target: TargetSettings
    store: Annotated[HostPathStore | ClaimStore | S3Store | FsxStore | EfsStore, Field(discriminator="kind")]
    image: ImageSettings
    workers: WorkersSettings
    job: JobSettings
    training: TrainingConfig


class Settings(Configuration):
    """One environment, whole and checked. `eks` is there exactly with `target.kind: eks`."""

    environment: str
    eks: EksConfiguration | None = None

    def run_config(self, store: AnyStoreConfig, provenance: Provenance) -> RunConfig:
        """What the workload reads; `store` is where it finds the store."""
        return RunConfig(
            schema_version=1,
            environment=self.environment,
            provenance=provenance,
            workers=WorkersConfig(**{name: getattr(self.workers, name) for name in WorkersConfig.model_fields}),
            store=store,
            training=self.training,
        )
