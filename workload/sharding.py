"""Mesh, precision and how parameters are spread over workers. Knows nothing of Ray."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from workload import model as models
from workload.run_config import Precision, ShardingConfig, ShardingStrategy

COMPUTE_TYPES = {Precision.FLOAT32: torch.float32, Precision.BFLOAT16: torch.bfloat16}


@dataclass(frozen=True)
class Sharded:
    """`inner` names and holds the parameters; `call` is what the loop calls; `evidence` says what was really sharded."""

    inner: PreTrainedModel
    call: nn.Module
    autocast: contextlib.AbstractContextManager[Any]
    evidence: dict[str, int | str]


def shard(model: PreTrainedModel, config: ShardingConfig, device: torch.device, world_size: int) -> PreTrainedModel:
    """Applies `full` to a model on the meta device; `none` leaves it. Tied embeddings stay together in the root's group."""
    if config.strategy is ShardingStrategy.FULL:
        mesh = init_device_mesh(device.type, (world_size,))
        policy = MixedPrecisionPolicy(param_dtype=COMPUTE_TYPES[config.precision], reduce_dtype=torch.float32)
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
    return model


def materialise(model: PreTrainedModel, full: dict[str, Any], device: torch.device) -> None:
    """Gives every worker its share of `full`, which rank 0 alone holds (elsewhere it is empty)."""
    models.allocate(model, device)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, full, options=options)
    models.assert_tied(model, "the weights were spread")


def wrap(model: PreTrainedModel, config: ShardingConfig, device: torch.device) -> Sharded:
    """The callable model. DDP cannot keep float32 parameters with bfloat16 compute by itself, hence autocast there."""
    models.use_token_losses(model)
    call: nn.Module = model
    autocast: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
    if config.strategy is ShardingStrategy.NONE:
        call = nn.parallel.DistributedDataParallel(model)
        if config.precision is Precision.BFLOAT16:
            autocast = torch.autocast(device.type, dtype=torch.bfloat16)
    return Sharded(model, call, autocast, _evidence(model, config))


def _evidence(model: PreTrainedModel, config: ShardingConfig) -> dict[str, int | str]:
    parameters = dict(model.named_parameters())
    local = [p.to_local() if isinstance(p, DTensor) else p for p in parameters.values()]
    return {
        "strategy": config.strategy.value,
        "tensors": len(parameters),
        "shardedTensors": sum(isinstance(p, DTensor) for p in parameters.values()),
        "parameters": sum(p.numel() for p in parameters.values()),
        "localParameters": sum(p.numel() for p in local),
    }
