"""What an environment costs in an hour, by list price, before it exists. Pure.

A price that has no source here is said to be missing, never guessed: the total is then a lower bound. Not counted: what
depends on use (traffic, requests, logs, objects in the store) and discounts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from infra.eks_settings import (
    CapacityBlock,
    EksConfiguration,
    FsxStore,
    GpuNodesSettings,
    NetworkSettings,
    Spot,
    SystemNodesSettings,
)
from infra.instance_types import KNOWN, PRICES
from workload.errors import Problem

# List prices of us-east-1 in USD, 2026-06; the instance types' are beside their facts.
_CONTROL_PLANE = 0.10  # a cluster in standard support: https://aws.amazon.com/eks/pricing/
_NAT_GATEWAY = 0.045  # https://aws.amazon.com/vpc/pricing/
_INTERFACE_ENDPOINT = 0.01  # in each zone: https://aws.amazon.com/privatelink/pricing/
_PUBLIC_ADDRESS = 0.005  # https://aws.amazon.com/vpc/pricing/
# gp3: https://aws.amazon.com/ebs/pricing/, by the month of 730 hours that AWS counts with
_HOURS_PER_MONTH = 730
_GIB_MONTH, _IOPS_MONTH, _MIBPS_MONTH = 0.08, 0.005, 0.04
_FREE_IOPS, _FREE_MIBPS = 3000, 125

# What stays after a destroy, by kind of thing: https://aws.amazon.com/s3/pricing/, .../kms/pricing/, .../efs/pricing/
# and .../backup/pricing/
KEPT = {
    "s3:bucket": "0.023 USD per GB and month, replaced and deleted versions included",
    "kms:key": "1 USD a month",
    "elasticfilesystem:file-system": "0.30 USD per GB and month",
    "elasticfilesystem:access-point": "nothing of its own",
    "backup:recovery-point": "0.05 USD per GB and month",
}


@dataclass(frozen=True)
class Line:
    """Several of one thing. `usd_each` in an hour; None: no price is known. `note` qualifies it."""

    what: str
    count: int
    usd_each: float | None
    note: str = ""

    @property
    def usd(self) -> float | None:
        return None if self.usd_each is None else self.usd_each * self.count


@dataclass(frozen=True)
class HourlyCost:
    """`total` counts the lines that have a price; what has none is in `unknown`."""

    region: str
    lines: tuple[Line, ...]

    @property
    def total(self) -> float:
        return sum(line.usd for line in self.lines if line.usd is not None)

    @property
    def unknown(self) -> tuple[str, ...]:
        return tuple(line.what for line in self.lines if line.usd is None)

    def __str__(self) -> str:
        """`9.82 USD/h`, or `more than 9.82 USD/h` where a price is missing."""
        return f"{'more than ' if self.unknown else ''}{self.total:.2f} USD/h"

    def table(self) -> str:
        """The lines, the total, and what it stands on."""
        cells = [(f"{line.count} x {line.what}", _shown(line.usd), line.note) for line in self.lines]
        cells.append(("in all" + (", without what has no price" if self.unknown else ""), _shown(self.total), ""))
        width, digits = max(len(what) for what, _, _ in cells), max(len(usd) for _, usd, _ in cells)
        rows = [f"{what:<{width}}  {usd:>{digits}}  {note}".rstrip() for what, usd, note in cells]
        elsewhere = f"; {self.region} has its own" if self.region != "us-east-1" else ""
        return "\n".join(
            [*rows, f"USD in an hour by {PRICES}{elsewhere}; traffic, requests, logs and stored bytes not counted"]
        )


def hourly_cost(eks: EksConfiguration, store: object = None) -> HourlyCost:
    """`store`: the settings of the store, which has an hourly price if it is a file system of fixed size."""
    lines = [
        _gpu_line(eks.gpu_nodes),
        _instance_line("system node", eks.cluster.system_nodes),
        Line("EKS control plane", 1, _CONTROL_PLANE),
        *_network_lines(eks.network),
        *_volume_lines(eks.gpu_nodes, eks.cluster.system_nodes),
    ]
    if isinstance(store, FsxStore):
        lines.append(Line(f"FSx for Lustre {store.deployment}, {store.capacity_gib} GiB", 1, None, "price not in this table"))
    return HourlyCost(eks.aws.region, tuple(lines))


def problems(cost: HourlyCost, max_hourly_cost: float) -> list[Problem]:
    """A plan over the budget."""
    if cost.total <= max_hourly_cost:
        return []
    dearest = max((line for line in cost.lines if line.usd is not None), key=lambda line: line.usd or 0)
    reason = f"this plan costs {cost}, of which {dearest.count} x {dearest.what} {_shown(dearest.usd)}"
    return [Problem("aws.maxHourlyCost", f"{max_hourly_cost:g}", reason, "raise it, or plan fewer or smaller nodes")]


def _shown(usd: float | None) -> str:
    return "unknown" if usd is None else f"{usd:.3f}"


def _gpu_line(nodes: GpuNodesSettings) -> Line:
    line = _instance_line("GPU node", nodes)
    if isinstance(nodes.capacity, CapacityBlock):
        return Line(line.what, line.count, None, "a Capacity Block is paid in advance, at a price of its own")
    if isinstance(nodes.capacity, Spot):
        return Line(line.what, line.count, line.usd_each, "on-demand price; spot is less, and changes")
    return line


def _instance_line(role: str, nodes: GpuNodesSettings | SystemNodesSettings) -> Line:
    known = KNOWN.get(nodes.instance_type)
    price = known.usd_per_hour if known else None
    note = "price not in this table" if price is None else ""
    return Line(f"{role} {nodes.instance_type}", nodes.count, price, note)


def _network_lines(network: NetworkSettings) -> Iterator[Line]:
    if network.own_vpc:
        return
    gateways = len(network.zones) if network.nat == "per-zone" else 1
    yield Line("NAT gateway", gateways, _NAT_GATEWAY)
    yield Line("public address", gateways, _PUBLIC_ADDRESS)
    if network.interface_endpoints:
        yield Line("interface endpoint and zone", len(network.interface_endpoints) * len(network.zones), _INTERFACE_ENDPOINT)


def _volume_lines(gpu: GpuNodesSettings, system: SystemNodesSettings) -> Iterator[Line]:
    iops, throughput = gpu.root_volume_iops - _FREE_IOPS, gpu.root_volume_throughput - _FREE_MIBPS
    performance = iops * _IOPS_MONTH + throughput * _MIBPS_MONTH
    each = (gpu.root_volume_gib * _GIB_MONTH + performance) / _HOURS_PER_MONTH
    yield Line(f"root volume of a GPU node, {gpu.root_volume_gib} GiB", gpu.count, each)
    each = system.root_volume_gib * _GIB_MONTH / _HOURS_PER_MONTH
    yield Line(f"root volume of a system node, {system.root_volume_gib} GiB", system.count, each)
