"""THE CONTRACT between infra and workload: all that defines one run, as JSON.

infra writes it (`infra/settings.py` holds every default), the workload reads it, on a laptop and in a pod alike.
No field here has a default, none holds a secret. Nothing but pydantic is imported, so a preview stays light.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag, model_validator
from pydantic.alias_generators import to_camel

# A RayJob's name has at most 47 characters (KubeRay: validation.go, MaxRayJobNameLength); "-" and 8 of the hash leave 38.
RUN_NAME_MAX_LENGTH = 38
RUN_NAME_PATTERN = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"


class Section(BaseModel):
    """Base of all sections: frozen, strict, camelCase outside and snake_case inside, unknown keys refused."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False
    )

    def to_json(self, indent: int | None = None) -> str:
        return self.model_dump_json(by_alias=True, indent=indent)


RunName = Annotated[str, StringConstraints(pattern=RUN_NAME_PATTERN, max_length=RUN_NAME_MAX_LENGTH)]
AbsolutePath = Annotated[str, StringConstraints(pattern=r"^/.+")]
Positive = Annotated[int, Field(ge=1)]
NotNegative = Annotated[int, Field(ge=0)]
Endpoint = Annotated[str, StringConstraints(pattern=r"^https?://[^/\s]+$")]
Fraction = Annotated[float, Field(gt=0, lt=1)]


class ShardingStrategy(StrEnum):
    """How parameters are spread: `full` is FSDP2 over all workers, `none` is plain data parallelism (DDP)."""

    FULL = "full"
    NONE = "none"


class Precision(StrEnum):
    """Compute type of forward and backward; master weights, gradients' reduction and optimizer are always float32."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class Resume(StrEnum):
    """What a run does with what the store holds under its name.

    `auto`: continue if there is a checkpoint, else start. `required`: continue or refuse. `never`: a changed run starts
    over beside the old state, which stays; a restart of the same run still continues.
    """

    AUTO = "auto"
    REQUIRED = "required"
    NEVER = "never"


class FaultPoint(StrEnum):
    """Where a declared fault strikes: after an optimizer step, or inside the save that follows that step."""

    STEP = "step"
    BEFORE_SHARDS = "before-shards"
    BEFORE_RECEIPTS = "before-receipts"
    BEFORE_MARKER = "before-marker"
    AFTER_MARKER = "after-marker"


class QwenConfig(Section):
    """A Qwen2-architecture model with fresh weights; the vocabulary's size comes from the tokenizer."""

    source: Literal["config"]
    hidden_size: Positive
    intermediate_size: Positive
    num_layers: Positive
    num_attention_heads: Positive
    num_key_value_heads: Positive
    max_position_embeddings: Positive
    tie_word_embeddings: bool

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(f"hiddenSize {self.hidden_size} is not a multiple of numAttentionHeads {self.num_attention_heads}")
        if (self.hidden_size // self.num_attention_heads) % 2:
            raise ValueError("hiddenSize / numAttentionHeads is odd; rotary embeddings need an even head size")
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"numAttentionHeads {self.num_attention_heads} is not a multiple of numKeyValueHeads {self.num_key_value_heads}"
            )
        return self


class HuggingFaceFolder(Section):
    """A folder with config.json and safetensors, as `save_pretrained` writes it (or a tokenizer's folder)."""

    source: Literal["huggingface"]
    path: AbsolutePath


class TrainedTokenizer(Section):
    """A byte-level BPE trained on the training documents and stored with the data."""

    source: Literal["train"]
    vocab_size: Annotated[int, Field(ge=300, le=200_000)]


class PythonDocs(Section):
    """The prose of `pydoc_data.topics`, which every CPython ships: real text wherever the run is, also in a pod."""

    source: Literal["python-docs"]


class TextFiles(Section):
    """UTF-8 text files; `documentSeparator` splits a file into documents (a blank line is a newline twice)."""

    source: Literal["text"]
    paths: Annotated[tuple[AbsolutePath, ...], Field(min_length=1)]
    document_separator: Annotated[str, Field(min_length=1)]


class DataConfig(Section):
    """What is read, how it is cut into sequences, and which share of the documents is held out."""

    text: Annotated[PythonDocs | TextFiles, Field(discriminator="source")]
    held_out_fraction: Fraction
    sequence_length: Annotated[int, Field(ge=8)]  # tokens


class ShardingConfig(Section):
    strategy: ShardingStrategy
    precision: Precision
    activation_checkpointing: bool


class OptimizerConfig(Section):
    """AdamW with linear warm-up, then cosine decay to `minLearningRateRatio` of the peak."""

    learning_rate: Annotated[float, Field(gt=0, le=1)]
    min_learning_rate_ratio: Annotated[float, Field(ge=0, le=1)]
    warmup_steps: NotNegative
    weight_decay: Annotated[float, Field(ge=0)]
    beta1: Fraction
    beta2: Fraction
    gradient_clip_norm: Annotated[float, Field(gt=0)]


class ScheduleConfig(Section):
    """`steps` optimizer steps of `globalBatchSequences` sequences, in micro-batches of `microBatchSequences` per worker."""

    steps: Positive
    global_batch_sequences: Positive
    micro_batch_sequences: Positive


class CheckpointConfig(Section):
    every_steps: Positive
    keep: Annotated[int, Field(ge=1, le=1000)]
    resume: Resume


class EvaluationConfig(Section):
    """Held-out evaluation before and after: at most `sequences` sequences; a paired bootstrap interval of the difference."""

    sequences: Annotated[int, Field(ge=2)]
    bootstrap_resamples: Annotated[int, Field(ge=100, le=100_000)]
    confidence: Annotated[float, Field(ge=0.5, lt=1)]


class FailuresConfig(Section):
    """How failures end: restarts of the workers inside one job, and bounds on what could wait for ever."""

    max_restarts: NotNegative
    collective_timeout_seconds: Annotated[int, Field(ge=5)]
    worker_start_timeout_seconds: Annotated[int, Field(ge=10)]


class Fault(Section):
    """A declared SIGKILL: rank `rank` kills itself at `at`, for step `step`, in attempt `attempt` alone."""

    at: FaultPoint
    step: Positive
    rank: NotNegative
    attempt: Positive


class TrainingConfig(Section):
    """The `training` object of an environment, complete."""

    run_name: RunName
    seed: NotNegative
    model: Annotated[QwenConfig | HuggingFaceFolder, Field(discriminator="source")]
    tokenizer: Annotated[TrainedTokenizer | HuggingFaceFolder, Field(discriminator="source")]
    data: DataConfig
    sharding: ShardingConfig
    optimizer: OptimizerConfig
    schedule: ScheduleConfig
    checkpoint: CheckpointConfig
    evaluation: EvaluationConfig
    failures: FailuresConfig
    faults: tuple[Fault, ...]


class WorkersConfig(Section):
    """Ray Train ranks: `count` in all, `perPod` in each pod, and what Ray reserves for one."""

    count: Positive
    per_pod: Positive
    cpus_per_worker: Positive
    gpus_per_worker: NotNegative


class StoreConfig(Section):
    """Where checkpoints, evidence and records live; `path` is the same shared folder on head and workers."""

    path: AbsolutePath


class S3StoreConfig(Section):
    """The same in a bucket, under `prefix`; `endpoint` names another service that speaks S3's protocol. No credentials."""

    kind: Literal["s3"]
    bucket: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$")]
    prefix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$")]
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+$")]
    endpoint: Endpoint | None


AnyStoreConfig = StoreConfig | S3StoreConfig


def _store_kind(value: object) -> str:
    """A mounted folder has no kind: run configs are older than the choice."""
    return value.get("kind", "path") if isinstance(value, dict) else getattr(value, "kind", "path")


class Provenance(Section):
    """What the run's identity was made of. `codeSha256` is the hash of the zip that must be running."""

    identity: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    image: str
    code_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class RunConfig(Section):
    """One run, whole."""

    schema_version: Literal[1]
    environment: str
    provenance: Provenance
    workers: WorkersConfig
    store: Annotated[Annotated[StoreConfig, Tag("path")] | Annotated[S3StoreConfig, Tag("s3")], Discriminator(_store_kind)]
    training: TrainingConfig

    @classmethod
    def from_json(cls, text: str | bytes) -> RunConfig:
        return cls.model_validate_json(text)


def fingerprint(*parts: str) -> str:
    """SHA-256 over length-prefixed parts, hex: no two lists of parts share an input."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def run_folder(config: RunConfig) -> PurePosixPath:
    """The run's folder in the store: it depends on the run's name alone, never on cluster, pod or time."""
    return PurePosixPath(config.training.run_name)
