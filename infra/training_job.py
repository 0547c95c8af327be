"""TrainingJob: the packaged code, the run config and the RayJob that runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi import ComponentResource, Input, Output, ResourceOptions

from infra.code_package import CodePackage
from infra.identity import Identity
from infra.job_gate import JobGate
from infra.ray_job_manifest import CODE_FILE, CONFIG_FILE, STORE_MOUNT, JobParts, labels, ray_job
from infra.settings_models import Settings


@dataclass(frozen=True, kw_only=True)
class TrainingJobArgs:
    """`settings`, `identity` and `code` decide what is made; the rest are wires from other components."""

    settings: Settings
    identity: Identity
    code: CodePackage
    context: Input[str]
    namespace: Input[str]
    store_volume: dict[str, Any]


class TrainingJob(ComponentResource):
    """Outputs: job_name. One RayJob for each identity: another one is made only when the old one is gone."""

    job_name: str

    def __init__(self, name: str, args: TrainingJobArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("ray-train-eks:index:TrainingJob", name, None, opts)
        self._args = args
        code = self._create_code(f"{name}-code")
        run_config = self._create_run_config(f"{name}-run-config")
        job = self._create_ray_job(f"{name}-ray-job", code, run_config)
        # Not part of an output: the stack's outputs are kept when the job has failed, and say where it is.
        self._create_gate(f"{name}-gate", job).failure.apply(_raise)
        self.job_name = args.identity.job_name
        self.register_outputs({"jobName": self.job_name})

    def _create_code(self, name: str) -> kubernetes.core.v1.ConfigMap:
        code = self._args.code
        return kubernetes.core.v1.ConfigMap(
            name,
            metadata=self._metadata(f"ray-train-code-{code.sha256[:16]}", "code"),
            binary_data={CODE_FILE: code.base64},
            immutable=True,
            opts=ResourceOptions(parent=self),
        )

    def _create_run_config(self, name: str) -> kubernetes.core.v1.ConfigMap:
        identity = self._args.identity
        run_config = self._args.settings.run_config(STORE_MOUNT, identity.provenance)
        return kubernetes.core.v1.ConfigMap(
            name,
            metadata=self._metadata(f"{identity.job_name}-config", "run-config"),
            data={CONFIG_FILE: run_config.to_json(indent=2)},
            immutable=True,
            opts=ResourceOptions(parent=self, delete_before_replace=True),
        )

    def _create_ray_job(
        self, name: str, code: kubernetes.core.v1.ConfigMap, run_config: kubernetes.core.v1.ConfigMap
    ) -> kubernetes.apiextensions.CustomResource:
        """Never changed in place, which the operator ignores or contests, and never beside the old one."""
        parts = JobParts(
            code_config_map=code.metadata.name, run_config_map=run_config.metadata.name, store_volume=self._args.store_volume
        )
        manifest = ray_job(self._args.settings, self._args.identity, parts)
        return kubernetes.apiextensions.CustomResource(
            name,
            api_version=manifest["apiVersion"],
            kind=manifest["kind"],
            metadata={**manifest["metadata"], "namespace": self._args.namespace},
            spec=manifest["spec"],
            opts=ResourceOptions(parent=self, replace_on_changes=["spec"], delete_before_replace=True),
        )

    def _create_gate(self, name: str, job: kubernetes.apiextensions.CustomResource) -> JobGate:
        settings = self._args.settings
        metadata: Output[Mapping[str, Any]] = getattr(job, "metadata")  # noqa: B009 - set by the SDK, but not declared
        props: dict[str, Input[Any]] = {
            "kubeconfig": settings.target.kubeconfig or "",
            "context": self._args.context,
            "namespace": self._args.namespace,
            "jobName": self._args.identity.job_name,
            "uid": metadata.apply(lambda known: known.get("uid", "")),  # a preview doesn't know it
            "waitSeconds": settings.job.wait_for_running_seconds,
        }
        return JobGate(name, props, ResourceOptions(parent=self))

    def _metadata(self, name: str, component: str) -> kubernetes.meta.v1.ObjectMetaArgs:
        return kubernetes.meta.v1.ObjectMetaArgs(
            name=name, namespace=self._args.namespace, labels=labels(self._args.identity, component)
        )


def _raise(failure: str) -> None:
    """Ends the update with what went wrong; a preview doesn't repeat how the last try failed."""
    if failure and not pulumi.runtime.is_dry_run():
        raise pulumi.RunError(failure)
