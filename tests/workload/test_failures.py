"""One line for why an attempt ended: the cause, not the echo."""

import pytest

from tests.workload.runs import run_config
from workload.failures import describe, explain, note_failure, read_failures
from workload.store import Store


class RayActorError(Exception):
    """As Ray names it."""


def test_the_rank_that_is_gone_is_named_and_not_the_one_that_lost_its_connection():
    errors = {0: RuntimeError("[gloo/transport/tcp/pair.cc] Connection reset by peer"), 1: RayActorError("The actor died")}

    assert explain(errors) == "rank 1: its process is gone (killed, out of memory, or its node was lost)"


def test_an_error_of_the_loop_is_said_with_type_and_text_of_its_innermost_cause():
    outer = RuntimeError("wrapped by the framework\n  with frames")
    outer.__cause__ = FloatingPointError("the loss of step 7 is nan")

    assert explain({3: outer}) == "rank 3: FloatingPointError: the loss of step 7 is nan"


def test_echoes_alone_are_better_than_nothing():
    assert explain({0: RuntimeError("Connection closed by peer")}) == "rank 0: RuntimeError: Connection closed by peer"


def test_a_process_that_never_started_says_why():
    error = RayActorError(
        "The actor died because of an error raised in its creation task\n  frames\nModuleNotFoundError: No module x"
    )

    assert describe(error) == "ModuleNotFoundError: No module x"


@pytest.mark.parametrize("length", [10, 10_000])
def test_a_reason_is_one_line_of_bounded_length(length):
    text = describe(ValueError("a\nb " * length))

    assert "\n" not in text
    assert len(text) <= 300


def test_notes_are_kept_in_order(tmp_path):
    store = Store(run_config(tmp_path).store)
    note_failure(store, "run", {0: ValueError("first")})
    note_failure(store, "run", {0: ValueError("second")})

    assert [note.reason for note in read_failures(store, "run")] == ["rank 0: ValueError: first", "rank 0: ValueError: second"]
