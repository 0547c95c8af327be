"""The model on one device: what meta initialisation loses, what the chunked loss must equal, what must stay tied."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from transformers import AutoModelForCausalLM

from workload import model as models
from workload.errors import UserError
from workload.run_config import HuggingFaceFolder, QwenConfig

VOCABULARY = 300
QWEN = QwenConfig(
    source="config", hidden_size=32, intermediate_size=64, num_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=64, tie_word_embeddings=True,
)  # fmt: skip


def built(config=QWEN):
    """A model as a rank has it: from meta, emptied, buffers rebuilt, weights loaded."""
    model = models.build_on_meta(config, VOCABULARY, activation_checkpointing=False)
    models.allocate(model, torch.device("cpu"))
    model.load_state_dict(models.weights(config, VOCABULARY, seed=3))
    return model


def plain(config=QWEN):
    model = AutoModelForCausalLM.from_config(models._architecture(config, VOCABULARY), dtype=torch.float32)
    model.load_state_dict(models.weights(config, VOCABULARY, seed=3))
    return model


@pytest.fixture(autouse=True)
def dirty_memory(monkeypatch):
    """Memory that `to_empty` hands out holds nothing usable, as it may in a long-lived process."""
    empty_like = torch.empty_like
    monkeypatch.setattr(torch, "empty_like", lambda t, **k: empty_like(t, **k).fill_(float("nan")))


def batch():
    tokens = torch.randint(0, VOCABULARY, (3, 33), generator=torch.Generator().manual_seed(0))
    return tokens[:, :-1], tokens[:, 1:]


def test_a_model_built_on_meta_has_the_logits_of_one_that_was_not():
    inputs, _ = batch()

    assert torch.equal(built()(inputs).logits, plain()(inputs).logits)


@pytest.mark.case("C176")
@pytest.mark.parametrize("chunk", [7, 1024])
def test_chunked_token_losses_and_their_gradients_equal_plain_cross_entropy(chunk, monkeypatch):
    monkeypatch.setattr(models, "LOSS_CHUNK_TOKENS", chunk)
    inputs, labels = batch()
    chunked, whole = built(), plain()
    expected = F.cross_entropy(whole(inputs).logits.transpose(1, 2), labels, reduction="none")
    expected.sum().backward()
    models.use_token_losses(chunked)

    losses = chunked(inputs, labels)
    losses.sum().backward()

    torch.testing.assert_close(losses, expected, rtol=1e-6, atol=1e-6)
    for (name, ours), (_, theirs) in zip(chunked.named_parameters(), whole.named_parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5, msg=name)


def test_fresh_weights_depend_on_the_seed_alone_and_leave_the_callers_randomness_alone():
    torch.manual_seed(9)
    before = torch.get_rng_state()
    first, again, other = (models.weights(QWEN, VOCABULARY, seed) for seed in (1, 1, 2))

    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["model.layers.0.mlp.up_proj.weight"], other["model.layers.0.mlp.up_proj.weight"])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.case("C073")
def test_embeddings_stay_one_tensor_when_tied_and_a_loose_one_is_caught():
    model = built()
    models.assert_tied(model, "building")
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())

    with pytest.raises(AssertionError, match="no longer one tensor after loosening"):
        models.assert_tied(model, "loosening")


@pytest.mark.case("C075")
def test_a_hugging_face_folder_gives_its_weights_in_float32_whatever_it_stores(tmp_path):
    plain().to(torch.bfloat16).save_pretrained(tmp_path)
    folder = HuggingFaceFolder(source="huggingface", path=str(tmp_path))

    loaded = models.weights(folder, VOCABULARY, seed=0)

    assert {tensor.dtype for tensor in loaded.values()} == {torch.float32}
    expected = plain().to(torch.bfloat16).float().state_dict()
    assert all(torch.equal(loaded[name], expected[name]) for name in loaded)


@pytest.mark.case("C072")
def test_a_folder_that_lacks_a_parameter_is_refused_by_name(tmp_path):
    model = plain()
    state = {k: v for k, v in model.state_dict().items() if k not in ("model.norm.weight", "lm_head.weight")}
    model.save_pretrained(tmp_path, state_dict=state)

    with pytest.raises(UserError, match=r"training\.model\.path = .* lacks 1 parameters, e\.g\. model\.norm\.weight"):
        models.weights(HuggingFaceFolder(source="huggingface", path=str(tmp_path)), VOCABULARY, seed=0)


def test_a_tokenizer_with_more_entries_than_the_embedding_is_refused(tmp_path):
    plain().save_pretrained(tmp_path)

    with pytest.raises(UserError, match=r"has more entries than the model's embedding \(300\)"):
        models.build_on_meta(HuggingFaceFolder(source="huggingface", path=str(tmp_path)), VOCABULARY + 1, False)
