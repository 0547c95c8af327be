"""AdamW, its learning rate as a pure function of the step, and its state by parameter name. Knows nothing of Ray."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from workload.run_config import OptimizerConfig


def learning_rate(config: OptimizerConfig, step: int, steps: int) -> float:
    """The rate of optimizer step `step` (from 1) of `steps`: linear warm-up, then cosine down to the minimum ratio.

    A pure function: a resumed run needs no scheduler state.
    """
    if step <= config.warmup_steps:
        return config.learning_rate * step / config.warmup_steps
    progress = (step - config.warmup_steps) / max(1, steps - config.warmup_steps)
    floor = config.min_learning_rate_ratio
    return config.learning_rate * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


def build(model: nn.Module, config: OptimizerConfig) -> torch.optim.AdamW:
    """AdamW over float32 master weights; matrices decay, vectors (norms, biases) do not."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(config.beta1, config.beta2), foreach=True)


def step(model: nn.Module, optimizer: torch.optim.AdamW, rate: float, clip_norm: float) -> float:
    """Clips, steps and clears; returns the gradient norm over ALL workers before clipping."""
    norm = nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return (norm.full_tensor() if isinstance(norm, DTensor) else norm).item()


def state_by_name(model: nn.Module, optimizer: torch.optim.AdamW) -> dict[str, dict[str, Tensor]]:
    """Both moments and the step count of every parameter, by name; zeros where no step was taken yet.

    These are the live tensors: a checkpoint is loaded into them in place. Hyper-parameters are not state: they come from
    the run config, so that a changed learning rate is not undone by an old checkpoint.
    """
    named = {}
    for name, parameter in model.named_parameters():
        state = optimizer.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        named[name] = {key: state[key] for key in ("step", "exp_avg", "exp_avg_sq")}
    return named
