"""ONE resume path for a killed worker, head, node, driver, a new job or another world size.

The newest checkpoint that is complete and intact, compatible with this run, and whose state after loading has the sums
that were noted when it was saved. Every rank verifies a share of the files; all ranks come to the same decision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch.distributed as dist

from workload import receipts
from workload.checkpoint import Place, State, count_tensors, digest, load
from workload.checkpoint_folder import check_hashes, found_checkpoints, vouched_files
from workload.errors import Problem, UserError
from workload.receipts import Digest, Found, Marker, NotIntactError, StoredFile
from workload.record import Restored
from workload.run_config import Resume

# A state that is spread otherwise is added in another order; anything beyond rounding means wrong state.
OTHER_LAYOUT_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Candidate:
    """A complete checkpoint whose every byte was found to be what was vouched for."""

    found: Found
    marker: Marker
    files: tuple[StoredFile, ...]


def restore(place: Place, state: State, resume: Resume) -> Restored | None:
    """Loads the best checkpoint into `state`, in place; returns what was restored; None: nothing was there.

    A collective. Raises `UserError` on every rank when the run must not start over silently: `resume: required` and
    nothing intact, or a complete checkpoint is damaged and no other is left, or it belongs to another model or data.
    """
    passed_over: list[str] = []
    damaged = False
    for found in _broadcast(found_checkpoints(place.store, place.folder) if place.rank == 0 else None):
        try:
            candidate = _verified(place, found)
            _refuse_incompatible(place, candidate.marker)
            _load(place, state, candidate)
        except NotIntactError as error:
            passed_over.append(f"{found.folder}: {error.reason}")
            damaged = damaged or error.was_complete
            continue
        return Restored(
            checkpoint=found.folder, step=candidate.marker.step, position=candidate.marker.position,
            tensors=count_tensors(state), bytes=sum(f.size for f in candidate.files),
            passed_over=tuple(passed_over),
        )  # fmt: skip
    if damaged or resume is Resume.REQUIRED:
        raise _nothing_left(place, resume, passed_over)
    return None


def _nothing_left(place: Place, resume: Resume, passed_over: list[str]) -> UserError:
    found = "; ".join(passed_over) or "there is none"
    return UserError(Problem(
        "training.checkpoint.resume", resume.value,
        f"no intact checkpoint is left in {place.store.root}/{place.folder} ({found})",
        "restore one of them, or set it to never: the run then starts over beside them",
    ))  # fmt: skip


def _verified(place: Place, found: Found) -> Candidate:
    """Marker and receipts on rank 0, then each rank hashes a share of the files. Raises `NotIntactError` on every rank."""
    marker, files = _on_rank_0(place, lambda: vouched_files(place.store, place.folder, found))
    share = [file for i, file in enumerate(files) if i % place.world_size == place.rank]
    _together(place, lambda: check_hashes(place.store, place.folder, found, share))
    return Candidate(found, marker, tuple(files))


def _refuse_incompatible(place: Place, marker: Marker) -> None:
    changed = receipts.incompatibilities(marker.compatibility, place.compatibility)
    if changed:
        raise UserError(*(
            Problem(key, now, f"differs from what {place.store.root}/{place.folder} was trained with ({then})",
                    "change it back, use another training.runName, or set training.checkpoint.resume: never")
            for key, then, now in changed
        ))  # fmt: skip


def _load(place: Place, state: State, candidate: Candidate) -> None:
    """Loads in place and compares the sums. Raises `NotIntactError` on every rank when one could not load."""
    wanted = count_tensors(state)
    if wanted != candidate.marker.tensors:
        raise NotIntactError(f"it holds {candidate.marker.tensors} tensors, this run has {wanted}", was_complete=True)
    path = f"{place.folder}/{candidate.found.folder}"
    try:
        _together(place, lambda: load(state, place.store.fetched(path)))
    finally:  # every rank has loaded by now
        place.store.release(path)
    if not same_sums(digest(state), candidate.marker.digest, exact=candidate.marker.layout == place.layout):
        raise NotIntactError("its state has other sums after loading than when it was saved", was_complete=True)


def same_sums(now: Digest, then: Digest, *, exact: bool) -> bool:
    """Equal to the last bit where the state is spread as it was, else within rounding."""
    if exact:
        return now == then
    pairs = [(float.fromhex(getattr(now, k)), float.fromhex(getattr(then, k))) for k in Digest.model_fields]
    return all(abs(a - b) <= OTHER_LAYOUT_TOLERANCE * max(abs(a), abs(b), 1.0) for a, b in pairs)


def _broadcast[T](value: T | None) -> T:
    box: list[T | None] = [value]
    dist.broadcast_object_list(box, src=0)
    assert box[0] is not None
    return box[0]


def _on_rank_0(place: Place, look: Callable[[], tuple[Marker, list[StoredFile]]]) -> tuple[Marker, list[StoredFile]]:
    outcome: tuple[Marker, list[StoredFile]] | NotIntactError | None = None
    if place.rank == 0:
        try:
            outcome = look()
        except NotIntactError as error:
            outcome = error
    shared = _broadcast(outcome)
    if isinstance(shared, NotIntactError):
        raise shared
    return shared


def _together(place: Place, action: Callable[[], None]) -> None:
    """Runs `action` on every rank; the first rank's failure becomes everybody's."""
    failure: NotIntactError | None = None
    try:
        action()
    except NotIntactError as error:
        failure = error
    failures: list[NotIntactError | None] = [None] * place.world_size
    dist.all_gather_object(failures, failure)
    for found in failures:
        if found:
            raise found
