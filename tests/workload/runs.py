"""Run configs for tests, and training started as a process of its own, as a job would."""

import json
import subprocess
import sys
from pathlib import Path

from workload.run_config import RunConfig

ROOT = Path(__file__).resolve().parents[2]


def settings(store: Path, **changes) -> dict:
    """A small complete run as JSON-able settings; `changes` are dotted keys with "__" for the dots."""
    config = {
        "schemaVersion": 1,
        "environment": "test",
        "provenance": {"identity": "a" * 64, "image": "none", "codeSha256": "0" * 64},
        "workers": {"count": 2, "perPod": 1, "cpusPerWorker": 1, "gpusPerWorker": 0},
        "store": {"path": str(store)},
        "training": {
            "runName": "test", "seed": 1,
            "model": {"source": "config", "hiddenSize": 64, "intermediateSize": 128, "numLayers": 2, "numAttentionHeads": 4,
                      "numKeyValueHeads": 2, "maxPositionEmbeddings": 128, "tieWordEmbeddings": True},
            "tokenizer": {"source": "train", "vocabSize": 512},
            "data": {"text": {"source": "python-docs"}, "heldOutFraction": 0.1, "sequenceLength": 32},
            "sharding": {"strategy": "full", "precision": "float32", "activationCheckpointing": False},
            "optimizer": {"learningRate": 0.003, "minLearningRateRatio": 0.1, "warmupSteps": 2, "weightDecay": 0.1,
                          "beta1": 0.9, "beta2": 0.95, "gradientClipNorm": 1.0},
            "schedule": {"steps": 8, "globalBatchSequences": 8, "microBatchSequences": 4},
            "checkpoint": {"everySteps": 2, "keep": 3, "resume": "auto"},
            "evaluation": {"sequences": 16, "bootstrapResamples": 200, "confidence": 0.95},
            "failures": {"maxRestarts": 2, "collectiveTimeoutSeconds": 30, "workerStartTimeoutSeconds": 60},
            "faults": [],
        },
    }  # fmt: skip
    for key, value in changes.items():
        *parents, last = key.split("__")
        place = config
        for parent in parents:
            place = place[parent]
        place[last] = value
    return config


def run_config(store: Path, **changes) -> RunConfig:
    return RunConfig.from_json(json.dumps(settings(store, **changes)))


def start_training(config: RunConfig, environment: dict[str, str], folder: Path) -> subprocess.Popen:
    """Starts `python -m workload train` as a process of its own, as a job would."""
    path = folder / f"run-{config.provenance.identity[:6]}.json"
    path.write_text(config.to_json())
    return subprocess.Popen(
        [sys.executable, "-m", "workload", "train", "--config", str(path)],
        env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def run_training(config: RunConfig, environment: dict[str, str], folder: Path, seconds: float = 300) -> tuple[int, str]:
    """Runs it to its end; returns exit code and output."""
    process = start_training(config, environment, folder)
    try:
        output, _ = process.communicate(timeout=seconds)
    finally:
        process.kill()
    return process.returncode, output
