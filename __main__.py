"""The program that `pulumi up` runs: settings, then components, then exports."""

from pathlib import Path

import pulumi

from infra import settings as environment_settings
from infra.code_package import pack
from infra.identity import identify
from infra.settings_models import Settings
from infra.site import Site
from infra.training_job import TrainingJob, TrainingJobArgs
from workload.errors import UserError

WORKLOAD = Path(__file__).parent / "workload"


# Each target imports its own: AWS's SDK, or the cluster's client, takes a second of every preview.
def _on_eks(settings: Settings) -> Site:
    from infra import image  # noqa: PLC0415
    from infra.eks_plan import plan  # noqa: PLC0415
    from infra.eks_site import EksSite  # noqa: PLC0415

    return EksSite(plan(settings, pulumi.get_project(), image.read_lock())).site()


def _on_existing(settings: Settings) -> Site:
    from infra.existing_site import existing_site  # noqa: PLC0415

    return existing_site(settings)


def build() -> None:
    """Everything of one environment."""
    settings = environment_settings.from_pulumi()
    code = pack(WORKLOAD)
    site = _on_eks(settings) if settings.eks else _on_existing(settings)
    identity = identify(site.settings, code.sha256)
    args = TrainingJobArgs(identity=identity, code=code, site=site)
    job = TrainingJob("job", args, pulumi.ResourceOptions(providers=[site.provider]))

    pulumi.export("environment", settings.environment)
    pulumi.export("runName", identity.run_name)
    pulumi.export("identity", identity.sha256)
    pulumi.export("kubeconfig", site.kubeconfig)
    pulumi.export("context", site.context)
    pulumi.export("namespace", site.namespace)
    pulumi.export("jobName", job.job_name)
    pulumi.export("storePath", site.path_of(identity.run_name))
    pulumi.export("fetchCommand", f"python -m infra fetch -s {settings.environment}")
    for name, value in site.outputs.items():
        pulumi.export(name, value)


try:
    build()
except UserError as error:
    raise pulumi.RunError(str(error)) from None
