"""`python -m infra watch`: what it says while a job waits and runs, what it survives, and that it ends as `fetch` does."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from infra.__main__ import cli
from infra.commands import fetch, watch
from infra.job_address import JobAddress
from infra.progress_log import news
from tests.infra.fake_cluster import PODS, RAY_JOBS, FakeCluster
from tests.infra.test_fetch import DONE, JOB, exported, put_pulumi_on_path, record
from workload.errors import UserError
from workload.record import Verdict

ROOT = Path(__file__).resolve().parents[2]
INSTANCE = {"app.kubernetes.io/instance": "run-1"}
SUBMITTER = {**INSTANCE, "app.kubernetes.io/component": "submitter"}
RUNNING = {"jobStatus": "RUNNING", "jobDeploymentStatus": "Running", "rayClusterName": "run-1-abcde"}
Step = Callable[[], Any]


@pytest.fixture
def stack(cluster: FakeCluster, kubeconfig_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stack whose job isn't taken up yet, and where its record may go."""
    put_pulumi_on_path(tmp_path / "bin", kubeconfig_file, monkeypatch)
    cluster.add(RAY_JOBS, "run-1", spec=JOB["spec"], status={})
    cluster.new_pods = ("Succeeded", exported(record()))
    return tmp_path / "to"


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What happens between two looks, one step at each pause."""

    def tell(*steps: Step) -> None:
        left = list(steps)

        def pause(_follower: watch.Follower) -> float:
            assert left, "it looks once more than the story is long"
            left.pop(0)()
            return 0.01

        monkeypatch.setattr(watch.Follower, "_pause", pause)

    return tell


def status(cluster: FakeCluster, **found: Any) -> Step:
    return lambda: cluster.objects[f"{RAY_JOBS}/run-1"].update(status=found)


def log(cluster: FakeCluster, *lines: str) -> Step:
    def write() -> None:
        if f"{PODS}/submitter" not in cluster.objects:
            cluster.add(PODS, "submitter", SUBMITTER, status={"phase": "Running"})
        before = cluster.logs.get(f"{PODS}/submitter", "")
        stamped = [f"2026-12-01T10:00:00.{len(before) + index:09d}Z {line}" for index, line in enumerate(lines)]
        cluster.logs[f"{PODS}/submitter"] = before + "".join(f"{line}\n" for line in stamped)

    return write


def both(*steps: Step) -> Step:
    return lambda: [step() for step in steps]


def test_a_job_is_followed_from_waiting_to_its_record(
    stack: Path, cluster: FakeCluster, story: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    step, event = (
        "10:00:0{} attempt 1, training, step {}/60, loss 2.{}",
        "10:00:09 attempt 2 goes on from step 30 (c, 200 tensors)",
    )
    story(
        status(cluster, jobDeploymentStatus="Initializing"),
        both(
            status(cluster, **RUNNING),
            log(cluster, "Job submission server address: x", step.format(1, 1, 9), step.format(2, 2, 8)),
        ),
        log(cluster, step.format(4, 4, 6), event, step.format(6, 6, 4)),
        both(status(cluster, **DONE), log(cluster, "10:00:59 record: /mnt/store/record.json")),
    )

    assert watch.run(Path(), "local", stack) == 0
    said = capsys.readouterr().out
    order = [
        "waiting: the KubeRay operator hasn't taken it up", "waiting: jobDeploymentStatus Initializing",
        "running on RayCluster run-1-abcde", "step 2/60, loss 2.8", "attempt 2 goes on from step 30", "step 6/60, loss 2.4",
        "record: /mnt/store/record.json", "RayJob ns/run-1 has ended", "executed",
    ]  # fmt: skip
    assert [said.index(text) for text in order] == sorted(said.index(text) for text in order)
    assert [text for text in ("step 1/60", "step 4/60", "submission server") if text in said] == []
    assert [said.count(text) for text in ("step 2/60", "attempt 2 goes on", "step 6/60")] == [1, 1, 1]
    assert (stack / "record.json").is_file()


def test_why_pods_wait_is_said_with_the_state(
    stack: Path, cluster: FakeCluster, story: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes: insufficient gpu"}
    cluster.objects[f"{RAY_JOBS}/run-1"]["status"] = {"jobDeploymentStatus": "Initializing"}
    cluster.add(PODS, "run-1-worker", INSTANCE, status={"phase": "Pending", "conditions": [condition]})
    story(status(cluster, **DONE))

    watch.run(Path(), "local", stack)
    said = capsys.readouterr().out
    assert "waiting: jobDeploymentStatus Initializing, jobStatus empty\n  pod run-1-worker: Unschedulable: 0/2 nodes" in said


def test_what_does_not_change_is_said_once_and_again_from_time_to_time(
    stack: Path,
    cluster: FakeCluster,
    story: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster.objects[f"{RAY_JOBS}/run-1"]["status"] = RUNNING
    story(lambda: None, lambda: None, lambda: monkeypatch.setattr(watch, "_REPEAT_SECONDS", -1), status(cluster, **DONE))

    watch.run(Path(), "local", stack)
    assert capsys.readouterr().out.count("running on RayCluster run-1-abcde") == 2


def test_a_new_try_is_said(
    stack: Path, cluster: FakeCluster, story: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.objects[f"{RAY_JOBS}/run-1"]["status"] = RUNNING
    story(status(cluster, **{**RUNNING, "failed": 1, "rayClusterName": "run-1-second"}), status(cluster, **DONE))

    watch.run(Path(), "local", stack)
    assert "running on RayCluster run-1-second, try 2 after 1 that failed" in capsys.readouterr().out


def test_a_short_outage_is_said_and_survived(
    stack: Path, cluster: FakeCluster, story: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.objects[f"{RAY_JOBS}/run-1"]["status"] = RUNNING

    def down(away: bool) -> Step:
        return lambda: setattr(cluster, "refuses", 503 if away else 0)

    story(down(True), lambda: None, down(False), status(cluster, **DONE))

    assert watch.run(Path(), "local", stack) == 0
    said = capsys.readouterr().out
    assert said.count("the cluster doesn't answer") == 1
    assert "the cluster doesn't answer (503 Service Unavailable); the job isn't affected by that. Asking again" in said
    assert "the cluster answers again, after 0 s" in said
    assert said.count("running on RayCluster") == 2


def test_after_an_outage_a_new_connection_is_made_with_new_credentials(
    stack: Path, cluster: FakeCluster, story: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.objects[f"{RAY_JOBS}/run-1"]["status"] = RUNNING
    opened, real = [], JobAddress.open
    monkeypatch.setattr(JobAddress, "open", lambda address: opened.append(1) or real(address))
    story(
        lambda: None,
        lambda: setattr(cluster, "refuses", 503),
        lambda: setattr(cluster, "refuses", 0),
        status(cluster, **DONE),
    )

    watch.run(Path(), "local", stack)
    assert len(opened) == 3  # at first, after the outage, and to fetch


def test_an_outage_that_lasts_is_the_users_to_look_at(
    stack: Path, cluster: FakeCluster, story: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_OUTAGE_SECONDS", 0)
    story(cluster.close, lambda: None)

    with pytest.raises(UserError, match=r"context = here: can't be asked.*Fix: check it with: kubectl --context here -n ns"):
        watch.run(Path(), "local", stack)


def test_a_cluster_that_never_answered_is_not_an_outage(stack: Path, cluster: FakeCluster, story: Callable[..., None]) -> None:
    story()
    cluster.close()

    with pytest.raises(UserError, match="can't be asked"):
        watch.run(Path(), "local", stack)


def test_pauses_grow_while_nobody_answers_and_stay_bounded() -> None:
    follower = watch.Follower(JobAddress("", "", "ns", "run-1"))
    pauses = [follower._pause()]
    follower._outage = watch.Outage(0.0)
    for tries in (1, 2, 3, 9):
        follower._outage.tries = tries
        pauses.append(follower._pause())

    assert pauses == [5, 10, 20, 30, 30]


def test_the_timeout_leaves_the_job_alone_and_exits_3(
    stack: Path, cluster: FakeCluster, story: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    story(*[lambda: None] * 100)

    assert watch.run(Path(), "local", stack, timeout=0.05) == 3
    assert (
        "is not finished after 0.05 s; it goes on. Follow it again: python -m infra watch -s local" in capsys.readouterr().out
    )
    assert cluster.deleted == []


@pytest.mark.parametrize(
    ("made", "end", "code"),
    [
        (record(), DONE, 0),
        (record(Verdict.REFUTED), DONE, 1),
        (
            record(),
            {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed", "reason": "AppFailed", "message": "exit code 2"},
            1,
        ),
    ],
)
def test_it_exits_as_fetch_does(
    stack: Path, cluster: FakeCluster, story: Callable[..., None], capsys: pytest.CaptureFixture[str],
    made: Any, end: dict[str, str], code: int,
) -> None:  # fmt: skip
    cluster.new_pods = ("Succeeded", exported(made))
    story(status(cluster, **end))

    assert watch.run(Path(), "local", stack) == code
    watched = capsys.readouterr()
    assert fetch.run(Path(), "local", stack) == code
    fetched = capsys.readouterr()
    assert watched.out.endswith(fetched.out)
    assert watched.err == fetched.err


def test_a_job_that_is_removed_meanwhile_has_failed(
    stack: Path, cluster: FakeCluster, story: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    story(cluster.objects.clear)

    assert watch.run(Path(), "local", stack) == 1
    assert "is gone: something has removed it" in capsys.readouterr().err


def test_a_job_that_was_never_there_is_a_users_error(stack: Path, cluster: FakeCluster, story: Callable[..., None]) -> None:
    story()
    cluster.objects.clear()

    with pytest.raises(UserError, match="there is no such RayJob"):
        watch.run(Path(), "local", stack)


def test_a_submitter_without_a_log_yet_is_no_error(
    stack: Path, cluster: FakeCluster, story: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.objects[f"{RAY_JOBS}/run-1"]["status"] = RUNNING
    cluster.add(PODS, "submitter", SUBMITTER, status={"phase": "Pending"})
    story(lambda: cluster.objects.pop(f"{PODS}/submitter"), status(cluster, **DONE))

    assert watch.run(Path(), "local", stack) == 0


def test_ctrl_c_ends_the_process_without_a_traceback_and_leaves_the_job_alone(stack: Path, cluster: FakeCluster) -> None:
    command = [sys.executable, "-u", "-m", "infra", "watch", "-s", "local"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=30)

    assert "waiting: the KubeRay operator hasn't taken it up" in first
    assert process.returncode == 3
    assert "stopped watching; RayJob ns/run-1 goes on. Follow it again: python -m infra watch -s local" in rest
    assert errors == ""
    assert cluster.deleted == []


def test_ctrl_c_after_the_end_does_not_say_that_the_job_goes_on(
    stack: Path,
    cluster: FakeCluster,
    story: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(watch, "fetch", interrupted)
    story(status(cluster, **DONE))

    with pytest.raises(KeyboardInterrupt):
        watch.run(Path(), "local", stack)
    assert "goes on" not in capsys.readouterr().out


@pytest.mark.parametrize("timeout", ["0", "-1", "soon"])
def test_a_timeout_is_a_positive_number(timeout: str) -> None:
    assert CliRunner().invoke(cli, ["watch", "-s", "local", "--timeout", timeout]).exit_code == 2


def test_of_lines_that_say_where_it_stands_only_the_newest_is_news() -> None:
    phases = "t1 10:00:01 preparing data ... 3 s\nt2 10:00:02 preparing data ... 4 s\n"
    log_ = f"{phases}t3 Traceback\nt4 10:00:03 attempt 1 ended: killed\n"

    assert news(log_, "").lines == ("10:00:02 preparing data ... 4 s", "10:00:03 attempt 1 ended: killed")
    assert news(log_, "").last == "t4 10:00:03 attempt 1 ended: killed"
    assert news(log_, "t4 10:00:03 attempt 1 ended: killed").lines == ()
    assert news(log_, "t2 10:00:02 preparing data ... 4 s").lines == ("10:00:03 attempt 1 ended: killed",)


def test_a_log_that_went_on_without_us_is_news_as_a_whole() -> None:
    assert news("t9 10:00:09 attempt 1, training, step 9/9\n", "t1 10:00:01 x").lines == (
        "10:00:09 attempt 1, training, step 9/9",
    )
    assert news("", "t1 10:00:01 x").last == "t1 10:00:01 x"
