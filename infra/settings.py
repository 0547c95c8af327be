"""An environment's settings: read, completed with defaults, checked. The only reader of `pulumi.Config`, the only home of
defaults.

All that is wrong is said in one `UserError`, before anything exists.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from infra.eks_settings import EksConfiguration
from infra.environment_file import read_environment
from infra.quantities import amount
from infra.settings_errors import DISCRIMINATORS, nearest, problems_of, shown, underscored
from infra.settings_models import ClaimStore, Configuration, JobSettings, Settings, TargetSettings, WorkersSettings
from infra.versions import KUBERAY_OPERATOR
from workload.errors import Problem, UserError
from workload.run_config import Section, TrainingConfig
from workload.run_rules import cross_check

PROJECT = "ray-train-eks"

# What applies where an environment says nothing. `target.kind`, `store`, `image.reference`, `image.rayVersion`, sizes of the
# workers, `training.runName`, model, tokenizer and text have no default: nobody else can know them.
DEFAULTS: Mapping[str, Any] = {
    "target": {"namespace": "ray-train"},
    "store": {},  # see VARIANT_DEFAULTS
    "image": {"pullPolicy": "IfNotPresent"},
    "workers": {"perPod": 1, "cpusPerWorker": 1, "gpusPerWorker": 0, "sharedMemory": "512Mi"},
    "job": {
        "head": {"cpu": "500m", "memory": "3Gi"},
        "submitter": {"cpu": "100m", "memory": "512Mi"},
        "preRunningDeadlineSeconds": 1800,
        "activeDeadlineSeconds": 86400,
        "retries": 1,
        "keepClusterSeconds": 60,
        "waitForRunningSeconds": 1800,
    },
    "training": {
        "seed": 0,
        "data": {"heldOutFraction": 0.1, "sequenceLength": 1024},
        "sharding": {"strategy": "full", "precision": "bfloat16", "activationCheckpointing": True},
        "optimizer": {
            "minLearningRateRatio": 0.1,
            "warmupSteps": 0,
            "weightDecay": 0.1,
            "beta1": 0.9,
            "beta2": 0.95,
            "gradientClipNorm": 1.0,
        },
        "checkpoint": {"everySteps": 100, "keep": 2, "resume": "auto"},
        "evaluation": {"sequences": 256, "bootstrapResamples": 2000, "confidence": 0.95},
        "failures": {"maxRestarts": 3, "collectiveTimeoutSeconds": 600, "workerStartTimeoutSeconds": 1200},
        "faults": [],
    },
}

# What applies to one variant of a section and to no other.
VARIANT_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "s3": {"noncurrentDays": 30, "purgeOnDestroy": False},
    "fsx": {"noncurrentDays": 30, "purgeOnDestroy": False, "deployment": "SCRATCH_2", "capacityGib": 1200},
    "efs": {"purgeOnDestroy": False},
}

# What `target.kind: eks` adds. Region, owner, zones, instance type and AMI releases have no default.
EKS_DEFAULTS: Mapping[str, Any] = {
    "aws": {"maxHourlyCost": 15.0, "isProduction": False},
    "network": {
        "cidr": "10.42.0.0/16",
        "nat": "one",
        "interfaceEndpoints": [],
        "flowLogs": False,
        "flowLogRetentionDays": 30,
    },
    "cluster": {
        "kubernetesVersion": "1.35",
        "serviceCidr": "172.20.0.0/16",
        "publicAccessCidrs": [],
        "openToTheInternet": False,
        "logTypes": ["api", "audit", "authenticator"],
        "logRetentionDays": 30,
        "admins": [],
        "deletionProtection": False,
        "systemNodes": {"instanceType": "m7i.xlarge", "count": 2, "rootVolumeGib": 100},
    },
    "gpuNodes": {
        "count": 2,
        "capacity": {"kind": "on-demand"},
        "efa": True,
        "placementGroup": True,
        "rootVolumeGib": 200,
        "rootVolumeIops": 4000,
        "rootVolumeThroughput": 1000,
        "repair": True,
    },
    "rayOperator": {"kind": "managed", "version": KUBERAY_OPERATOR, "namespace": "ray-system"},
    "registries": {},
}

_OPTIONAL = ("job", "rayOperator", "registries")  # their defaults are complete
_CLOUD_STORES = ("s3", "fsx", "efs")

# The least memory that is left to a worker's processes beside /dev/shm.
_WORKER_FLOOR = "512Mi"


def from_pulumi() -> Settings:
    """The settings of the stack that runs. Raises: UserError."""
    import pulumi  # noqa: PLC0415 - the laptop reads settings without an engine
    from pulumi.runtime import config as engine  # noqa: PLC0415

    project = pulumi.get_project()
    prefix = f"{project}:"
    raw = {key.removeprefix(prefix): _decode(value) for key, value in engine.CONFIG.get().items() if key.startswith(prefix)}
    secret = [key.removeprefix(prefix) for key in raw if engine.is_config_secret(prefix + key)]
    if secret:
        raise UserError(*(_no_secret(key) for key in secret))
    return parse(raw, pulumi.get_stack())


def from_file(path: Path, environment: str | None = None, changes: Callable[[dict[str, Any]], None] | None = None) -> Settings:
    """The settings in a `Pulumi.<environment>.yaml`, after `changes` to what it says. Raises: UserError."""
    raw = read_environment(path, PROJECT)
    secret = [key for key, value in raw.items() if isinstance(value, dict) and set(value) == {"secure"}]
    if secret:
        raise UserError(*(_no_secret(key) for key in secret))
    if changes:
        changes(raw)
    return parse(raw, environment or path.stem.removeprefix("Pulumi."))


def parse(raw: Mapping[str, Any], environment: str) -> Settings:
    """Checks `raw`, the config objects as typed, on top of the defaults. Raises: UserError with every problem."""
    target = raw.get("target")
    on_eks = isinstance(target, Mapping) and target.get("kind") == "eks"
    models = (Configuration, EksConfiguration) if on_eks else (Configuration,)
    fields = {name: model for model in models for name in _keys(model)}
    problems = [_unknown(key, raw[key], fields) for key in sorted(set(raw) - set(fields))]
    sections: dict[str, Any] = {}
    for key, model in fields.items():
        if key not in raw and key not in _OPTIONAL:
            fix = f"add {PROJECT}:{key} to Pulumi.{environment}.yaml"
            problems.append(Problem(key, "", "is required and has no default", fix))
            continue
        section, found = _section(key, model, raw.get(key, {}))
        problems += found
        if section is not None:
            sections[key] = section
    problems += _check(sections)
    if problems:
        raise UserError(*problems)
    eks = EksConfiguration(**{key: sections.pop(key) for key in _keys(EksConfiguration)}) if on_eks else None
    return Settings(environment=environment, eks=eks, **sections)


def _keys(model: type[Section]) -> dict[str, FieldInfo]:
    """Fields under the keys that a user types."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _unknown(key: str, value: Any, known: Mapping[str, Any]) -> Problem:
    if key in _keys(EksConfiguration):
        return Problem(key, shown(value), "belongs to target.kind = eks", "remove it, or change target.kind")
    return Problem(key, shown(value), "unknown key", nearest(key, known))


def _section(key: str, model: type[Section], typed: Any) -> tuple[Any, list[Problem]]:
    """One config object, checked, or None and what is wrong with it."""
    field = _keys(model)[key]
    merged = _merge(_defaults(key, typed), typed)
    problems = underscored(field.annotation, merged, key)
    try:
        return _adapter(field).validate_json(json.dumps(merged)), problems
    except ValidationError as error:
        return None, problems + problems_of(error, field.annotation, merged, key)


def _defaults(key: str, typed: Any) -> Mapping[str, Any]:
    variant = VARIANT_DEFAULTS.get(typed.get("kind", ""), {}) if key == "store" and isinstance(typed, Mapping) else {}
    return {**DEFAULTS.get(key, {}), **EKS_DEFAULTS.get(key, {}), **variant}


def _adapter(field: FieldInfo) -> TypeAdapter[Any]:
    annotation: Any = field.annotation
    return TypeAdapter(Annotated[annotation, Field(discriminator=field.discriminator)] if field.discriminator else annotation)


def _decode(value: Any) -> Any:
    """Pulumi passes objects as JSON text, and plain values as they are."""
    try:
        return json.loads(value)
    except (TypeError, ValueError):
        return value


def _no_secret(key: str) -> Problem:
    return Problem(
        key, "[secret]", "settings hold no secrets, and the run config is stored in clear", "set it without --secret"
    )


def _merge(default: Any, typed: Any) -> Any:
    """`typed` over `default`, key by key; another variant than the default's takes nothing from it."""
    if not isinstance(default, Mapping) or not isinstance(typed, Mapping):
        return typed
    if any(name in typed and name in default and typed[name] != default[name] for name in DISCRIMINATORS):
        return dict(typed)
    return {**default, **{key: _merge(default.get(key), value) for key, value in typed.items()}}


def _check(sections: Mapping[str, Any]) -> list[Problem]:
    """Rules between settings, each applied as soon as the sections that it needs are valid."""
    problems: list[Problem] = []
    if "workers" in sections:
        problems += _check_workers(sections["workers"])
    if "target" in sections:
        problems += _check_target(sections["target"])
    if isinstance(sections.get("store"), ClaimStore):
        problems += _check_claim(sections["store"])
    if "store" in sections and "target" in sections:
        problems += _check_store_fits(sections["store"].kind, sections["target"].kind)
    if "job" in sections:
        problems += _check_job(sections["job"])
    training, workers = sections.get("training"), sections.get("workers")
    if isinstance(training, TrainingConfig) and isinstance(workers, WorkersSettings):
        problems += [Problem(key, shown(value), reason, fix) for key, value, reason, fix in cross_check(training, workers)]
    return problems


def _check_workers(workers: WorkersSettings) -> list[Problem]:
    if amount(workers.memory) >= amount(workers.shared_memory) + amount(_WORKER_FLOOR):
        return []
    reason = f"counts as memory of the pod, and leaves less than {_WORKER_FLOOR} of workers.memory = {workers.memory}"
    return [Problem("workers.sharedMemory", workers.shared_memory, reason, "lower it, or raise workers.memory")]


def _check_target(target: TargetSettings) -> list[Problem]:
    if target.kind == "eks":
        typed = {"kubeconfig": target.kubeconfig, "context": target.context}
        reason = "means nothing to a cluster that is made here"
        return [Problem(f"target.{key}", value, reason, "remove it") for key, value in typed.items() if value]
    if target.namespace != "default" and not target.namespace.startswith("kube-"):
        return []
    return [Problem("target.namespace", target.namespace, "is Kubernetes' own, and would go with the stack", "name another")]


def _check_store_fits(store: str, target: str) -> list[Problem]:
    if (store in _CLOUD_STORES) == (target == "eks"):
        return []
    fix = "use s3, fsx or efs" if target == "eks" else "use hostPath or claim"
    return [Problem("store.kind", store, f"doesn't go with target.kind = {target}", fix)]


def _check_claim(store: ClaimStore) -> list[Problem]:
    made = {"storageClass": store.storage_class, "size": store.size, "accessModes": store.access_modes}
    if store.claim_name:
        reason = "says nothing about a claim that exists already (store.claimName)"
        return [Problem(f"store.{key}", shown(value), reason, "remove it") for key, value in made.items() if value]
    missing = [key for key, value in made.items() if not value]
    fix = "set it, or name an existing store.claimName"
    return [Problem(f"store.{key}", "", "is required for a new claim", fix) for key in missing]


def _check_job(job: JobSettings) -> list[Problem]:
    if job.pre_running_deadline_seconds < job.active_deadline_seconds:
        return []
    reason = f"is not less than job.activeDeadlineSeconds = {job.active_deadline_seconds}, which would end the job first"
    return [Problem("job.preRunningDeadlineSeconds", str(job.pre_running_deadline_seconds), reason, "lower it")]
