"""Every kind of thing once, and what the tagging API lists beside.

That list is a hint: it goes on after a thing is gone, and lacks roles and Auto Scaling groups, so each service is asked itself.
https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/supported-services.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from infra.answers import NotAsked
from infra.sweep import compute, storage
from infra.sweep.search import Search
from infra.teardown.found import Found

BY_TAG = "everything else, by tag"
KINDS: Mapping[str, Callable[[Search], list[Found] | NotAsked]] = {
    "eks:cluster": compute.cluster,
    **{f"ec2:{kind.resource_type}": partial(compute.of_ec2, kind=kind) for kind in compute.EC2_KINDS},
    "autoscaling:autoScalingGroup": compute.scaling_groups,
    "elasticloadbalancing:loadbalancer": compute.load_balancers,
    "logs:log-group": storage.log_groups,
    "kms:key": storage.keys,
    "iam:role": storage.roles,
    "s3:bucket": storage.buckets,
    "elasticfilesystem:file-system": storage.elastic_file_systems,
    "elasticfilesystem:access-point": storage.access_points,
    "fsx:file-system": storage.lustre_file_systems,
}


@dataclass
class Swept:
    """`seen`: from the services, of the kinds in `asked`. `listed`: ARNs from the tagging API. `not_asked`: kind -> why."""

    seen: list[Found] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    not_asked: dict[str, NotAsked] = field(default_factory=dict)


def sweep(search: Search) -> Swept:
    """Asks for every kind; one that can't be asked doesn't keep the others from it. Raises: UserError for credentials."""
    swept = Swept()
    listed = _listed(search)
    if isinstance(listed, NotAsked):
        swept.not_asked[BY_TAG] = listed
    else:
        swept.asked.append(BY_TAG)
        swept.listed = listed
    search = replace(search, listed=tuple(swept.listed))
    for kind, look in KINDS.items():
        found = look(search)
        if isinstance(found, NotAsked):
            swept.not_asked[kind] = found
        else:
            swept.asked.append(kind)
            swept.seen += found
    return swept


def _listed(search: Search) -> list[str] | NotAsked:
    arns: list[str] = []
    for query in search.tag_queries():
        filters = [{"Key": key, "Values": [value]} for key, value in query]
        found = search.account.ask_pages(
            "tag:GetResources", "resourcegroupstaggingapi", "get_resources", "ResourceTagMappingList", TagFilters=filters
        )
        if isinstance(found, NotAsked):
            return found
        arns += [one["ResourceARN"] for one in found]
    return arns
