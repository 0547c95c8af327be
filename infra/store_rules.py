"""Which settings of a store on AWS fit together. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit

from infra.eks_settings import EfsStore, FsxStore, S3Store
from workload.errors import Problem

_PORTS = {"https": 443, "http": 80}
_LUSTRE_NOTE = (
    "store.kind = fsx: the nodes install lustre-client at their start, which EKS's AMIs come without"
    " (awslabs/amazon-eks-ami#2696); whether it fits the kernel of a new AMI release isn't known here: try it with one node"
)
# https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html (StorageCapacity)
_LUSTRE_SMALLEST, _LUSTRE_STEP = 1200, 2400


def store_problems(settings: S3Store | FsxStore | EfsStore, *, is_production: bool) -> list[Problem]:
    """What AWS would refuse, and what production must not have."""
    problems: list[Problem] = []
    if isinstance(settings, FsxStore):
        problems += _lustre_problems(settings)
    if isinstance(settings, S3Store):
        problems += _endpoint_problems(settings)
    if is_production and settings.purge_on_destroy:
        fix = "set it to false, or aws.isProduction to false"
        problems.append(Problem("store.purgeOnDestroy", "true", "checkpoints of production would go with the stack", fix))
    if is_production and not isinstance(settings, EfsStore) and not settings.noncurrent_days:
        reason = "what is overwritten or deleted in production would be gone at once"
        problems.append(
            Problem("store.noncurrentDays", "0", reason, "set it to the days in which a mistake is noticed, such as 90")
        )
    return problems


def store_port(settings: S3Store | FsxStore | EfsStore) -> int:
    """Where pods reach the store, over TCP."""
    endpoint = urlsplit(settings.endpoint or "") if isinstance(settings, S3Store) else urlsplit("")
    return endpoint.port or _PORTS.get(endpoint.scheme, _PORTS["https"])


def store_notes(settings: S3Store | FsxStore | EfsStore) -> list[str]:
    """What a preview says of settings that may be meant, and seldom are."""
    if isinstance(settings, S3Store) and (settings.endpoint or "").startswith("http:"):
        return [f"store.endpoint = {settings.endpoint}: nothing is encrypted on the way, which S3's own bucket policy refuses"]
    return [_LUSTRE_NOTE] if isinstance(settings, FsxStore) else []


def _endpoint_problems(settings: S3Store) -> list[Problem]:
    """Host and port are only read here: the settings' own pattern knows no more than that there is something."""
    try:
        store_port(settings)
    except ValueError as error:
        fix = "write https://HOST or https://HOST:PORT, with a port below 65536"
        return [Problem("store.endpoint", settings.endpoint or "", f"can't be read: {error}", fix)]
    return []


def _lustre_problems(settings: FsxStore) -> list[Problem]:
    problems: list[Problem] = []
    capacity, throughput = settings.capacity_gib, settings.throughput_per_tib
    if capacity != _LUSTRE_SMALLEST and capacity % _LUSTRE_STEP:
        below = max(_LUSTRE_SMALLEST, capacity - capacity % _LUSTRE_STEP)
        fix = f"use {below} or {capacity - capacity % _LUSTRE_STEP + _LUSTRE_STEP}"
        problems.append(Problem("store.capacityGib", str(capacity), "Lustre comes in 1200 or multiples of 2400", fix))
    if settings.deployment == "SCRATCH_2" and throughput is not None:
        reason = "a SCRATCH_2 file system has a fixed throughput of 200 MB/s per TiB"
        problems.append(Problem("store.throughputPerTib", str(throughput), reason, "remove it, or use deployment PERSISTENT_2"))
    if settings.deployment == "PERSISTENT_2" and throughput is None:
        reason = "a PERSISTENT_2 file system is sold by its throughput"
        problems.append(Problem("store.throughputPerTib", "not set", reason, "set it to 125, 250, 500 or 1000 (MB/s per TiB)"))
    return problems
