"""The learning rate as a function of the step; decay, state and clipping as they are in the tensors."""

import pytest
import torch
from torch import nn

from workload import optimizer
from workload.run_config import OptimizerConfig

CONFIG = OptimizerConfig(
    learning_rate=1.0, min_learning_rate_ratio=0.1, warmup_steps=4, weight_decay=0.5, beta1=0.9, beta2=0.95,
    gradient_clip_norm=1.0,
)  # fmt: skip


def test_the_rate_warms_up_linearly_peaks_and_ends_at_the_floor():
    rates = [optimizer.learning_rate(CONFIG, step, 20) for step in range(1, 21)]

    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[-1] == pytest.approx(0.1)
    assert rates[4:] == sorted(rates[4:], reverse=True)


def test_no_warm_up_starts_just_below_the_peak():
    assert 0.9 < optimizer.learning_rate(CONFIG.model_copy(update={"warmup_steps": 0}), 1, 20) < 1.0


def test_matrices_decay_and_vectors_do_not():
    adam = optimizer.build(nn.Linear(3, 2), CONFIG)

    assert [(g["weight_decay"], [p.ndim for p in g["params"]]) for g in adam.param_groups] == [(0.5, [2]), (0.0, [1])]


def test_state_is_there_before_the_first_step_and_is_the_live_one_after():
    model = nn.Linear(3, 2)
    adam = optimizer.build(model, CONFIG)
    state = optimizer.state_by_name(model, adam)
    assert sorted(state) == ["bias", "weight"]
    assert state["weight"]["step"].item() == 0

    model(torch.ones(1, 3)).sum().backward()
    optimizer.step(model, adam, rate=0.1, clip_norm=1.0)

    assert state["weight"]["step"].item() == 1
    assert state["weight"]["exp_avg"].abs().sum() > 0


def test_the_norm_is_the_one_before_clipping_and_gradients_are_cleared():
    model = nn.Linear(2, 1, bias=False)
    adam = optimizer.build(model, CONFIG)
    model(torch.tensor([[3.0, 4.0]])).sum().backward()

    assert optimizer.step(model, adam, rate=0.1, clip_norm=1.0) == pytest.approx(5.0)
    assert model.weight.grad is None
