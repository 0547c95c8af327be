"""What a RayJob's status means."""

from __future__ import annotations

from typing import Any

import pytest

from infra.job_status import Failed, Started, Waiting, judge, pod_troubles


@pytest.mark.case("C038", "C059")
@pytest.mark.parametrize(
    ("job", "deployment", "verdict"),
    [
        ("", "Initializing", Waiting),
        ("", "", Waiting),
        ("PENDING", "Running", Waiting),
        ("RUNNING", "Running", Started),
        ("SUCCEEDED", "Running", Started),
        ("SUCCEEDED", "Complete", Started),
        ("STOPPED", "Complete", Failed),
        ("FAILED", "Failed", Failed),
        ("FAILED", "Retrying", Waiting),
        ("", "ValidationFailed", Failed),
        ("", "Failed", Failed),
        ("RUNNING", "Failed", Failed),
        ("", "Suspended", Waiting),
    ],
)
def test_every_combination_is_one_of_three_things(job: str, deployment: str, verdict: type[Any]) -> None:
    assert type(judge({"jobStatus": job, "jobDeploymentStatus": deployment})) is verdict


@pytest.mark.case("C038")
def test_only_a_job_that_has_succeeded_is_ended_well() -> None:
    assert judge({"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"}) == Started(ended=True)
    assert judge({"jobStatus": "RUNNING", "jobDeploymentStatus": "Running"}) == Started(ended=False)


def test_a_job_that_nobody_took_up_points_at_the_operator() -> None:
    assert "operator" in judge({}).detail


def test_a_failure_says_status_reason_and_the_last_lines() -> None:
    message = "Job entrypoint command failed\n" + "\n".join(f"line {number}" for number in range(40))
    verdict = judge({"jobStatus": "FAILED", "jobDeploymentStatus": "Failed", "reason": "AppFailed", "message": message})

    assert verdict.reason.startswith("FAILED, AppFailed\n  line 25\n")
    assert verdict.reason.endswith("\n  line 39")


def test_a_short_failure_stays_on_one_line() -> None:
    status = {"jobDeploymentStatus": "Failed", "reason": "PreRunningDeadlineExceeded", "message": "too late"}

    assert judge(status) == Failed("Failed, PreRunningDeadlineExceeded: too late")


@pytest.mark.case("C033", "C051")
def test_pods_that_cannot_start_are_named_with_the_reason() -> None:
    pods = [
        {"metadata": {"name": "fine"}, "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}},
        {
            "metadata": {"name": "unplaced"},
            "status": {
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]
            },
        },
        {
            "metadata": {"name": "imageless"},
            "status": {
                "initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}}],
                "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no x"}}}],
            },
        },
        {
            "metadata": {"name": "restarted"},
            "status": {
                "containerStatuses": [
                    {
                        "name": "ray-head",
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}},
                        "lastState": {"terminated": {"exitCode": 127, "reason": "Error"}},
                    }
                ]
            },
        },
        {"metadata": {"name": "new"}},
    ]

    assert pod_troubles(pods) == [
        "pod unplaced: Unschedulable: 0/1 nodes",
        "pod imageless, container c: ImagePullBackOff: no x",
        "pod restarted, container ray-head: CrashLoopBackOff: back-off 20s (it ended with exit code 127, Error)",
    ]
