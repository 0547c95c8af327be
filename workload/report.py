"""The record for people: one self-contained HTML page, and the claims as a table for a terminal.

The page has no script and loads nothing. Its template is read with `importlib.resources`, so that it also comes out of
a zip on PYTHONPATH, which is how the package runs in a pod.
"""

from __future__ import annotations

import json
import textwrap
from datetime import UTC, datetime
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from workload.loss_chart import loss_chart
from workload.record import Improvement, Record, Verdict

VERDICT_MARKS = {Verdict.PROVEN: "\u2713", Verdict.REFUTED: "\u2717", Verdict.NOT_TESTED: "\u2013"}
INTERVAL_WIDTH = 280
TABLE_WIDTH_MIN = 60


def render(record: Record) -> str:
    """The page. All of the record's text is escaped."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": _number, "seconds": _seconds, "moment": _moment}
    template = files("workload").joinpath("templates", "report.html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        record=record,
        chart=loss_chart(record),
        interval=_interval(record.improvement) if record.improvement else None,
        marks={str(verdict): mark for verdict, mark in VERDICT_MARKS.items()},
        config=json.dumps(json.loads(record.config.to_json()), indent=2),
    )


def claims_table(record: Record, width: int = 100) -> str:
    """Claim, verdict and evidence in plain text, each line at most `width` characters (60 or more)."""
    heads = ("claim", "verdict", "evidence")
    name_width = max(len(text) for text in (heads[0], *(claim.name for claim in record.claims)))
    verdict_width = max(len(text) for text in (heads[1], *Verdict))
    indent = " " * (name_width + verdict_width + 4)
    room = max(width, TABLE_WIDTH_MIN) - len(indent)
    lines = [f"{heads[0]:<{name_width}}  {heads[1]:<{verdict_width}}  {heads[2]}"]
    lines.append(f"{'-' * name_width}  {'-' * verdict_width}  {'-' * min(room, 40)}")
    for claim in record.claims:
        first, *rest = textwrap.wrap(claim.evidence, room) or [""]
        lines.append(f"{claim.name:<{name_width}}  {claim.verdict:<{verdict_width}}  {first}".rstrip())
        lines += [indent + line for line in rest]
    return "\n".join(lines)


def _interval(improvement: Improvement) -> dict[str, float]:
    """Coordinates of the interval's bar, on an axis that shows zero too."""
    low, high = min(0.0, improvement.low), max(0.0, improvement.high)
    room = (high - low) * 0.08 or 1.0
    low, high = low - room, high + room

    def at(value: float) -> float:
        return round((value - low) / (high - low) * INTERVAL_WIDTH, 1)

    return {
        "width": INTERVAL_WIDTH,
        "zero": at(0.0),
        "low": at(improvement.low),
        "high": at(improvement.high),
        "middle": at(improvement.difference),
    }


def _number(value: float | None, digits: int = 0) -> str:
    """Thousands apart; a dash for what was not measured; three digits for a large or tiny value."""
    if value is None:
        return "-"
    if value and not 1e-4 <= abs(value) < 1e12:
        return f"{value:.3g}"
    return f"{value:,.{digits}f}"


def _seconds(value: float | None) -> str:
    """`0.012 s`, `3.4 s`, `2 min 5 s`, `3 h 7 min`."""
    if value is None:
        return "-"
    if value < 60:
        return f"{value:.3f} s" if value < 1 else f"{value:.1f} s"
    minutes, seconds = divmod(round(value), 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _moment(value: str | None) -> str:
    """An ISO time in UTC, to the second; any other text as it is."""
    if value is None:
        return "-"
    try:
        return datetime.fromisoformat(value).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return value
