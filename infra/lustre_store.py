"""LustreStore: FSx for Lustre over a bucket's prefix, as a volume. Part of CheckpointStore.

What is written goes on to the bucket by itself, some time later: a file that was not exported yet goes with the file system.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi_aws as aws
from pulumi import ComponentResource, CustomTimeouts, Input, Output, ResourceOptions

from infra import mounted_volume
from infra.eks_settings import FsxStore
from infra.eks_versions import STORE_DRIVERS
from infra.mounted_volume import Driver, StaticVolume, StoreSite

DRIVER = Driver(
    addon=STORE_DRIVERS["fsx"][0],
    version=STORE_DRIVERS["fsx"][1],
    csi_name="fsx.csi.aws.com",
    configuration={"node": {"tolerateAllTaints": True}},
)
# Clients of Amazon Linux 2023 can't mount the API's default of 2.10 (kubernetes-sigs/aws-fsx-csi-driver#437).
LUSTRE_VERSION = "2.15"
# https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html
PORTS = {"lustre": (988, 988), "lustre-more": (1018, 1023)}
_MINUTES = CustomTimeouts(create="40m", update="40m", delete="30m")
_EVENTS = ["NEW", "CHANGED", "DELETED"]


@dataclass(frozen=True, kw_only=True)
class LustreStoreArgs:
    settings: FsxStore
    site: StoreSite
    bucket: Input[str]
    prefix: str
    namespace: Input[str]


class LustreStore(ComponentResource):
    """Outputs: claim_name."""

    claim_name: Output[str]

    def __init__(self, name: str, args: LustreStoreArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("ray-train-eks:index:LustreStore", name, None, opts)
        self._name, self._args = name, args
        group, rules = mounted_volume.create_security_group(self, name, args.site, PORTS, to_itself=True)
        file_system = self._create_file_system(group, rules)
        link = self._link(file_system)
        driver = mounted_volume.create_driver(self, name, DRIVER, args.site)
        volume = StaticVolume(
            csi_name=DRIVER.csi_name,
            handle=file_system.id,
            attributes={"dnsname": file_system.dns_name, "mountname": file_system.mount_name},
            mount_options=["flock"],
            capacity=f"{args.settings.capacity_gib}Gi",
        )
        self.claim_name = mounted_volume.create_claim(
            self, name, volume, args.namespace, [driver, link, *rules], cluster=args.site.cluster
        )
        self.register_outputs({"claimName": self.claim_name})

    def _create_file_system(self, group: aws.ec2.SecurityGroup, rules: list) -> aws.fsx.LustreFileSystem:
        """Beside the GPU nodes. Scratch and persistent ones are encrypted by keys of FSx."""
        settings = self._args.settings
        return aws.fsx.LustreFileSystem(
            f"{self._name}-file-system",
            subnet_ids=self._args.site.subnet_ids[self._args.site.gpu_zone],
            security_group_ids=[group.id],
            deployment_type=settings.deployment,
            storage_capacity=settings.capacity_gib,
            per_unit_storage_throughput=settings.throughput_per_tib,
            file_system_type_version=LUSTRE_VERSION,
            data_compression_type="LZ4",
            opts=ResourceOptions(parent=self, depends_on=rules, custom_timeouts=_MINUTES),
        )

    def _link(self, file_system: aws.fsx.LustreFileSystem) -> aws.fsx.DataRepositoryAssociation:
        """All of the file system is the prefix: what an earlier file system exported is there from the start."""
        return aws.fsx.DataRepositoryAssociation(
            f"{self._name}-link",
            file_system_id=file_system.id,
            file_system_path="/",
            data_repository_path=Output.concat("s3://", self._args.bucket, "/", self._args.prefix),
            batch_import_meta_data_on_create=True,
            s3=aws.fsx.DataRepositoryAssociationS3Args(
                auto_import_policy=aws.fsx.DataRepositoryAssociationS3AutoImportPolicyArgs(events=_EVENTS),
                auto_export_policy=aws.fsx.DataRepositoryAssociationS3AutoExportPolicyArgs(events=_EVENTS),
            ),
            opts=ResourceOptions(parent=self, custom_timeouts=_MINUTES),
        )
