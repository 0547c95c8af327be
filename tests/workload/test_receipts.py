"""What makes a checkpoint complete: markers, receipts, order, pruning."""

import hashlib

import pytest

from workload import receipts
from workload.receipts import Digest, Found, Marker, NotIntactError, Receipt, StoredFile


def receipt(rank: int, *names: str) -> bytes:
    files = tuple(StoredFile(name=name, size=10, sha256="0" * 64) for name in names)
    return Receipt(schema_version=1, rank=rank, step=4, attempt=1, files=files).to_json().encode()


NOTES = {
    receipts.receipt_name(0): receipt(0, ".metadata", "__0_0.distcp"),
    receipts.receipt_name(1): receipt(1, "__1_0.distcp"),
}
SIZES = {".metadata": 10, "__0_0.distcp": 10, "__1_0.distcp": 10, receipts.MARKER: 1}


def marker(**changes) -> Marker:
    sums = Digest(parameters="0x1p0", first_moments="0x1p0", second_moments="0x1p0")
    values = {
        "schema_version": 1, "step": 4, "attempt": 1, "position": 32, "tensors": 3, "digest": sums,
        "layout": "full over 2 workers", "compatibility": {}, "identity": "a" * 64,
        "receipts": {name: hashlib.sha256(data).hexdigest() for name, data in NOTES.items()},
    }  # fmt: skip
    return Marker(**(values | changes))


def test_a_sealed_marker_reads_back_as_it_was():
    assert receipts.read_marker(marker().seal()) == marker()


@pytest.mark.parametrize("cut", [0, 1, 10, 200])
def test_a_truncated_marker_is_damaged(cut):
    with pytest.raises(NotIntactError, match="marker is damaged"):
        receipts.read_marker(marker().seal()[:cut])


def test_a_marker_whose_step_was_changed_is_damaged():
    with pytest.raises(NotIntactError, match="hash differs"):
        receipts.read_marker(marker().seal().replace(b'\\"step\\":4', b'\\"step\\":5'))


def test_all_files_of_all_receipts_are_expected():
    files = receipts.expected_files(Found("step", SIZES), marker(), NOTES)

    assert [f.name for f in files] == [".metadata", "__0_0.distcp", "__1_0.distcp"]


@pytest.mark.parametrize(
    ("sizes", "notes", "reason"),
    [
        (SIZES, {k: v for k, v in NOTES.items() if "00001" not in k}, "receipt-00001.json is missing"),
        (SIZES, NOTES | {receipts.receipt_name(1): receipt(1, "__9_0.distcp")}, "receipt-00001.json is damaged"),
        ({k: v for k, v in SIZES.items() if k != "__1_0.distcp"}, NOTES, "__1_0.distcp is missing"),
        (SIZES | {"__0_0.distcp": 9}, NOTES, "__0_0.distcp has 9 bytes, not 10"),
    ],
)
def test_each_contradiction_is_named(sizes, notes, reason):
    with pytest.raises(NotIntactError, match=reason) as caught:
        receipts.expected_files(Found("step", sizes), marker(), notes)

    assert caught.value.was_complete


@pytest.mark.case("C139")
def test_a_checkpoint_without_torchs_own_metadata_is_not_intact():
    notes = {receipts.receipt_name(0): receipt(0, "__0_0.distcp")}
    only = marker(receipts={n: hashlib.sha256(d).hexdigest() for n, d in notes.items()})

    with pytest.raises(NotIntactError, match=r"no receipt names \.metadata"):
        receipts.expected_files(Found("step", SIZES), only, notes)


def test_newest_is_by_step_then_attempt_and_strange_folders_are_nobodys_checkpoint():
    names = ["step-00000010-attempt-0001", "step-00000002-attempt-0003", "step-abc", "step-00000010-attempt-0002", "tmp"]

    order = [f.folder for f in receipts.newest_first(Found(name, {}) for name in names)]

    assert order == ["step-00000010-attempt-0002", "step-00000010-attempt-0001", "step-00000002-attempt-0003"]


def test_pruning_keeps_the_newest_complete_ones_and_never_touches_a_save_in_progress():
    folders = [Found(receipts.folder_name(step, 1), {}) for step in (2, 4, 6, 8, 10)]
    complete = [receipts.folder_name(step, 1) for step in (2, 6, 8)]

    gone = receipts.to_prune(folders, complete, keep=2, newest=receipts.folder_name(8, 1))

    assert gone == [receipts.folder_name(4, 1), receipts.folder_name(2, 1)]


def test_an_error_keeps_its_fields_across_processes():
    import pickle

    again = pickle.loads(pickle.dumps(NotIntactError("gone", was_complete=True)))  # noqa: S301

    assert (again.reason, again.was_complete) == ("gone", True)
