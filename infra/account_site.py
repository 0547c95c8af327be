"""What commands that ask an AWS account know of an environment: its settings, its names, its tags."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from infra.eks_plan import cluster_name_of, environment_tags
from infra.eks_settings import EksConfiguration
from infra.settings import PROJECT, from_file
from infra.settings_models import Settings
from workload.errors import bad_input


@dataclass(frozen=True)
class AccountSite:
    """`tags` are on everything of the environment; `eks` are the settings that it has on EKS alone."""

    settings: Settings
    eks: EksConfiguration
    cluster_name: str
    tags: dict[str, str]


def account_site(project: Path, stack: str) -> AccountSite:
    """Raises: UserError, also for an environment that isn't on EKS."""
    settings = from_file(project / f"Pulumi.{stack}.yaml", stack)
    if settings.eks is None:
        fix = "name an environment on EKS, such as dev"
        raise bad_input("target.kind", settings.target.kind, f"environment {stack} has nothing in an AWS account", fix)
    return AccountSite(settings, settings.eks, cluster_name_of(PROJECT, stack), environment_tags(PROJECT, stack))
