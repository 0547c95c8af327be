"""Whether a capacity reservation or Capacity Block can hold the GPU nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from infra.eks_settings import CapacityBlock, GpuNodesSettings, Reservation
from infra.preflight.check import Check, result
from workload.errors import Problem

NAME = "capacity reservation"
_KEY = "gpuNodes.capacity.reservationId"
_PLATFORM = "Linux/UNIX"


def reservation_check(
    found: Mapping[str, Any] | None, settings: GpuNodesSettings, capacity: Reservation | CapacityBlock, used_by_us: int = 0
) -> Check:
    """`found`: ec2 describe-capacity-reservations; None: there is no such one. `used_by_us`: nodes that run in it already."""
    wanted = capacity.reservation_id
    if found is None:
        fix = "check id, account and region: aws ec2 describe-capacity-reservations"
        return result(NAME, "", Problem(_KEY, wanted, "there is no such reservation for this account here", fix))
    problems = [
        *_state_problems(found, wanted, capacity),
        *_match_problems(found, settings),
        *_count_problems(found, settings.count, used_by_us),
        *_group_problems(found, capacity),
    ]
    end = f", until {found['EndDate']:%Y-%m-%d %H:%M} UTC" if found.get("EndDate") else ""
    return result(NAME, f"{wanted}: {found['AvailableInstanceCount']} of {found['TotalInstanceCount']} free{end}", *problems)


def _state_problems(found: Mapping[str, Any], wanted: str, capacity: Reservation | CapacityBlock) -> Iterator[Problem]:
    if found["State"] != "active":
        start = f"; it starts {found['StartDate']:%Y-%m-%d %H:%M} UTC" if found.get("StartDate") else ""
        yield Problem(_KEY, wanted, f"is {found['State']}, not active{start}", "wait for it, or use another")
    is_block = found.get("ReservationType", "default") == "capacity-block"
    if is_block != isinstance(capacity, CapacityBlock):
        kind = "capacity-block" if is_block else "reservation"
        reason = f"the reservation {wanted} is of another kind, and nodes are launched into each kind differently"
        yield Problem("gpuNodes.capacity.kind", capacity.kind, reason, f"set it to {kind}")


def _match_problems(found: Mapping[str, Any], settings: GpuNodesSettings) -> Iterator[Problem]:
    pairs = {
        "gpuNodes.instanceType": (settings.instance_type, found["InstanceType"]),
        "gpuNodes.zone": (settings.zone, found["AvailabilityZone"]),
    }
    for key, (ours, reserved) in pairs.items():
        if ours != reserved:
            yield Problem(key, ours, f"the reservation is for {reserved}", f"set it to {reserved}, or use another reservation")
    for key, wanted in {"InstancePlatform": _PLATFORM, "Tenancy": "default"}.items():
        if found.get(key, wanted) != wanted:
            reason = f"its {key} is {found[key]}, and nodes need {wanted}"
            yield Problem(_KEY, found["CapacityReservationId"], reason, "use another reservation")


def _count_problems(found: Mapping[str, Any], count: int, used_by_us: int) -> Iterator[Problem]:
    free = found["AvailableInstanceCount"] + used_by_us
    if free < count:
        reason = f"the reservation has {free} instances free of {found['TotalInstanceCount']}"
        yield Problem("gpuNodes.count", str(count), reason, f"set it to {free} or less, or enlarge the reservation")


def _group_problems(found: Mapping[str, Any], capacity: Reservation | CapacityBlock) -> Iterator[Problem]:
    """An instance must be launched into the group that the reservation was bought in, and into no other."""
    reserved = found.get("PlacementGroupArn", "").rpartition("/")[2] or None
    ours = capacity.placement_group if isinstance(capacity, Reservation) else None
    if ours == reserved:
        return
    reason = f"the reservation was bought in placement group {reserved}" if reserved else "the reservation is in no group"
    fix = f"set it to {reserved}" if reserved else "remove it"
    yield Problem("gpuNodes.capacity.placementGroup", ours or "", reason, fix)
