"""The shape of an environment on AWS, one model per config object. Shapes only: every default is in `settings.py`.

Rules that need facts (instance types, zones, prices) live beside the facts, as pure functions over these models.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from workload.run_config import Endpoint, NotNegative, Section

Cidr = Annotated[str, StringConstraints(pattern=r"^(\d{1,3}\.){3}\d{1,3}/\d{1,2}$")]
Zone = Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-\d[a-z]$")]
Region = Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-\d$")]
Arn = Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z-]*:iam::\d{12}:(role|user)/.+$")]
InstanceType = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*\.[a-z0-9-]+$")]
AmiRelease = Annotated[str, StringConstraints(pattern=r"^1\.\d{2}\.\d+-20\d{6}$")]
PlacementGroupName = Annotated[str, StringConstraints(pattern=r"^[!-~]([ -~]*[!-~])?$", max_length=255)]
InterfaceEndpoint = Literal["ecr.api", "ecr.dkr", "sts", "ec2", "logs", "eks-auth"]
LogType = Literal["api", "audit", "authenticator", "controllerManager", "scheduler"]
# What CloudWatch Logs accepts: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
LogRetentionDays = Literal[
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653
]


class AwsSettings(Section):
    """The account's side: region, tags for everything, and what the environment may cost in an hour."""

    region: Region
    owner: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    max_hourly_cost: Annotated[float, Field(gt=0)]  # USD; a plan that costs more is refused
    is_production: bool  # keeps what others must not lose: deletion protection, retention


class OwnSubnet(Section):
    """A subnet that exists already, with its zone."""

    id: Annotated[str, StringConstraints(pattern=r"^subnet-[0-9a-f]{8,17}$")]
    zone: Zone


class OwnVpc(Section):
    """A VPC that exists already: nothing in it is made or changed but the security groups of this environment."""

    vpc_id: Annotated[str, StringConstraints(pattern=r"^vpc-[0-9a-f]{8,17}$")]
    private_subnets: Annotated[tuple[OwnSubnet, ...], Field(min_length=2)]


class NetworkSettings(Section):
    """The VPC: made from `cidr` over `zones`, or `ownVpc`. EKS wants two zones; the GPU nodes use one of them."""

    cidr: Cidr
    zones: Annotated[tuple[Zone, ...], Field(min_length=2, max_length=6)]
    nat: Literal["one", "per-zone"]
    interface_endpoints: tuple[InterfaceEndpoint, ...]
    flow_logs: bool
    flow_log_retention_days: LogRetentionDays
    own_vpc: OwnVpc | None = None


class SystemNodesSettings(Section):
    """CPU nodes for head, operator, CoreDNS and whatever does not train."""

    instance_type: InstanceType
    count: Annotated[int, Field(ge=1, le=20)]
    release_version: AmiRelease
    root_volume_gib: Annotated[int, Field(ge=20, le=16384)]


class ClusterSettings(Section):
    """The EKS control plane and its system nodes. `publicAccessCidrs` empty: the endpoint is private only."""

    kubernetes_version: Annotated[str, StringConstraints(pattern=r"^1\.\d{2}$")]
    service_cidr: Cidr
    public_access_cidrs: tuple[Cidr, ...]
    open_to_the_internet: bool  # must be spelled out for 0.0.0.0/0 in publicAccessCidrs
    log_types: tuple[LogType, ...]
    log_retention_days: LogRetentionDays
    admins: tuple[Arn, ...]
    deletion_protection: bool
    system_nodes: SystemNodesSettings


class OnDemand(Section):
    kind: Literal["on-demand"]


class Spot(Section):
    kind: Literal["spot"]


class Reservation(Section):
    """An on-demand capacity reservation; `placementGroup` is the name of the cluster placement group that it was bought in."""

    kind: Literal["reservation"]
    reservation_id: Annotated[str, StringConstraints(pattern=r"^cr-[0-9a-f]{8,17}$")]
    placement_group: PlacementGroupName | None = None


class CapacityBlock(Section):
    kind: Literal["capacity-block"]
    reservation_id: Annotated[str, StringConstraints(pattern=r"^cr-[0-9a-f]{8,17}$")]


class GpuNodesSettings(Section):
    """The GPU node group: one zone, one instance type, EFA interfaces exactly as the type has them when `efa` is on."""

    instance_type: InstanceType
    count: Annotated[int, Field(ge=1, le=1000)]
    zone: Zone
    capacity: Annotated[OnDemand | Spot | Reservation | CapacityBlock, Field(discriminator="kind")]
    efa: bool
    placement_group: bool
    release_version: AmiRelease
    root_volume_gib: Annotated[int, Field(ge=60, le=16384)]
    root_volume_iops: Annotated[int, Field(ge=3000, le=16000)]
    root_volume_throughput: Annotated[int, Field(ge=125, le=1000)]  # MiB/s
    repair: bool


class S3Store(Section):
    """A versioned, encrypted, private bucket; it stays when the stack goes unless `purgeOnDestroy`.

    `endpoint`: where pods ask for it, if not at the region's own: an interface endpoint, or one that keeps FIPS 140.
    """

    kind: Literal["s3"]
    noncurrent_days: NotNegative  # how long replaced and deleted objects are kept
    purge_on_destroy: bool
    endpoint: Endpoint | None = None


class FsxStore(Section):
    """FSx for Lustre, linked to the bucket of an `s3` store that is made with it."""

    kind: Literal["fsx"]
    noncurrent_days: NotNegative
    purge_on_destroy: bool
    deployment: Literal["SCRATCH_2", "PERSISTENT_2"]
    capacity_gib: Annotated[int, Field(ge=1200)]
    throughput_per_tib: Literal[125, 250, 500, 1000] | None = None  # MB/s; PERSISTENT_2 alone


class EfsStore(Section):
    """EFS with one access point; encrypted; stays when the stack goes unless `purgeOnDestroy`."""

    kind: Literal["efs"]
    purge_on_destroy: bool


class RayOperatorSettings(Section):
    """KubeRay: installed by this stack with its CRDs, or `existing`, then only its CRD is checked."""

    kind: Literal["managed", "existing"]
    version: Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+$")]
    namespace: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]


class RegistriesSettings(Section):
    """Mirrors for accounts without internet: a Helm repository's URL for all charts, a registry's prefix for all images."""

    charts: str | None = None
    images: str | None = None


class EksConfiguration(Section):
    """The config objects that `target.kind: eks` adds."""

    aws: AwsSettings
    network: NetworkSettings
    cluster: ClusterSettings
    gpu_nodes: GpuNodesSettings
    ray_operator: RayOperatorSettings
    registries: RegistriesSettings
