"""Prepared folders: their bytes, their reuse, their refusals; and the order in which training visits them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

from workload.data import (
    DataDamagedError,
    Sequences,
    TrainOrder,
    decode_matches,
    load_tokenizer,
    prepare,
    verify,
)
from workload.errors import UserError
from workload.held_out import split_documents
from workload.text import read_source
from workload.tokens import END_OF_TEXT, encode, load_or_train, statistics

ROOT = Path(__file__).resolve().parents[2]
FILES = ("manifest.json", "tokenizer.json", "train.bin", "heldout.bin")


def silent(line: str) -> None:
    pass


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def text_settings(*paths: Path, separator: str = "\n\n") -> dict:
    return {"source": "text", "paths": [str(path) for path in paths], "documentSeparator": separator}


def distinct_text(documents: int, words: int = 40) -> str:
    numbers = np.random.default_rng(5)
    return "\n\n".join(" ".join(f"{d}-{v}" for v in numbers.integers(0, 999, words)) for d in range(documents))


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("data") / "prepared"


@pytest.fixture
def prepared(shared_folder, config):
    """The Python documentation: prepared by the first test that asks, reused by the others. Copy it to change it."""
    return config(), shared_folder, prepare(config(), shared_folder, silent)


@pytest.fixture
def small(config, tmp_path):
    """A small text of its own, prepared in a folder that a test may damage: run config, folder, contents."""
    text = tmp_path / "small.txt"
    text.write_text(distinct_text(80), encoding="utf-8")
    run, folder = config(training__data__text=text_settings(text)), tmp_path / "small"
    prepare(run, folder, silent)
    return run, folder, contents(folder)


def test_the_same_settings_give_the_same_bytes_whatever_the_workers_and_threads(prepared, tmp_path):
    config, folder, _ = prepared
    changed = json.loads(config.to_json())
    changed["workers"] |= {"count": 4, "perPod": 4}
    changed["training"]["schedule"]["microBatchSequences"] = 1
    (tmp_path / "run.json").write_text(json.dumps(changed), encoding="utf-8")
    code = (
        "import pathlib, sys; from workload.data import prepare; from workload.run_config import RunConfig\n"
        "prepare(RunConfig.from_json(pathlib.Path(sys.argv[1]).read_bytes()), pathlib.Path(sys.argv[2]), print)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7", "RAYON_NUM_THREADS": "1"}
    arguments = [sys.executable, "-c", code, str(tmp_path / "run.json"), str(tmp_path / "again")]
    subprocess.run(arguments, env=environment, check=True, capture_output=True)

    assert contents(tmp_path / "again") == contents(folder)


def test_a_complete_folder_is_reused_without_being_written(small):
    config, folder, _ = small
    before = {name: (folder / name).stat().st_mtime_ns for name in FILES}
    prepare(config, folder, silent)

    assert {name: (folder / name).stat().st_mtime_ns for name in FILES} == before


@pytest.mark.parametrize("name", FILES)
def test_an_incomplete_folder_is_built_again(small, name):
    config, folder, original = small
    (folder / name).unlink()
    prepare(config, folder, silent)

    assert contents(folder) == original


def test_a_flipped_byte_is_found_and_mended_by_preparing_again(small):
    config, folder, original = small
    data = bytearray((folder / "train.bin").read_bytes())
    data[1000] ^= 1
    (folder / "train.bin").write_bytes(data)

    with pytest.raises(DataDamagedError, match=r"train\.bin"):
        verify(folder)
    said = []
    prepare(config, folder, said.append)
    assert contents(folder) == original
    assert any("preparing again" in line and "train.bin" in line for line in said)


@pytest.mark.parametrize("change", [{"training__seed": 2}, {"training__data__sequenceLength": 16}])
def test_changed_settings_are_prepared_again(small, config, change):
    run, folder, original = small
    manifest = prepare(config(training__data__text=run.training.data.text.model_dump(by_alias=True), **change), folder, silent)

    assert contents(folder)["manifest.json"] != original["manifest.json"]
    assert contents(folder)["train.bin"] != original["train.bin"] or manifest.sequence_length == 16
    assert verify(folder) == manifest


def test_a_changed_text_is_prepared_again(config, tmp_path):
    text, folder = tmp_path / "a.txt", tmp_path / "data"
    text.write_text(distinct_text(80), encoding="utf-8")
    first = prepare(config(training__data__text=text_settings(text)), folder, silent)
    text.write_text(distinct_text(81), encoding="utf-8")
    second = prepare(config(training__data__text=text_settings(text)), folder, silent)

    assert second.fingerprint != first.fingerprint
    assert second.documents == 81
    assert verify(folder) == second


def test_the_manifest_is_written_last(config, tmp_path, monkeypatch):
    replaced = []
    real = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, target: (replaced.append(Path(target).name), real(self, target))[1])
    prepare(config(), tmp_path / "data", silent)

    assert replaced[-1] == "manifest.json"
    assert sorted(replaced) == sorted(FILES)


def test_opening_a_cut_file_is_refused(small):
    _, folder, _ = small
    data = (folder / "heldout.bin").read_bytes()
    (folder / "heldout.bin").write_bytes(data[:-2])

    with pytest.raises(DataDamagedError, match=r"heldout\.bin"):
        Sequences(folder, "heldout")


@pytest.mark.parametrize("damage", [b"", b"{", b'{"schemaVersion": 1}'])
def test_a_damaged_manifest_is_refused_on_opening_and_built_again_by_preparing(small, damage):
    config, folder, original = small
    (folder / "manifest.json").write_bytes(damage)

    with pytest.raises(DataDamagedError, match=r"manifest\.json"):
        Sequences(folder, "train")
    prepare(config, folder, silent)
    assert contents(folder) == original


def test_the_manifest_counts_what_was_read_and_removed(prepared):
    _, folder, manifest = prepared
    summary = manifest.summary()

    assert manifest.train.tokens * 2 == (folder / "train.bin").stat().st_size
    assert manifest.train.documents + manifest.held_out.documents + manifest.duplicate_documents == manifest.documents
    assert summary.duplicates_removed == manifest.duplicate_documents + manifest.paragraphs_removed > 0
    assert summary.train_tokens == manifest.train.tokens > 100_000
    assert manifest.vocabulary == 512


def test_labels_are_the_inputs_one_token_later_and_no_label_is_lost(prepared):
    _, folder, manifest = prepared
    sequences = Sequences(folder, "train")
    (inputs, labels), (following, _) = sequences[0], sequences[1]
    stored = np.fromfile(folder / "train.bin", dtype="<u2")

    assert inputs.dtype == labels.dtype == np.int64
    assert len(inputs) == len(labels) == manifest.sequence_length
    assert (inputs[1:] == labels[:-1]).all()
    assert labels[-1] == following[0]
    every_label = np.concatenate([sequences[index][1] for index in range(len(sequences))])
    assert (every_label == stored[1 : 1 + len(every_label)]).all()
    assert len(stored) - len(every_label) <= manifest.sequence_length


@pytest.mark.parametrize("index", [-1, 10**9])
def test_a_sequence_that_does_not_exist_is_refused(prepared, index):
    with pytest.raises(IndexError):
        Sequences(prepared[1], "train")[index]


def test_documents_are_joined_with_end_of_text(prepared):
    _, folder, manifest = prepared
    tokens = np.fromfile(folder / "heldout.bin", dtype="<u2")

    assert (tokens == manifest.end_of_text).sum() == manifest.held_out.documents
    assert tokens[-1] == manifest.end_of_text
    assert load_tokenizer(folder).token_to_id(END_OF_TEXT) == manifest.end_of_text


def test_the_tokenizer_is_trained_on_training_documents_only(config, tmp_path):
    """A word that one document repeats becomes a token exactly when that document is trained on."""
    text = tmp_path / "a.txt"
    repeating = "zyxwvut qq " * 20
    text.write_text(f"{distinct_text(60)}\n\n{repeating}", encoding="utf-8")
    documents = text.read_text(encoding="utf-8").split("\n\n")
    sides = {seed: repeating in split_documents(documents, 0.3, seed).held_out for seed in range(40)}
    for is_held_out in (True, False):
        seed = next(seed for seed, side in sides.items() if side is is_held_out)
        changes = {"training__data__text": text_settings(text), "training__data__heldOutFraction": 0.3, "training__seed": seed}
        prepare(config(**changes), tmp_path / "data", silent)

        assert any("zyxw" in token for token in load_tokenizer(tmp_path / "data").get_vocab()) is not is_held_out


def test_a_vocabulary_beyond_16_bits_is_stored_in_32(config, tmp_path):
    vocabulary = {chr(0x10000 + i): i for i in range(65_600)} | {END_OF_TEXT: 65_600}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=chr(0x10000 + 65_599)))
    tokenizer.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END_OF_TEXT).save_pretrained(tmp_path / "tokenizer")
    settings = {"source": "huggingface", "path": str(tmp_path / "tokenizer")}
    manifest = prepare(config(training__tokenizer=settings), tmp_path / "data", silent)

    assert manifest.dtype == "<u4"
    assert manifest.vocabulary == 65_601
    assert Sequences(tmp_path / "data", "train")[0][0].max() == 65_599


def test_a_folder_of_a_tokenizer_gives_the_tokens_that_it_gave(prepared, config, tmp_path):
    _, folder, _ = prepared
    wrapped = PreTrainedTokenizerFast(tokenizer_object=load_tokenizer(folder), eos_token=END_OF_TEXT)
    wrapped.save_pretrained(tmp_path / "tokenizer")
    settings = {"source": "huggingface", "path": str(tmp_path / "tokenizer")}
    manifest = prepare(config(training__tokenizer=settings), tmp_path / "data", silent)

    assert manifest.train.sha256 == prepared[2].train.sha256
    assert manifest.end_of_text == prepared[2].end_of_text


def test_a_special_token_spelled_out_in_the_text_is_text(prepared):
    tokenizer = load_tokenizer(prepared[1])
    (tokens,) = encode(tokenizer, 0, [f"before {END_OF_TEXT} after"])

    assert (tokens == 0).sum() == 1
    assert tokens[-1] == 0
    assert tokenizer.decode(tokens[:-1].tolist()) == f"before {END_OF_TEXT} after"


def test_a_long_document_is_encoded_in_pieces_and_loses_nothing(prepared, monkeypatch):
    monkeypatch.setattr("workload.tokens.PIECE_CHARACTERS", 50)
    tokenizer = load_tokenizer(prepared[1])
    document = "a line of words\n\n" * 20 + "x" * 170 + "\nend"
    tokens = np.concatenate(list(encode(tokenizer, 0, [document, "next"])))

    assert tokenizer.decode(tokens[tokens != 0].tolist()) == document + "next"
    assert (tokens == 0).sum() == 2


def test_decoded_sequences_are_found_in_the_source(prepared):
    config, folder, manifest = prepared
    proof = decode_matches(folder, config, range(0, manifest.train.sequences, 50))

    assert proof.problem == ""
    assert proof.characters > 1000
    assert proof.sample


def test_tokens_that_are_not_the_text_are_not_found_in_the_source(small):
    config, folder, _ = small
    tokens = np.fromfile(folder / "train.bin", dtype="<u2")
    np.random.default_rng(0).permutation(tokens).tofile(folder / "train.bin")

    assert "not in the source" in decode_matches(folder, config, [0, 5]).problem


def test_statistics_tell_text_from_noise(prepared):
    _, _, manifest = prepared
    noise = np.random.default_rng(0).integers(0, 512, manifest.train.tokens).astype(np.uint32)
    measured = statistics(noise, ["".join(map(chr, 33 + noise % 90))], 512)

    text = manifest.statistics
    assert text.compressed_share < 0.4 < 0.7 < measured.compressed_share
    assert text.bigram_bits < 0.85 * text.bigram_bits_shuffled
    assert measured.bigram_bits > 0.99 * measured.bigram_bits_shuffled
    assert text.unigram_bits < text.maximum_bits - 0.5 < measured.unigram_bits


def refusal(config, folder: Path):
    with pytest.raises(UserError) as caught:
        prepare(config, folder, silent)
    assert not folder.exists()
    return caught.value.problems


def test_a_text_file_that_is_refused_leaves_nothing_behind(config, tmp_path):
    (problem,) = refusal(config(training__data__text=text_settings(tmp_path / "none.txt")), tmp_path / "data")

    assert problem.where == str(tmp_path / "none.txt")


def test_one_document_can_not_be_split(config, tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("one long document " * 500, encoding="utf-8")
    (problem,) = refusal(config(training__data__text=text_settings(text)), tmp_path / "data")

    assert problem.where == str(text)
    assert problem.value == "1 document"
    assert "documentSeparator" in problem.fix


def test_a_text_of_which_nothing_is_left_to_train_on_is_refused(config, tmp_path):
    text = tmp_path / "a.txt"
    sentence = distinct_text(1)
    text.write_text(f"{sentence}\n----\nmore {sentence} again", encoding="utf-8")
    (problem,) = refusal(config(training__data__text=text_settings(text, separator="\n----\n")), tmp_path / "data")

    assert "nothing is left to train on" in problem.reason


def test_too_little_text_says_how_much_there_is_and_how_much_is_needed(config, tmp_path):
    text = tmp_path / "a.txt"
    text.write_text(distinct_text(4, words=6), encoding="utf-8")
    changes = {"training__data__text": text_settings(text), "workers__count": 4, "training__schedule__globalBatchSequences": 16}
    held_out, training = refusal(config(**changes), tmp_path / "data")

    assert held_out.where == training.where == str(text)
    assert "held-out tokens" in held_out.value
    assert "4 sequences of 32 tokens need 129 tokens" in held_out.reason
    assert "16 sequences of 32 tokens need 513 tokens" in training.reason


@pytest.mark.case("C085")
def test_a_prepared_folder_is_still_refused_to_more_workers_than_it_can_feed(small):
    run, folder, _ = small
    run = run.model_copy(update={"workers": run.workers.model_copy(update={"count": 5000})})
    with pytest.raises(UserError, match="held-out tokens"):
        prepare(run, folder, silent)

    assert verify(folder)


@pytest.mark.parametrize(
    "content", [None, {}, {"tokenizer.json": "{"}, {"tokenizer.json": "{}", "tokenizer_config.json": "{}"}]
)
def test_a_tokenizer_folder_that_does_not_load_is_refused(config, tmp_path, content):
    folder = tmp_path / "tokenizer"
    if content is not None:
        folder.mkdir()
        for name, text in content.items():
            (folder / name).write_text(text, encoding="utf-8")
    settings = {"source": "huggingface", "path": str(folder)}
    (problem,) = refusal(config(training__tokenizer=settings), tmp_path / "data")

    assert problem.where == str(folder)
    assert "tokenizer" in problem.reason or "does not exist" in problem.reason
    assert problem.fix


def test_a_tokenizer_without_an_end_of_text_is_refused(config, tmp_path):
    tokenizer, _ = load_or_train(config().training.tokenizer, [distinct_text(20)])
    body = json.loads(tokenizer.to_str())
    body["added_tokens"] = []
    del body["model"]["vocab"][END_OF_TEXT]
    PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(body))).save_pretrained(tmp_path / "tokenizer")
    settings = {"source": "huggingface", "path": str(tmp_path / "tokenizer")}
    (problem,) = refusal(config(training__tokenizer=settings), tmp_path / "data")

    assert "no end-of-text token" in problem.reason


@pytest.mark.case("C107")
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_each_sequence_is_trained_on_once_per_epoch_whatever_the_number_of_workers(workers):
    order, count, batch = TrainOrder(37, seed=3), 37, 8
    steps = count  # of 8 sequences each: 8 whole epochs
    visited = []
    for step in range(1, steps + 1):
        positions = range((step - 1) * batch, step * batch)
        shares = [positions[rank::workers] for rank in range(workers)]
        visited += sorted(position for share in shares for position in share)

    assert visited == list(range(steps * batch))
    for epoch in range(batch):
        in_epoch = [order.sequence_at(position) for position in visited[epoch * count : (epoch + 1) * count]]
        assert sorted(in_epoch) == list(range(count))


@pytest.mark.case("C112")
def test_seeds_and_epochs_each_have_an_order_of_their_own_and_repeat_it():
    def orders():
        return [
            tuple(TrainOrder(50, seed).sequence_at(epoch * 50 + index) for index in range(50))
            for seed in (1, 2, 1 + (1 << 32), 1 + (2 << 32))
            for epoch in (0, 1, 2)
        ]

    assert len(set(orders())) == 12
    assert orders() == orders()


def test_an_order_is_the_same_in_every_version_of_numpy():
    assert [TrainOrder(10, 1).sequence_at(position) for position in range(10)] == [4, 6, 1, 3, 9, 8, 2, 0, 5, 7]


def test_a_position_means_the_same_to_an_order_that_starts_there():
    walked = TrainOrder(11, 4)
    whole = [walked.sequence_at(position) for position in range(40)]

    assert [TrainOrder(11, 4).sequence_at(position) for position in range(25, 40)] == whole[25:]
    assert walked.sequence_at(3) == whole[3]


def test_positions_before_the_start_are_refused():
    with pytest.raises(IndexError):
        TrainOrder(5, 1).sequence_at(-1)
    with pytest.raises(ValueError, match="nothing to order"):
        TrainOrder(0, 1)


def test_the_held_out_file_holds_the_held_out_documents_letter_by_letter(prepared):
    config, folder, _ = prepared
    data = config.training.data
    split = split_documents(read_source(data.text).documents, data.held_out_fraction, config.training.seed)
    decoded = load_tokenizer(folder).decode(np.fromfile(folder / "heldout.bin", dtype="<u2").tolist())

    assert decoded == "".join(split.held_out)
