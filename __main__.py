"""The program that `pulumi up` runs: settings, then components, then exports."""

from pathlib import Path

import pulumi

from infra import settings as environment_settings
from infra.checkpoint_store import CheckpointStore
from infra.code_package import pack
from infra.existing_cluster import ExistingCluster
from infra.identity import identify
from infra.ray_job_manifest import STORE_MOUNT
from infra.settings_models import ClaimStore
from infra.training_job import TrainingJob, TrainingJobArgs
from workload.errors import UserError

WORKLOAD = Path(__file__).parent / "workload"


def build() -> None:
    """Everything of one environment."""
    settings = environment_settings.from_pulumi()
    code = pack(WORKLOAD)
    identity = identify(settings, code.sha256)

    has_own_claim = isinstance(settings.store, ClaimStore) and settings.store.claim_name is not None
    cluster = ExistingCluster("cluster", settings.target, adopt_namespace=has_own_claim)
    on_cluster = pulumi.ResourceOptions(providers=[cluster.provider])
    store = CheckpointStore("store", settings.store, cluster.namespace, on_cluster)
    job = TrainingJob(
        "job",
        TrainingJobArgs(
            settings=settings,
            identity=identity,
            code=code,
            context=cluster.context,
            namespace=cluster.namespace,
            store_volume=store.volume,
        ),
        on_cluster,
    )

    pulumi.export("environment", settings.environment)
    pulumi.export("runName", identity.run_name)
    pulumi.export("identity", identity.sha256)
    pulumi.export("kubeconfig", settings.target.kubeconfig or "")
    pulumi.export("context", cluster.context)
    pulumi.export("namespace", cluster.namespace)
    pulumi.export("jobName", job.job_name)
    pulumi.export("storePath", f"{STORE_MOUNT}/{identity.run_name}")
    pulumi.export("fetchCommand", f"python -m infra fetch -s {settings.environment}")


try:
    build()
except UserError as error:
    raise pulumi.RunError(str(error)) from None
