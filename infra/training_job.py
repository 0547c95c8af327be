"""TrainingJob: the packaged code, the run config and the RayJob that runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi import ComponentResource, Input, Output, ResourceOptions
from pydantic import TypeAdapter

from infra.code_package import CodePackage
from infra.identity import Identity
from infra.job_gate import JobGate
from infra.ray_job_manifest import CODE_FILE, CONFIG_FILE, JobParts, labels, ray_job
from infra.site import Site
from workload.run_config import AnyStoreConfig


@dataclass(frozen=True, kw_only=True)
class TrainingJobArgs:
    """`identity` and `code` decide what is made; `site` says where, and wires it to other components."""

    identity: Identity
    code: CodePackage
    site: Site


class TrainingJob(ComponentResource):
    """Outputs: job_name. One RayJob for each identity: another one is made only when the old one is gone."""

    job_name: str

    def __init__(self, name: str, args: TrainingJobArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("ray-train-eks:index:TrainingJob", name, None, opts)
        self._args, self._site = args, args.site
        self._settings = args.site.settings
        # With the cluster all of it is gone, and nothing can be asked any more: destroy works with a dead one too.
        self._child = ResourceOptions(parent=self, depends_on=list(args.site.ready), deleted_with=args.site.cluster)
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
            opts=self._child,
        )

    def _create_run_config(self, name: str) -> kubernetes.core.v1.ConfigMap:
        identity = self._args.identity
        text = Output.from_input(self._site.store_location).apply(self._run_config)
        return kubernetes.core.v1.ConfigMap(
            name,
            metadata=self._metadata(f"{identity.job_name}-config", "run-config"),
            data={CONFIG_FILE: text},
            immutable=True,
            opts=ResourceOptions.merge(self._child, ResourceOptions(delete_before_replace=True)),
        )

    def _run_config(self, location: Mapping[str, Any]) -> str:
        store = TypeAdapter(AnyStoreConfig).validate_python(dict(location))
        return self._settings.run_config(store, self._args.identity.provenance).to_json(indent=2)

    def _create_ray_job(
        self, name: str, code: kubernetes.core.v1.ConfigMap, run_config: kubernetes.core.v1.ConfigMap
    ) -> kubernetes.apiextensions.CustomResource:
        """Never changed in place, which the operator ignores or contests, and never beside the old one."""
        parts = JobParts(
            code_config_map=code.metadata.name,
            run_config_map=run_config.metadata.name,
            store_volume=self._site.store_volume,
            placement=self._site.placement,
        )
        manifest = ray_job(self._settings, self._args.identity, parts)
        return kubernetes.apiextensions.CustomResource(
            name,
            api_version=manifest["apiVersion"],
            kind=manifest["kind"],
            metadata={**manifest["metadata"], "namespace": self._site.namespace},
            spec=manifest["spec"],
            opts=ResourceOptions.merge(self._child, ResourceOptions(replace_on_changes=["spec"], delete_before_replace=True)),
        )

    def _create_gate(self, name: str, job: kubernetes.apiextensions.CustomResource) -> JobGate:
        metadata: Output[Mapping[str, Any]] = getattr(job, "metadata")  # noqa: B009 - set by the SDK, but not declared
        props: dict[str, Input[Any]] = {
            "kubeconfig": self._site.kubeconfig,
            "context": self._site.context,
            "namespace": self._site.namespace,
            "jobName": self._args.identity.job_name,
            "uid": metadata.apply(lambda known: known.get("uid", "")),  # a preview doesn't know it
            "waitSeconds": self._settings.job.wait_for_running_seconds,
            "blocked": Output.all(*self._site.failures).apply(lambda found: "\n".join(filter(None, found))),
        }
        return JobGate(name, props, self._child)

    def _metadata(self, name: str, component: str) -> kubernetes.meta.v1.ObjectMetaArgs:
        return kubernetes.meta.v1.ObjectMetaArgs(
            name=name, namespace=self._site.namespace, labels=labels(self._args.identity, component)
        )


def _raise(failure: str) -> None:
    """Ends the update with what went wrong; a preview doesn't repeat how the last try failed."""
    if failure and not pulumi.runtime.is_dry_run():
        raise pulumi.RunError(failure)
