"""The report: one page that stands alone, says all that the record says, and comes out of a zip as well."""

import math
import re
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import pytest

from workload.loss_chart import POINTS_MAX, loss_chart, nice_ticks, thinned
from workload.record import (
    Attempt,
    Claim,
    ClaimName,
    DataSummary,
    EvaluationSummary,
    Host,
    Improvement,
    Record,
    Restored,
    SeriesPoint,
    Timing,
    Verdict,
)
from workload.report import claims_table, render

ROOT = Path(__file__).resolve().parents[2]
VOID = {"meta", "br", "link", "input", "img", "hr"}
EMPTY = {
    "attempts": (), "series": (), "hosts": (), "data": None, "improvement": None, "claims": (),
    "evaluation_before": None, "evaluation_after": None, "versions": {},
    "timing": Timing(
        step_seconds_median=None, step_seconds_p90=None, tokens_per_second_median=None, save_seconds_median=None,
        save_blocking_seconds_median=None, wall_seconds=1.0,
    ),
}  # fmt: skip


class Page(HTMLParser):
    """Tags in order, the text outside of styles, and whether each tag that opens is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags, self.open, self.words = [], [], []
        self.feed(html)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)


def attempt(number: int, outcome: str, first: int | None, last: int | None, after: int | None) -> Attempt:
    restored = after and Restored(
        checkpoint=f"step-{after:08d}", step=after, position=after * 8, tensors=27, bytes=1000,
        passed_over=("step-00000035: no receipt of rank 1",),
    )  # fmt: skip
    return Attempt(
        number=number, identity="3f", started_at="2026-12-01T12:01:02+00:00", ended_at=None, outcome=outcome,
        restored=restored or None, first_step=first, last_step=last,
    )  # fmt: skip


def point(step: int, number: int, loss: float) -> SeriesPoint:
    return SeriesPoint(step=step, attempt=number, loss=loss, learning_rate=0.1, gradient_norm=1.0, tokens_per_second=1.0)


def evaluation(step: int, loss: float) -> EvaluationSummary:
    return EvaluationSummary(step=step, loss=loss, perplexity=math.exp(loss), sequences=16, tokens=512)


def claim(name: ClaimName, verdict: Verdict, evidence: str) -> Claim:
    return Claim(name=name, verdict=verdict, evidence=evidence, sources=("metrics/attempt-0001",))


@pytest.fixture
def record(config):
    """A run that was killed after step 37 and continued from step 30; call it with changes."""

    def make(**changes) -> Record:
        fields = {
            "schema_version": 1, "run_name": "demo", "identity": "3f9a" + "0" * 60, "lineage": 1,
            "created_at": "2026-12-01T13:03:44.5+01:00", "config": config(), "versions": {"torch": "2.13.0"},
            "hosts": (Host(rank=0, attempt=1, hostname="laptop", node_id="n", pid=77, device="cpu", backend="gloo"),),
            "data": DataSummary(
                source="python-docs", documents=79, held_out_documents=12, train_tokens=129_632, held_out_tokens=7_192,
                duplicates_removed=72, sha256="c" * 64, vocabulary=2048,
            ),
            "attempts": (attempt(1, "interrupted", 1, 37, None), attempt(2, "completed", 31, 80, 30)),
            "evaluation_before": evaluation(0, 7.702), "evaluation_after": evaluation(80, 3.3214),
            "improvement": Improvement(difference=4.381, low=4.19, high=4.55, confidence=0.95, resamples=1000),
            "timing": EMPTY["timing"].model_copy(update={"step_seconds_median": 0.412, "wall_seconds": 162.0}),
            "series": tuple(point(s, n, 8 - s / 20) for n, first, end in ((1, 1, 38), (2, 31, 81)) for s in range(first, end)),
            "claims": (
                claim(ClaimName.EXECUTED, Verdict.PROVEN, "80 of 80 steps"),
                claim(ClaimName.RESUMED, Verdict.REFUTED, "steps 31 to 37 differ"),
                claim(ClaimName.TRANSPORT, Verdict.NOT_TESTED, "one host, so no network was crossed " * 6),
            ),
            "content_sha256": "",
        }  # fmt: skip
        return Record(**fields | changes).sealed()

    return make


def test_the_page_stands_alone(record):
    html = render(record())
    page = Page(html)

    assert page.open == []
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "object"}
    assert not re.search(r"https?://|url\(|@import|src=", html)
    assert all(not name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_a_verdict_is_said_in_words_and_not_by_colour_alone(record):
    page = Page(render(record()))
    verdicts = [
        attributes["class"] for tag, attributes in page.tags if tag == "span" and "verdict" in attributes.get("class", "")
    ]

    assert verdicts == ["verdict proven", "verdict refuted", "verdict not-tested"]
    for words in ("executed \u2713 proven 80 of 80 steps", "\u2717 refuted", "\u2013 not tested"):
        assert words in page.text


@pytest.mark.parametrize(
    "words",
    [
        "identity 3f9a0000", "2026-12-01 12:03:44 UTC", "2 min 42 s", "0.412 s", "attempt 1: steps 1 to 37, interrupted",
        "attempt 2 resumes after step 30", "held-out 7.702", "held-out 3.321", "loss fell by", "4.1900 to 4.5500",
        "95 % interval",
        "passed over: step-00000035: no receipt of rank 1", "129,632 for training", "laptop", "2.13.0", "loss (nats per token)",
        "optimizer step", '"runName": "test"',
    ],
)  # fmt: skip
def test_the_page_says_what_the_record_says(record, words):
    assert words in Page(render(record())).text


def test_text_of_the_record_is_escaped(record):
    nasty = '<script>alert(1)</script> & "quotes"'
    html = render(record(
        claims=(claim(ClaimName.LEARNED, Verdict.PROVEN, nasty),), versions={nasty: nasty}, run_name=nasty,
    ))  # fmt: skip

    assert "<script>" not in html
    assert nasty in Page(html).text


def test_a_run_without_any_evidence_still_has_a_page(record):
    page = Page(render(record(**EMPTY)))

    assert page.open == []
    assert "No step and no evaluation reached the store." in page.text
    assert "No data was prepared." in page.text


def test_a_loss_that_rose_is_said_to_have_risen(record):
    worse = Improvement(difference=-0.5, low=-0.6, high=-0.4, confidence=0.95, resamples=1000)

    assert "loss ROSE by (nats per token) 0.5000" in Page(render(record(improvement=worse))).text


def test_the_page_is_the_same_from_a_zip_on_the_path(record, tmp_path):
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as archive:
        for path in sorted((ROOT / "workload").rglob("*")):
            if path.suffix in {".py", ".j2"}:
                archive.write(path, path.relative_to(ROOT))
    (tmp_path / "record.json").write_text(record().to_json(), encoding="utf-8")
    code = (
        "import pathlib, sys, workload.report; from workload.record import Record\n"
        "assert '.zip' in workload.report.__file__, workload.report.__file__\n"
        "found = Record.model_validate_json(pathlib.Path('record.json').read_bytes())\n"
        "pathlib.Path('report.html').write_text(workload.report.render(found), encoding='utf-8')"
    )
    environment = {"PYTHONPATH": str(tmp_path / "code.zip"), "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, env=environment, check=True)

    assert (tmp_path / "report.html").read_text(encoding="utf-8") == render(record())


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_the_claims_table_keeps_its_width_and_loses_no_word(record, width):
    table = claims_table(record(), width)
    lines = table.splitlines()

    assert max(map(len, lines)) <= width
    assert lines[0].split() == ["claim", "verdict", "evidence"]
    assert re.search(r"^transport +not tested +one host", table, re.MULTILINE)
    assert len(re.findall("crossed", table)) == 6
    assert len({line.index("one host") for line in lines if line.startswith("transport")} | {lines[0].index("evidence")}) == 1


def test_a_claim_without_evidence_has_a_line_and_no_claims_make_an_empty_table(record):
    assert "resumed" in claims_table(record(claims=(claim(ClaimName.RESUMED, Verdict.PROVEN, ""),)))
    assert len(claims_table(record(claims=())).splitlines()) == 2


def test_all_points_lie_inside_the_plot(record):
    chart = loss_chart(record())

    assert [line.attempt for line in chart.lines] == [1, 2]
    for line in chart.lines:
        for pair in line.points.split():
            x, y = map(float, pair.split(","))
            assert chart.left <= x <= chart.right
            assert chart.top <= y <= chart.bottom
    for mark in chart.held_out:
        assert chart.top <= mark.y <= chart.bottom


def test_an_interrupted_attempt_has_its_end_marked_and_a_completed_one_has_not(record):
    first, second = loss_chart(record()).lines

    assert first.cut is not None
    assert second.cut is None


def test_each_restart_has_a_line_at_its_step_and_a_row_for_its_label(record):
    attempts = tuple(attempt(number, "interrupted", 31, 32, 30) for number in (2, 3, 4))
    chart = loss_chart(record(attempts=(attempt(1, "interrupted", 1, 37, None), *attempts)))

    assert len({mark.x for mark in chart.restarts}) == 1
    assert len({mark.y for mark in chart.restarts}) == 3
    assert all(mark.y < chart.top for mark in chart.restarts)


def test_a_single_loss_has_a_chart(record):
    chart = loss_chart(record(**EMPTY | {"evaluation_before": evaluation(0, 5.0)}))

    assert len(chart.held_out) == 1
    assert len(chart.y_ticks) > 1
    assert Page(render(record(**EMPTY | {"evaluation_before": evaluation(0, 5.0)}))).open == []


def test_ticks_are_round_and_enclose_the_values():
    assert nice_ticks(3.1, 7.7, 6) == [3, 4, 5, 6, 7, 8]
    assert nice_ticks(0.0, 0.04, 4) == [0, 0.01, 0.02, 0.03, 0.04]
    for low, high in ((1e-9, 2e-9), (5.0, 5.0), (-3.0, 1e6)):
        ticks = nice_ticks(low, high, 6)
        assert ticks[0] <= low <= high <= ticks[-1]
        assert 2 <= len(ticks) <= 14


def test_a_long_series_is_thinned_without_losing_a_spike():
    points = [point(step, 1, 99.0 if step == 54_321 else 1.0 + step % 7) for step in range(1, 100_001)]
    kept = thinned(points)

    assert len(kept) <= POINTS_MAX
    assert 54_321 in {p.step for p in kept}
    assert [p.step for p in kept] == sorted(p.step for p in kept)
