"""Target `existing`: a cluster that is there already, the run's namespace and its store."""

from __future__ import annotations

from pathlib import Path

from pulumi import ResourceOptions

from infra import neighbours
from infra.checkpoint_store import CheckpointStore
from infra.environment_file import read_environments
from infra.existing_cluster import ExistingCluster
from infra.job_placement import placement
from infra.settings import PROJECT
from infra.settings_models import ClaimStore, Settings
from infra.site import Site
from workload.errors import UserError

_ENVIRONMENTS = Path(__file__).parents[1]  # the folder of their files


def existing_site(settings: Settings) -> Site:
    """Raises: UserError where the namespace is another environment's, or the cluster can't take the job."""
    if problems := neighbours.problems(settings, read_environments(_ENVIRONMENTS, PROJECT)):
        raise UserError(*problems)
    has_own_claim = isinstance(settings.store, ClaimStore) and settings.store.claim_name is not None
    cluster = ExistingCluster("cluster", settings.target, adopt_namespace=has_own_claim)
    on_cluster = ResourceOptions(providers=[cluster.provider])
    store = CheckpointStore("store", settings.store, cluster.namespace, on_cluster)
    return Site(
        settings=settings,
        provider=cluster.provider,
        kubeconfig=settings.target.kubeconfig or "",
        context=cluster.context,
        namespace=cluster.namespace,
        placement=placement(settings),
        store_location=store.location,
        store_volume=store.volume,
    )
