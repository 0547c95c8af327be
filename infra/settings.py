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

from infra.environment_file import read_environment
from infra.quantities import amount
from infra.settings_errors import DISCRIMINATORS, nearest, problems_of, shown, underscored
from infra.settings_models import ClaimStore, Configuration, JobSettings, Settings, TargetSettings, WorkersSettings
from workload.errors import Problem, UserError
from workload.run_config import TrainingConfig
from workload.run_rules import cross_check

PROJECT = "ray-train-eks"

# What applies where an environment says nothing. `target.kind`, `store`, `image.reference`, `image.rayVersion`, sizes of the
# workers, `training.runName`, model, tokenizer and text have no default: nobody else can know them.
DEFAULTS: Mapping[str, Any] = {
    "target": {"namespace": "ray-train"},
    "store": {},
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

_OPTIONAL = ("job",)  # its defaults are complete
_NO_EKS = Problem(
    "target.kind", "eks", "not available in this version, which builds no cluster", "use existing, with a kubeconfig"
)

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
    known = [field.alias or name for name, field in Configuration.model_fields.items()]
    target = raw.get("target")
    if isinstance(target, Mapping) and target.get("kind") == "eks":
        raise UserError(_NO_EKS)
    problems = [Problem(key, shown(raw[key]), "unknown key", nearest(key, known)) for key in sorted(set(raw) - set(known))]
    sections: dict[str, Any] = {}
    for name, field in Configuration.model_fields.items():
        if name not in raw and name not in _OPTIONAL:
            problems.append(
                Problem(name, "", "is required and has no default", f"add {PROJECT}:{name} to Pulumi.{environment}.yaml")
            )
            continue
        merged = _merge(DEFAULTS[name], raw.get(name, {}))
        if name == "store" and isinstance(merged, Mapping) and merged.get("kind") in ("s3", "fsx", "efs"):
            problems.append(Problem("store.kind", merged["kind"], "not available in this version", "use hostPath or claim"))
            continue
        problems += underscored(field.annotation, merged, name)
        try:
            sections[name] = _adapter(name).validate_json(json.dumps(merged))
        except ValidationError as error:
            problems += problems_of(error, field.annotation, merged, name)
    problems += _check(sections)
    if problems:
        raise UserError(*problems)
    return Settings(environment=environment, **sections)


def _adapter(name: str) -> TypeAdapter[Any]:
    field = Configuration.model_fields[name]
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
    if target.namespace != "default" and not target.namespace.startswith("kube-"):
        return []
    return [Problem("target.namespace", target.namespace, "is Kubernetes' own, and would go with the stack", "name another")]


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
