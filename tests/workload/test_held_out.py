"""The held-out split: by document, repeatable, and without text that is trained on."""

import pytest

from workload.held_out import RUN_WORDS, split_documents
from workload.run_config import PythonDocs
from workload.text import normalised, paragraphs, read_source

LEAK_CHARACTERS = 40


def prose(seed: int, words: int = 60) -> str:
    """Words that nobody else uses."""
    return " ".join(f"w{seed}x{number}" for number in range(words))


@pytest.fixture(scope="module")
def documents():
    return read_source(PythonDocs(source="python-docs")).documents


@pytest.mark.parametrize("seed", range(5))
def test_no_held_out_paragraph_of_the_python_documentation_is_in_the_training_text(documents, seed):
    split = split_documents(documents, 0.1, seed)
    training = "\n".join(normalised(document) for document in split.train)
    held_out = [normalised(part) for document in split.held_out for part in paragraphs(document)]

    leaked = [part for part in held_out if len(part) >= LEAK_CHARACTERS and part in training]
    # A heading that prose names in passing is no leak; a run of words is.
    assert [part for part in leaked if len(part.split()) >= RUN_WORDS] == []
    assert [part for part in leaked if part in {normalised(p) for d in split.train for p in paragraphs(d)}] == []
    assert split.overlap.share < 0.001


def test_without_the_cleaning_a_topic_split_would_leak(documents):
    split = split_documents(documents, 0.1, 1)

    assert split.overlap.share_before_cleaning > 0.05
    assert split.paragraphs_removed > 0
    assert split.characters_removed > 0


@pytest.mark.parametrize("fraction", [0.02, 0.1, 0.3])
def test_about_the_asked_share_of_the_characters_is_held_out(documents, fraction):
    split = split_documents(documents, fraction, 1)
    held_out = sum(map(len, split.held_out))

    assert 0.8 * fraction < held_out / sum(map(len, documents)) <= fraction


def test_the_split_depends_on_seed_and_content_alone(documents):
    split = split_documents(documents, 0.1, 1)

    assert split_documents(documents, 0.1, 1) == split
    assert split_documents(documents, 0.1, 2).held_out != split.held_out
    assert set(split_documents(documents[::-1], 0.1, 1).held_out) == set(split.held_out)


def test_a_document_that_occurs_twice_is_kept_once_however_it_is_wrapped():
    texts = [prose(seed) for seed in range(20)]
    split = split_documents([*texts, texts[3].replace(" ", "\n", 7), texts[4]], 0.2, 1)

    assert split.duplicate_documents == 2
    assert len(split.train) + len(split.held_out) == 20


def test_a_rewrapped_paragraph_of_a_held_out_document_is_taken_from_training():
    texts = [prose(seed) for seed in range(10)]
    held_out = split_documents(texts, 0.15, 1).held_out[0]
    nested = f"{prose(100)}\n\n    {held_out.replace(' ', '\n    ')}\n\n{prose(101)}"
    split = split_documents([*texts, nested], 0.1, 1)

    assert held_out in split.held_out
    assert f"{prose(100)}\n\n{prose(101)}" in split.train
    assert split.paragraphs_removed == 1


def test_a_paragraph_that_shares_a_run_of_words_goes_and_one_with_a_shorter_run_stays():
    texts = [prose(seed) for seed in range(10)]
    held_out = split_documents(texts, 0.15, 1).held_out[0]
    words = held_out.split()
    quoting = f"{prose(100)} {' '.join(words[20 : 20 + RUN_WORDS])} {prose(101)}"
    touching = f"{prose(102)} {' '.join(words[20 : 20 + RUN_WORDS - 1])} {prose(103)}"
    split = split_documents([*texts, f"{quoting}\n\n{touching}"], 0.1, 1)

    assert held_out in split.held_out
    assert touching in split.train
    assert not any(quoting in document for document in split.train)


def test_a_short_paragraph_that_is_held_out_is_taken_from_training():
    texts = [f"{prose(seed)}\n\nsee also {seed}" for seed in range(10)]
    held_out = split_documents(texts, 0.15, 1).held_out[0]
    short = paragraphs(held_out)[1]
    split = split_documents([*texts, f"{prose(100)}\n\n{short}"], 0.1, 1)

    assert held_out in split.held_out
    assert prose(100) in split.train


def test_a_document_of_which_nothing_is_left_is_counted():
    texts = [prose(seed) for seed in range(10)]
    held_out = split_documents(texts, 0.15, 1).held_out[0]
    split = split_documents([*texts, " ".join(held_out.split()[:30])], 0.1, 1)

    assert held_out in split.held_out
    assert split.emptied_documents == 1


def test_one_document_can_not_be_held_out_and_of_two_the_shorter_one_is():
    assert split_documents(["alone " * 50], 0.1, 1).held_out == ()
    assert split_documents([prose(1, 90), prose(2, 30)], 0.01, 1).held_out == (prose(2, 30),)
