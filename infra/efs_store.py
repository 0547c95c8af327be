"""EfsStore: EFS behind one access point, as a volume. Part of CheckpointStore."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi_aws as aws
from pulumi import ComponentResource, Input, Output, Resource, ResourceOptions

from infra import mounted_volume
from infra.eks_settings import EfsStore as EfsStoreSettings
from infra.eks_versions import STORE_DRIVERS
from infra.mounted_volume import Driver, StaticVolume, StoreSite

DRIVER = Driver(
    addon=STORE_DRIVERS["efs"][0],
    version=STORE_DRIVERS["efs"][1],
    csi_name="efs.csi.aws.com",
    configuration={"node": {"tolerations": [{"operator": "Exists"}]}},
)
PORTS = {"nfs": (2049, 2049)}
_CAPACITY = "1Ti"  # a claim must name one; EFS has no limit
_ROOT_USER = 0  # of the training image


@dataclass(frozen=True, kw_only=True)
class EfsStoreArgs:
    settings: EfsStoreSettings
    site: StoreSite
    namespace: Input[str]


class EfsStore(ComponentResource):
    """Outputs: claim_name. File system and access point stay when the stack goes, unless `purgeOnDestroy`."""

    claim_name: Output[str]

    def __init__(self, name: str, args: EfsStoreArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("ray-train-eks:index:EfsStore", name, None, opts)
        self._name, self._args = name, args
        kept = ResourceOptions(parent=self, retain_on_delete=not args.settings.purge_on_destroy)
        # Encrypted by the account's key for EFS, which nobody can delete.
        file_system = aws.efs.FileSystem(f"{name}-file-system", encrypted=True, throughput_mode="elastic", opts=kept)
        aws.efs.BackupPolicy(
            f"{name}-backups",
            file_system_id=file_system.id,
            backup_policy=aws.efs.BackupPolicyBackupPolicyArgs(status="ENABLED"),
            opts=kept,
        )
        access_point = self._create_access_point(file_system, kept)
        group, rules = mounted_volume.create_security_group(self, name, args.site, PORTS, to_itself=False)
        targets = self._create_mount_targets(file_system, group)
        driver = mounted_volume.create_driver(self, name, DRIVER, args.site)
        volume = StaticVolume(
            csi_name=DRIVER.csi_name,
            handle=Output.concat(file_system.id, "::", access_point.id),
            attributes={},
            mount_options=[],
            capacity=_CAPACITY,
        )
        self.claim_name = mounted_volume.create_claim(
            self, name, volume, args.namespace, [driver, *targets, *rules], cluster=args.site.cluster
        )
        self.register_outputs({"claimName": self.claim_name})

    def _create_access_point(self, file_system: aws.efs.FileSystem, kept: ResourceOptions) -> aws.efs.AccessPoint:
        return aws.efs.AccessPoint(
            f"{self._name}-access-point",
            file_system_id=file_system.id,
            posix_user=aws.efs.AccessPointPosixUserArgs(uid=_ROOT_USER, gid=_ROOT_USER),
            root_directory=aws.efs.AccessPointRootDirectoryArgs(
                path="/store",
                creation_info=aws.efs.AccessPointRootDirectoryCreationInfoArgs(
                    owner_uid=_ROOT_USER, owner_gid=_ROOT_USER, permissions="0700"
                ),
            ),
            opts=kept,
        )

    def _create_mount_targets(self, file_system: aws.efs.FileSystem, group: aws.ec2.SecurityGroup) -> list[Resource]:
        """One in every zone with nodes: a node reaches the one in its own zone. They go with the stack: they hold subnets."""
        return [
            aws.efs.MountTarget(
                f"{self._name}-mount-target-{zone}",
                file_system_id=file_system.id,
                subnet_id=subnet_id,
                security_groups=[group.id],
                opts=ResourceOptions(parent=self),
            )
            for zone, subnet_id in self._args.site.subnet_ids.items()
        ]
