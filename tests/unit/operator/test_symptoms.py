"""What the pods of a server tell about why it is not up."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_operator.ports import ConditionVerdict
from fairlead_operator.server.symptoms import symptom
from fairlead_operator.server.workload import NO_POD, explained

Json = dict[str, Any]


def pod(*containers: Json, init: list[Json] | None = None, conditions: list[Json] | None = None) -> Json:
    status = {
        "containerStatuses": list(containers),
        "initContainerStatuses": init or [],
        "conditions": conditions or [],
    }
    return {"metadata": {}, "status": status}


def waiting(why: str, text: str = "", /, name: str = "server", **last: Any) -> Json:
    found: Json = {"name": name, "state": {"waiting": {"reason": why, "message": text}}, "restartCount": 1}
    return {**found, "lastState": {"terminated": last}} if last else found


def ended(code: int, message: str = "", name: str = "server") -> Json:
    return {"name": name, "state": {"terminated": {"exitCode": code, "message": message}}}


ROOT = 'container has runAsNonRoot and image will run as root (pod: "x")'

NODE = "npm warn x\nError: KEY is not set\n    at f (/srv/a.js:1:2)\n\nNode.js v20.20.2\n"


@pytest.mark.parametrize(
    ("seen", "reason", "words"),
    [
        (pod(waiting("ImagePullBackOff", "not found")), "ImagePullFailed", "not found"),
        (pod(waiting("CreateContainerConfigError", ROOT)), "RunAsRootRefused", "runAsUser: 0"),
        (pod(waiting("CreateContainerConfigError", "secret gone")), "DeploymentFailed", "secret gone"),
        (pod(waiting("RunContainerError", "exec: x: executable file not found in $PATH")), "CommandNotFound", "x"),
        (pod(waiting("CrashLoopBackOff", exitCode=3, message="no config")), "CrashLooping", "code 3: no config"),
        (pod(waiting("CrashLoopBackOff", exitCode=1, message=NODE)), "CrashLooping", "code 1: Error: KEY is not set"),
        (pod(waiting("CrashLoopBackOff", exitCode=1, message="must be run as root")), "RunAsRootRefused", "runAsUser"),
        (pod(waiting("CrashLoopBackOff", exitCode=1, message="EACCES: /etc/x")), "RunAsRootRefused", "ordinary user"),
        (pod(waiting("CrashLoopBackOff", exitCode=137, reason="OOMKilled")), "CrashLooping", "memory"),
        (pod(init=[ended(75, "no network connection", "install")]), "RegistryUnreachable", "no network"),
        (pod(init=[ended(1, "npm has no x@1", "install")]), "InstallFailed", "npm has no x@1"),
        (pod(init=[waiting("CrashLoopBackOff", name="install", exitCode=75, message="m")]), "RegistryUnreachable", "m"),
        (pod(init=[{"name": "install", "state": {"running": {}}}]), "Installing", "being installed"),
        (
            pod(conditions=[{"type": "PodScheduled", "reason": "Unschedulable", "message": "0/1 nodes"}]),
            "Unschedulable",
            "0/1 nodes",
        ),
    ],
)
def test_a_pod_that_does_not_serve_is_explained(seen: Json, reason: str, words: str) -> None:
    found = symptom(seen)
    assert found is not None
    assert found.reason == reason
    assert words in found.message


@pytest.mark.parametrize(
    "seen",
    [
        pod(),
        pod(waiting("ContainerCreating")),
        pod(waiting("PodInitializing"), init=[ended(0, name="install")]),
        {**pod(waiting("CrashLoopBackOff", exitCode=1)), "metadata": {"deletionTimestamp": "2026-11-20T12:00:00Z"}},
        pod({"name": "server", "state": {"running": {}}}, conditions=[{"type": "Ready", "status": "True"}]),
    ],
    ids=["new", "creating", "installed", "being deleted", "ready"],
)
def test_a_pod_on_its_way_is_not_blamed(seen: Json) -> None:
    assert symptom(seen) is None


def test_what_a_pod_tells_becomes_the_verdict_unless_another_pod_serves() -> None:
    found = symptom(pod(waiting("ImagePullBackOff", "not found")))
    deploying, up = (
        ConditionVerdict(None, "Deploying", "no pod yet"),
        ConditionVerdict(True, "Programmed", "its pods are up"),
    )
    verdict, _ = explained(deploying, None, found)
    assert (verdict.ok, verdict.reason) == (False, "ImagePullFailed")
    assert explained(up, None, found) == (up, None)
    _, down = explained(up, NO_POD, found)
    assert down is not None
    assert (down.reason, "not found" in down.message) == ("Unreachable", True)
    installing = symptom(pod(init=[{"name": "install", "state": {"running": {}}}]))
    assert explained(deploying, None, installing)[0].ok is None
