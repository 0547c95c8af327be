"""The model on one device: architecture without weights, then the weights. Knows nothing of distribution or of Ray."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from workload.errors import bad_input
from workload.run_config import HuggingFaceFolder, QwenConfig

# Tokens whose logits exist at one time: with Qwen2.5's 151,936 entries, 1,024 of them take 0.6 GiB in float32.
LOSS_CHUNK_TOKENS = 1024


def build_on_meta(model: QwenConfig | HuggingFaceFolder, vocab_size: int, activation_checkpointing: bool) -> PreTrainedModel:
    """The architecture with parameters on the meta device: no memory, no weights; `allocate` and `weights` follow."""
    config = _architecture(model, vocab_size)
    with torch.device("meta"):
        built = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa")
    built.config.use_cache = False
    if activation_checkpointing:
        built.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    built.train()
    return built


def _architecture(model: QwenConfig | HuggingFaceFolder, vocab_size: int) -> PreTrainedConfig:
    if isinstance(model, QwenConfig):
        return Qwen2Config(
            vocab_size=vocab_size,
            hidden_size=model.hidden_size,
            intermediate_size=model.intermediate_size,
            num_hidden_layers=model.num_layers,
            num_attention_heads=model.num_attention_heads,
            num_key_value_heads=model.num_key_value_heads,
            max_position_embeddings=model.max_position_embeddings,
            tie_word_embeddings=model.tie_word_embeddings,
        )
    try:
        config = AutoConfig.from_pretrained(model.path, local_files_only=True)
    except (OSError, ValueError) as error:
        raise bad_input(
            "training.model.path",
            model.path,
            f"holds no model configuration ({_first_line(error)})",
            "name a folder that `save_pretrained` wrote, mounted on head and workers",
        ) from error
    if config.vocab_size < vocab_size:
        raise bad_input(
            "training.tokenizer",
            vocab_size,
            f"has more entries than the model's embedding ({config.vocab_size})",
            "use the tokenizer that belongs to the model",
        )
    return config


def weights(model: QwenConfig | HuggingFaceFolder, vocab_size: int, seed: int) -> dict[str, Tensor]:
    """All weights in float32 on the CPU, by parameter name: drawn from `seed`, or read from the folder.

    Raises `UserError` when the folder lacks a parameter: training from a half-loaded model looks like training.
    """
    if isinstance(model, QwenConfig):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return dict(Qwen2ForCausalLM(_architecture(model, vocab_size)).state_dict())
    loaded, report = AutoModelForCausalLM.from_pretrained(  # pyright: ignore[reportGeneralTypeIssues] - a pair when asked
        model.path, local_files_only=True, dtype=torch.float32, output_loading_info=True
    )
    missing = sorted(set(report["missing_keys"]))
    if missing:
        raise bad_input(
            "training.model.path",
            model.path,
            f"lacks {len(missing)} parameters, e.g. {missing[0]}",
            "use a complete folder; weights and config.json must belong together",
        )
    return dict(loaded.state_dict())


def allocate(model: PreTrainedModel, device: torch.device) -> None:
    """Memory for a model on the meta device; its parameters then hold whatever was there.

    `to_empty` has two silent faults that this mends: it gives tied embeddings a tensor each (unless they are sharded), and
    leaves the buffers that no checkpoint holds, e.g. rotary frequencies, as whatever the memory held.
    """
    model.to_empty(device=device)
    model.tie_weights()
    _rebuild_buffers(model)


def _rebuild_buffers(model: nn.Module) -> None:
    for module in model.modules():
        names = module._non_persistent_buffers_set  # noqa: SLF001 - torch has no public list of them
        if not names:
            continue
        fresh = type(module)(module.config)  # pyright: ignore[reportCallIssue] - transformers' rotary modules take a config
        for name in names:
            module.register_buffer(name, getattr(fresh, name).to(getattr(module, name).device), persistent=False)


def tied(model: nn.Module) -> bool:
    """Whether input and output embedding are one tensor, in fact and not by configuration."""
    inner = _inner(model)
    head = inner.get_output_embeddings()
    return head is not None and inner.get_input_embeddings().weight is head.weight


def assert_tied(model: nn.Module, when: str) -> None:
    """An output layer that came loose gets half its gradient, and nothing else shows it."""
    if _inner(model).config.tie_word_embeddings:
        assert tied(model), f"input and output embedding are no longer one tensor after {when}"


def token_losses(model: PreTrainedModel, inputs: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of each token in float32, nats. inputs, labels [B, S] -> [B, S].

    The logits of `LOSS_CHUNK_TOKENS` tokens exist at a time and are computed again in the backward pass.
    """
    hidden = model.model(input_ids=inputs, use_cache=False).last_hidden_state
    head = model.get_output_embeddings()
    assert head is not None, "a causal language model has an output layer"

    def losses(part: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(head(part).float(), target, reduction="none")

    flat_hidden, flat_labels = hidden.flatten(0, 1), labels.flatten()
    parts = [
        checkpoint(losses, part, target, use_reentrant=False)
        for part, target in zip(flat_hidden.split(LOSS_CHUNK_TOKENS), flat_labels.split(LOSS_CHUNK_TOKENS), strict=True)
    ]
    return torch.cat(parts).view_as(labels)


def use_token_losses(model: PreTrainedModel) -> None:
    """Replaces `forward(input_ids)` by `forward(inputs, labels) -> token losses`: FSDP and DDP hook the module's call.

    Parameter names on disk stay the plain ones, which a wrapping module would prefix.
    """
    model.forward = lambda inputs, labels: token_losses(model, inputs, labels)  # pyright: ignore[reportAttributeAccessIssue]


def _inner(model: nn.Module) -> PreTrainedModel:
    return model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model  # pyright: ignore[reportReturnType]


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__
