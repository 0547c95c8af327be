"""Geometry of the loss chart: where each line, point, tick and label of the report's SVG goes. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workload.record import Attempt, EvaluationSummary, Record, SeriesPoint

WIDTH, HEIGHT = 920, 380
LEFT, RIGHT, BOTTOM = 58, 22, 46
LABEL_ROW = 17  # each restart has its label in a row of its own, above the plot
POINTS_MAX = 1200  # of one line; the rest can't be told apart on a screen


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Line:
    """The steps of one attempt. `cut` is where an attempt ended that did not complete."""

    attempt: int
    points: str
    label: str
    cut: tuple[float, float] | None


@dataclass(frozen=True)
class Mark:
    """A point or a vertical line with its label; `anchor` is SVG's text-anchor."""

    x: float
    y: float
    label: str
    anchor: str


@dataclass(frozen=True)
class LossChart:
    width: int
    height: int
    left: float
    right: float
    top: float
    bottom: float
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[Line, ...]
    restarts: tuple[Mark, ...]
    held_out: tuple[Mark, ...]


@dataclass(frozen=True)
class _Scale:
    """From a value to a coordinate."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start), 1)


def loss_chart(record: Record) -> LossChart | None:
    """None when no step and no evaluation reached the record."""
    evaluations = [summary for summary in (record.evaluation_before, record.evaluation_after) if summary]
    losses = [point.loss for point in record.series] + [summary.loss for summary in evaluations]
    if not losses:
        return None
    last_step = max([point.step for point in record.series] + [summary.step for summary in evaluations])
    restarts = record.attempts[1:]
    top = 14 + LABEL_ROW * len(restarts)
    y_values = nice_ticks(min(losses), max(losses), 6)
    x_values = [value for value in nice_ticks(0, max(1, last_step), 9) if value == int(value) and value <= max(1, last_step)]
    x = _Scale(0, max(1, last_step), LEFT, WIDTH - RIGHT)
    y = _Scale(y_values[0], y_values[-1], HEIGHT - BOTTOM, top)
    return LossChart(
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=WIDTH - RIGHT,
        top=top,
        bottom=HEIGHT - BOTTOM,
        x_ticks=tuple(Tick(x(value), f"{value:,.0f}") for value in x_values),
        y_ticks=tuple(Tick(y(value), f"{value:g}") for value in y_values),
        lines=_lines(record, x, y),
        restarts=tuple(_restart(attempt, row, x) for row, attempt in enumerate(restarts)),
        held_out=tuple(_held_out(summary, x, y) for summary in evaluations),
    )


def nice_ticks(low: float, high: float, about: int) -> list[float]:
    """Round values that enclose [low, high], in steps of 1, 2 or 5 times a power of ten."""
    if high <= low:
        low, high = low - 0.5, high + 0.5
    raw = (high - low) / about
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(index * step, 10) for index in range(first, last + 1)]


def thinned(points: Sequence[SeriesPoint], limit: int = POINTS_MAX) -> list[SeriesPoint]:
    """At most about `limit` points: of each stretch the lowest and the highest, so that no spike is lost."""
    if len(points) <= limit:
        return list(points)
    size = math.ceil(len(points) / (limit // 2))
    kept: list[SeriesPoint] = []
    for start in range(0, len(points), size):
        stretch = points[start : start + size]
        ends = {min(stretch, key=lambda p: p.loss).step, max(stretch, key=lambda p: p.loss).step}
        kept += [point for point in stretch if point.step in ends]
    return kept


def _lines(record: Record, x: _Scale, y: _Scale) -> tuple[Line, ...]:
    lines = []
    for attempt in record.attempts:
        points = sorted((p for p in record.series if p.attempt == attempt.number), key=lambda p: p.step)
        if not points:
            continue
        last = points[-1]
        path = " ".join(f"{x(point.step)},{y(point.loss)}" for point in thinned(points))
        cut = (x(last.step), y(last.loss)) if attempt.outcome == "interrupted" else None
        label = f"attempt {attempt.number}: steps {points[0].step:,} to {last.step:,}, {attempt.outcome}"
        lines.append(Line(attempt.number, path, label, cut))
    return tuple(lines)


def _restart(attempt: Attempt, row: int, x: _Scale) -> Mark:
    step = attempt.restored.step if attempt.restored else 0
    label = f"attempt {attempt.number} " + (f"resumes after step {step:,}" if attempt.restored else "starts from step 0")
    at = x(step)
    return Mark(at, 14 + LABEL_ROW * row, label, "start" if at < WIDTH * 0.7 else "end")


def _held_out(summary: EvaluationSummary, x: _Scale, y: _Scale) -> Mark:
    at = x(summary.step)
    return Mark(at, y(summary.loss), f"held-out {summary.loss:.3f}", "start" if at < WIDTH / 2 else "end")
