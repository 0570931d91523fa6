"""Pods that do not start, on a real API server: the server's condition has a reason that says what to do.

The tests take the kubelet's part."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fairlead_api.remedies import remedy
from fairlead_api.v1alpha1.causes import Cause
from operatorworld import Json, World, running
from toolservers import sdk_server

IMAGE: Json = {"image": {"name": "registry.example/demo:1"}}
PACKAGE: Json = {"package": {"registry": "npm", "name": "some-server", "version": "1.2.3"}}
MERGE = "application/merge-patch+json"


def waiting_status(
    reason: str, message: str = "", *, name: str = "server", ended: tuple[int, str] | None = None
) -> Json:
    """Status of a waiting container, with its previous end: exit code and last output."""
    last = {"terminated": {"exitCode": ended[0], "message": ended[1]}} if ended is not None else {}
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}, "lastState": last}


def of_server(container: Json) -> Json:
    return {"containerStatuses": [container]}


def of_installation(code: int, words: str) -> Json:
    return {"initContainerStatuses": [waiting_status("CrashLoopBackOff", name="install", ended=(code, words))]}


WANTS_ROOT = waiting_status("CreateContainerConfigError", "container has runAsNonRoot and image will run as root")
NO_PROGRAM = waiting_status("RunContainerError", "exec: executable file not found in $PATH")
NO_NODE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
CRASHES = waiting_status("CrashLoopBackOff", ended=(3, "no config"))
SYMPTOMS: dict[str, tuple[Json, Json, str, str]] = {
    "no such image": (
        IMAGE,
        of_server(waiting_status("ImagePullBackOff", "not found: demo:1")),
        "ImagePullFailed",
        "demo:1",
    ),
    "a registry of packages that is away": (
        PACKAGE,
        of_installation(75, "no route"),
        "RegistryUnreachable",
        "no route",
    ),
    "a package that is not there": (PACKAGE, of_installation(1, "E404"), "InstallFailed", "E404"),
    "a server that crashes": (IMAGE, of_server(CRASHES), "CrashLooping", "exit code 3: no config"),
    "a server that wants to be root": (IMAGE, of_server(WANTS_ROOT), "RunAsRootRefused", "runAsUser: 0"),
    "a command that is not there": (IMAGE, of_server(NO_PROGRAM), "CommandNotFound", "executable file not found"),
    "no node that takes it": (IMAGE, {"conditions": [NO_NODE]}, "Unschedulable", "0/1 nodes"),
}


def add_pod(world: World, name: str, status: Json) -> None:
    """Create a pod as the Deployment's controller does, with a status as a kubelet reports it."""
    deployment = world.get(world.path("deployments", name))
    assert deployment is not None
    template = deployment["spec"]["template"]
    metadata = {"name": f"{name}-pod", "labels": template["metadata"]["labels"]}
    code, answer = world.request("POST", world.path("pods"), {"metadata": metadata, "spec": template["spec"]})
    assert code == 201, answer
    defaults = {"image": "x", "imageID": "", "ready": False, "restartCount": 3}
    lists = {
        field: [{**defaults, **container} for container in value] if field.endswith("Statuses") else value
        for field, value in status.items()
    }
    path = f"{world.path('pods', name + '-pod')}/status"
    code, answer = world.request("PATCH", path, {"status": {"phase": "Pending", **lists}}, content_type=MERGE)
    assert code == 200, answer


async def test_a_port_where_nothing_listens_is_told_while_the_container_runs(world: World) -> None:
    """A kubelet does not report this. Without `closed_port`, the server would stay Deploying for the Deployment's 10
    minutes."""
    async with running(world, lease_seconds=30.0):
        world.create("demo", {"image": {"name": "registry.example/demo:1", "port": 9999}})
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
        started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        add_pod(world, "demo", of_server({"name": "server", "state": {"running": {"startedAt": started}}}))
        await world.until("Silent", lambda: world.is_("demo", "Ready", "Unknown", "Silent"), seconds=20)
        assert "nothing listens at port 9999" in world.condition("demo", "Programmed")["message"]


async def test_a_port_where_nothing_listens_is_told_while_pods_of_the_spec_before_serve(world: World) -> None:
    """The Deployment says nothing of it for 10 minutes, and the next discovery is as far away."""
    async with sdk_server() as url, running(world, lease_seconds=30.0):
        world.hosts.ports[f"demo.{world.namespace}.svc"] = int(url.rsplit(":", 1)[1].split("/", maxsplit=1)[0])
        world.create("demo", IMAGE)
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
        world.pods_are("demo", 1)
        await world.until("Ready", lambda: world.is_("demo", "Ready", "True"))
        world.pods_are("demo", 1, old=1)
        started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        add_pod(world, "demo", of_server({"name": "server", "state": {"running": {"startedAt": started}}}))
        await world.until("told", lambda: world.is_("demo", "PartiallyInvalid", "True", "PodsMissing"), seconds=20)
        assert "nothing listens at port 8080" in world.condition("demo", "PartiallyInvalid")["message"]
        assert world.is_("demo", "Ready", "True")


async def test_a_warning_event_about_a_pod_becomes_its_servers_condition(world: World) -> None:
    """The event is one of a kubelet for `memory: 64m`, a limit of 64 thousandths of a byte with which no sandbox
    starts."""
    async with running(world, lease_seconds=30.0):
        world.create("demo", IMAGE)
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
        add_pod(world, "demo", of_server(waiting_status("ContainerCreating")))
        pod = world.get(world.path("pods", "demo-pod"))
        assert pod is not None
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        about = {"kind": "Pod", **{name: pod["metadata"][name] for name in ("namespace", "name", "uid")}}
        event: Json = {
            "metadata": {"name": "demo-pod.1"},
            "type": "Warning",
            "involvedObject": about,
            "reason": "FailedCreatePodSandBox",
            "message": "container init was OOM-killed (memory limit too low?)",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": "kubelet"},
        }
        code, answer = world.request("POST", world.path("events"), event)
        assert code == 201, answer
        await world.until("PodWarning", lambda: world.is_("demo", "Ready", "Unknown", "PodWarning"), seconds=20)
        message = world.condition("demo", "Programmed")["message"]
    assert "(FailedCreatePodSandBox): container init was OOM-killed (memory limit too low?); raise memory" in message


@pytest.mark.parametrize("case", SYMPTOMS)
async def test_a_pod_that_does_not_come_up_is_explained_with_what_to_do(world: World, case: str) -> None:
    spec, status, reason, words = SYMPTOMS[case]
    async with running(world, lease_seconds=30.0):
        world.create("demo", spec)
        await world.until("a Deployment", lambda: world.get(world.path("deployments", "demo")))
        add_pod(world, "demo", status)
        await world.until(reason, lambda: world.is_("demo", "Ready", "False", reason), seconds=20)
        message = world.condition("demo", "Programmed")["message"]
    assert words in message
    assert message.endswith(remedy(Cause(reason), "cluster", names={"NAMESPACE": world.namespace, "NAME": "demo"}))
