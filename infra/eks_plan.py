"""What an environment on EKS will be, decided and checked as a whole before anything exists. Pure.

Every rule between settings, facts and lock file speaks here, and all that is wrong is said in one error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from infra import cluster_rules, cost, image, image_rules, instance_types, launch_template, ray_crds, store_rules, subnets
from infra.cost import HourlyCost
from infra.eks_settings import EfsStore, EksConfiguration, FsxStore, S3Store
from infra.image import ImageLock, PinnedImage
from infra.settings_models import Settings
from workload.errors import Problem, UserError

# EKS takes 100 characters; the node groups' names are derived from it and take 63.
# https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html
CLUSTER_NAME_MAX_LENGTH = 48


@dataclass(frozen=True, kw_only=True)
class EksPlan:
    """`settings` name the image by its digest. `cluster_name` is the one physical name that others must know."""

    settings: Settings
    eks: EksConfiguration
    cluster_name: str
    efa_interfaces: int
    local_disks: int
    store_port: int
    lustre: bool  # nodes need its client
    cost: HourlyCost
    notes: tuple[str, ...]
    tags: dict[str, str]  # of everything, through the provider
    instance_tags: dict[str, str]  # in launch templates: only what never changes, since a new version rolls the nodes


def cluster_name_of(project: str, environment: str) -> str:
    """The same in every life of the environment: who looks for it in an account needs no state and no plan."""
    return f"{project}-{environment}"


def environment_tags(project: str, environment: str) -> dict[str, str]:
    """What marks a thing as this environment's, and never changes."""
    return {"project": project, "environment": environment}


def plan(settings: Settings, project: str, lock: ImageLock) -> EksPlan:
    """Raises: UserError with everything that is wrong."""
    eks = settings.eks
    assert eks is not None, "the plan of an environment on EKS"
    problems = [*_network_problems(eks), *_node_problems(settings, eks), *_operator_problems(eks)]
    pinned, notes = _image(settings, eks, lock, problems)
    name = cluster_name_of(project, settings.environment)
    problems += _name_problems(name, settings)
    hourly = cost.hourly_cost(eks, settings.store)
    problems += cost.problems(hourly, eks.aws.max_hourly_cost)
    problems += _production_problems(settings, eks)
    if problems:
        raise UserError(*problems)
    assert pinned is not None, "an image that could not be pinned is a problem"
    assert isinstance(settings.store, S3Store | FsxStore | EfsStore), "settings allow no other kind on EKS"
    by_digest = settings.image.model_copy(update={"reference": pinned.reference})
    fixed = environment_tags(project, settings.environment)
    kind = instance_types.KNOWN[eks.gpu_nodes.instance_type]
    return EksPlan(
        settings=settings.model_copy(update={"image": by_digest}),
        eks=eks,
        cluster_name=name,
        efa_interfaces=instance_types.efa_interfaces(eks.gpu_nodes),
        local_disks=1 if kind.local_disk_gb else 0,
        store_port=store_rules.store_port(settings.store),
        lustre=isinstance(settings.store, FsxStore),
        cost=hourly,
        notes=(
            *cluster_rules.cluster_notes(eks.cluster),
            *instance_types.notes(eks.gpu_nodes),
            *store_rules.store_notes(settings.store),
            *notes,
        ),
        tags={**fixed, "owner": eks.aws.owner, "run": settings.training.run_name},
        instance_tags=fixed,
    )


def _network_problems(eks: EksConfiguration) -> list[Problem]:
    return subnets.problems(
        eks.network,
        service_cidr=eks.cluster.service_cidr,
        gpu_zone=eks.gpu_nodes.zone,
        region=eks.aws.region,
        gpu_count=eks.gpu_nodes.count,
    )


def _node_problems(settings: Settings, eks: EksConfiguration) -> list[Problem]:
    """A run without GPUs on paid GPU nodes is one that names itself so: `training.runName` begins with `cpu-`."""
    cpu_run = settings.training.run_name.startswith("cpu-")
    return [
        *instance_types.checks(eks.gpu_nodes, settings.workers, allow_cpu_run=cpu_run),
        *instance_types.system_checks(eks.cluster.system_nodes, settings.job.head),
        *launch_template.gpu_nodes_problems(eks.gpu_nodes, eks.cluster.kubernetes_version),
        *cluster_rules.cluster_problems(eks.cluster),
    ]


def _operator_problems(eks: EksConfiguration) -> list[Problem]:
    return ray_crds.version_problems(eks.ray_operator.version) if eks.ray_operator.kind == "managed" else []


def _image(
    settings: Settings, eks: EksConfiguration, lock: ImageLock, problems: list[Problem]
) -> tuple[PinnedImage | None, tuple[str, ...]]:
    """The image by digest, and what is said of it at preview; what is wrong is added to `problems`."""
    pinned = _or_problems(lambda: image.resolve(lock, settings.image.reference, eks.registries.images), problems)
    if pinned is None:
        return None, ()
    use = image_rules.ImageUse(
        ray_version=settings.image.ray_version,
        custom=settings.image.custom,
        uses_gpus=settings.workers.gpus_per_worker > 0,
        operator_version=eks.ray_operator.version,
        ami_release=eks.gpu_nodes.release_version,
    )
    found = image_rules.coherence(pinned.entry, use)
    problems += found.problems
    return pinned, found.notes


def _or_problems[T](make: Callable[[], T], problems: list[Problem]) -> T | None:
    try:
        return make()
    except UserError as error:
        problems += error.problems
        return None


def _name_problems(cluster_name: str, settings: Settings) -> list[Problem]:
    if len(cluster_name) <= CLUSTER_NAME_MAX_LENGTH:
        return []
    reason = f"makes the cluster's name {cluster_name} longer than {CLUSTER_NAME_MAX_LENGTH} characters"
    return [Problem("stack", settings.environment, reason, "use a shorter stack name")]


def _production_problems(settings: Settings, eks: EksConfiguration) -> list[Problem]:
    """What the store may be, and what a production environment may not be without."""
    assert isinstance(settings.store, S3Store | FsxStore | EfsStore), "settings allow no other kind on EKS"
    problems = store_rules.store_problems(settings.store, is_production=eks.aws.is_production)
    if eks.aws.is_production and not eks.cluster.deletion_protection:
        problems.append(Problem("cluster.deletionProtection", "false", "aws.isProduction is true", "set it to true"))
    return problems
