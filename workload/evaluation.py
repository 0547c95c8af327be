"""Held-out evaluation: the loss of each held-out sequence, all ranks taking part in equally many batches."""

from __future__ import annotations

import torch
import torch.distributed as dist

from workload.evidence_files import EvaluationSamples
from workload.sequences import Sequences
from workload.sharding import Sharded


@torch.no_grad()
def evaluate(
    sharded: Sharded, held_out: Sequences, limit: int, batch: int, device: torch.device, step: int
) -> EvaluationSamples:
    """Evaluates the first `limit` held-out sequences. A collective; every rank returns the same samples.

    Rank r takes sequences r, r + W, ...; short shares are filled up with repeats whose losses are dropped, since a rank
    that ran out of sequences would leave the others waiting in the sharded forward.
    """
    rank, world = dist.get_rank(), dist.get_world_size()
    count = min(limit, len(held_out))
    share = -(-count // world)
    mine = [min(rank + world * i, count - 1) for i in range(share)]
    sharded.call.eval()
    losses: list[float] = []
    for start in range(0, share, batch):
        chosen = [held_out[i] for i in mine[start : start + batch]]
        inputs = torch.stack([torch.from_numpy(pair[0]) for pair in chosen]).to(device)
        labels = torch.stack([torch.from_numpy(pair[1]) for pair in chosen]).to(device)
        with sharded.autocast:
            losses += sharded.call(inputs, labels).double().mean(dim=1).tolist()
    sharded.call.train()
    gathered: list[list[float]] = [[] for _ in range(world)]
    dist.all_gather_object(gathered, losses)
    ordered = tuple(gathered[i % world][i // world] for i in range(count))
    return EvaluationSamples(
        step=step,
        sequence_length=held_out.manifest.sequence_length,
        data_sha256=held_out.manifest.held_out.sha256,
        losses=ordered,
    )
