"""Where and with what a rank runs: versions, host, device, the code's own hash. Values of the environment by name only."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import socket
from pathlib import Path

import torch
from torch.cuda import nccl

import workload
from workload.evidence_files import RankEnvironment

PACKAGES = ("torch", "ray", "transformers", "tokenizers", "datasets", "pyarrow", "numpy", "pydantic")
# Named one by one, never by pattern: a value that is recorded is a value that may hold a secret.
VARIABLES = (
    "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "FI_PROVIDER", "NCCL_NET", "NCCL_NET_PLUGIN",
    "NCCL_SOCKET_IFNAME", "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "GLOO_SOCKET_IFNAME", "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S",
)  # fmt: skip


def code_sha256() -> str:
    """SHA-256 of the zip that this package was imported from; empty when it was not."""
    for parent in Path(workload.__file__).parents:
        if parent.is_file():
            return hashlib.sha256(parent.read_bytes()).hexdigest()
    return ""


def describe(
    rank: int, attempt: int, node_id: str, device: torch.device, backend: str, sharding: dict[str, int | str]
) -> RankEnvironment:
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    versions["python"] = platform.python_version()
    if torch.version.cuda and torch.cuda.is_available():
        versions["cuda"] = torch.version.cuda
        versions["nccl"] = ".".join(map(str, nccl.version()))
    return RankEnvironment(
        rank=rank, attempt=attempt, hostname=socket.gethostname(), node_id=node_id, pid=os.getpid(),
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine(),
        backend=backend, threads=torch.get_num_threads(), code_sha256=code_sha256(), versions=versions,
        variables={name: os.environ[name] for name in VARIABLES if name in os.environ}, sharding=sharding,
    )  # fmt: skip
