"""Symptoms in the pods of a server that is not available."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairlead_api.meta import LABEL_NAME, ServerKey
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_operator.condition_assembly import conditions
from fairlead_operator.kube.platform import endpoint_of
from fairlead_operator.kube.pods import MOST_WARNINGS, Pods
from fairlead_operator.ports import ConditionVerdict
from fairlead_operator.server.deployment_status import NO_POD, add_symptom
from fairlead_operator.server.symptoms import closed_port, symptom
from operatorfakes import mcp_server

Json = dict[str, Any]


def pod(*containers: Json, init: list[Json] | None = None, conditions: list[Json] | None = None) -> Json:
    status = {
        "containerStatuses": list(containers),
        "initContainerStatuses": init or [],
        "conditions": conditions or [],
    }
    return {"metadata": {}, "status": status}


def waiting_container(why: str, text: str = "", /, name: str = "server", **last: Any) -> Json:
    status: Json = {"name": name, "state": {"waiting": {"reason": why, "message": text}}, "restartCount": 1}
    return {**status, "lastState": {"terminated": last}} if last else status


def ended_container(code: int, message: str = "", name: str = "server") -> Json:
    return {"name": name, "state": {"terminated": {"exitCode": code, "message": message}}}


ROOT = 'container has runAsNonRoot and image will run as root (pod: "x")'

RUNS_AGAIN: Json = {
    "name": "server",
    "restartCount": 2,
    "state": {"running": {}},
    "lastState": {"terminated": {"exitCode": 0, "reason": "Completed"}},
}
"""A container that has ended twice without an error and runs again."""
NODE = "npm warn x\nError: KEY is not set\n    at f (/srv/a.js:1:2)\n\nNode.js v20.20.2\n"


@pytest.mark.parametrize(
    ("seen", "reason", "words"),
    [
        (pod(waiting_container("ImagePullBackOff", "not found")), "ImagePullFailed", "not found"),
        (pod(waiting_container("CreateContainerConfigError", ROOT)), "RunAsRootRefused", "runAsUser: 0"),
        (pod(waiting_container("CreateContainerConfigError", "secret gone")), "DeploymentFailed", "secret gone"),
        (
            pod(waiting_container("RunContainerError", "exec: x: executable file not found in $PATH")),
            "CommandNotFound",
            "x",
        ),
        (
            pod(waiting_container("CrashLoopBackOff", exitCode=3, message="no config")),
            "CrashLooping",
            "code 3: no config",
        ),
        (
            pod(waiting_container("CrashLoopBackOff", exitCode=1, message=NODE)),
            "CrashLooping",
            "code 1: Error: KEY is not set",
        ),
        (
            pod(waiting_container("CrashLoopBackOff", exitCode=1, message="must be run as root")),
            "RunAsRootRefused",
            "runAsUser",
        ),
        (
            pod(waiting_container("CrashLoopBackOff", exitCode=1, message="EACCES: /etc/x")),
            "RunAsRootRefused",
            "unprivileged user",
        ),
        (
            pod(waiting_container("CrashLoopBackOff", exitCode=137, reason="OOMKilled")),
            "CrashLooping",
            "raise its memory",
        ),
        (
            pod({**ended_container(0), "restartCount": 1}),
            "CrashLooping",
            "code 0: it printed nothing. A stdio server ends like this",
        ),
        (pod(RUNS_AGAIN), "CrashLooping", "set spec.image.transport to stdio"),
        (pod(init=[ended_container(75, "no network connection", "install")]), "RegistryUnreachable", "no network"),
        (pod(init=[ended_container(1, "npm has no x@1", "install")]), "InstallFailed", "npm has no x@1"),
        (
            pod(init=[waiting_container("CrashLoopBackOff", name="install", exitCode=137, reason="OOMKilled")]),
            "InstallFailed",
            "more memory than spec.resources.limits allows",
        ),
        (
            pod(init=[waiting_container("CrashLoopBackOff", name="install", exitCode=75, message="m")]),
            "RegistryUnreachable",
            "m",
        ),
        (pod(init=[{"name": "install", "state": {"running": {}}}]), "Installing", "being installed"),
    ],
)
def test_a_pod_that_does_not_serve_is_explained(seen: Json, reason: str, words: str) -> None:
    diagnosis = symptom(seen)
    assert diagnosis is not None
    assert diagnosis.cause == reason
    assert words in diagnosis.message


STARTED_IN_VAIN = [
    ('exec: "nosuch": executable file not found in $PATH: unknown', "CommandNotFound"),
    ("mkdir /app: permission denied: unknown", "RunAsRootRefused"),
    ("setns process caused: out of range: unknown", "DeploymentFailed"),
]


@pytest.mark.parametrize("reason", ["StartError", "ContainerCannotRun"])
@pytest.mark.parametrize(("message", "cause"), STARTED_IN_VAIN)
def test_a_container_that_cannot_start_has_one_cause_however_often_it_was_tried(
    message: str, cause: str, reason: str
) -> None:
    message = f"failed to create containerd task: {message}"
    last: Json = {"exitCode": 128, "reason": reason, "message": message}
    tries = [
        pod(waiting_container("RunContainerError", message)),
        pod(waiting_container("CrashLoopBackOff", "back-off 10s restarting failed container", **last)),
        pod({"name": "server", "restartCount": 2, "state": {"terminated": last}}),
    ]
    first, *later = [symptom(each) for each in tries]
    assert first is not None
    assert (first.cause, message in first.message) == (cause, True)
    assert later == [first, first]


RUNNING: Json = {"name": "server", "ready": False, "state": {"running": {"startedAt": "2026-11-20T12:00:00Z"}}}
PROBED: Json = {"name": "server", "ports": [{"containerPort": 9999}], "readinessProbe": {"tcpSocket": {"port": "mcp"}}}


@pytest.mark.parametrize(
    ("status", "spec", "port"),
    [
        (RUNNING, PROBED, 9999),
        ({**RUNNING, "ready": True}, PROBED, None),
        (waiting_container("ContainerCreating"), PROBED, None),
        (RUNNING, {**PROBED, "readinessProbe": {"httpGet": {"path": "/healthz"}}}, None),
        (RUNNING, {**PROBED, "startupProbe": {"tcpSocket": {"port": "mcp"}}}, None),
    ],
    ids=["closed", "open", "not started", "another probe", "slow by its own word"],
)
def test_a_port_is_closed_where_a_server_runs_and_its_probe_of_the_port_fails(
    status: Json, spec: Json, port: int | None
) -> None:
    closed = closed_port({**pod(status), "spec": {"containers": [spec]}})
    assert (None if closed is None else closed.port) == port


@pytest.mark.parametrize(
    ("address", "advice"),
    [("fd00:10:244::7", "listen on ::, as its pod has an IPv6 address"), ("10.244.0.7", "listen on all interfaces")],
)
def test_a_closed_port_of_a_pod_with_an_ipv6_address_is_told_with_that_family(address: str, advice: str) -> None:
    given = pod(RUNNING)
    closed = closed_port({**given, "status": {**given["status"], "podIP": address}, "spec": {"containers": [PROBED]}})
    assert closed is not None
    assert advice in closed.symptom.message


def test_a_closed_port_is_a_fault_only_after_seconds_and_an_hour_of_another_clock_changes_nothing() -> None:
    clock = [datetime(2026, 11, 20, 12, 0, 1, tzinfo=UTC)]
    pods = Pods(lambda key: None, lambda: clock[0])
    key = ServerKey("team", "demo")
    metadata = {
        "namespace": "team",
        "name": "demo-1",
        "uid": "u",
        "resourceVersion": "1",
        "labels": {LABEL_NAME: "demo"},
    }
    pods.store.put({**pod(RUNNING), "metadata": metadata, "spec": {"containers": [PROBED]}})
    assert (pods.symptom(key), pods.seconds_until_fault(key)) == (None, 7.0)
    clock[0] += timedelta(hours=-1)
    assert (pods.symptom(key), pods.seconds_until_fault(key)) == (None, 8.0)
    clock[0] += timedelta(hours=1, seconds=7)
    late = pods.symptom(key)
    assert late is not None
    assert (late.cause, late.needs_change, pods.seconds_until_fault(key)) == ("Silent", False, None)


NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
DEMO = ServerKey("team", "demo")


def event(reason: str, note: str, at: str = "2026-11-20T12:00:05Z", **more: Any) -> Json:
    """Warning event about the pod demo-1, as a kubelet posts it."""
    about = {"kind": "Pod", "namespace": "team", "name": "demo-1", "uid": "u"}
    times = {"deprecatedFirstTimestamp": at, "deprecatedLastTimestamp": at}
    return {"metadata": {}, "type": "Warning", "regarding": about, "reason": reason, "note": note, **times, **more}


def pods_with(given: Json, *events: Json, enqueued: list[ServerKey] | None = None, seconds: float = 60.0) -> Pods:
    """A store with the pod demo-1 and events about it, at `seconds` after noon."""
    enqueued = [] if enqueued is None else enqueued
    pods = Pods(enqueued.append, lambda: NOON + timedelta(seconds=seconds))
    labels = {LABEL_NAME: "demo"}
    metadata = {"namespace": "team", "name": "demo-1", "uid": "u", "resourceVersion": "1", "labels": labels}
    pods.store.put({**given, "metadata": metadata})
    for each in events:
        pods.warnings.update(each)
    return pods


SANDBOX = "Failed to create pod sandbox: container init was OOM-killed (memory limit too low?)"
PROBE = "Readiness probe failed: HTTP probe failed with statuscode: 503"
STARTUP = "Startup probe failed: HTTP probe failed with statuscode: 503"
MOUNT = 'MountVolume.SetUp failed for volume "models": configmap "models" not found'


@pytest.mark.parametrize(
    ("seen", "told", "cause", "words"),
    [
        (
            pod(waiting_container("ContainerCreating")),
            event("FailedCreatePodSandBox", SANDBOX),
            "PodWarning",
            "raise memory in",
        ),
        (
            pod(waiting_container("ContainerCreating")),
            event("FailedMount", MOUNT),
            "PodWarning",
            "(FailedMount): MountVolume",
        ),
        (
            pod(waiting_container("ContainerCreating")),
            event("Failed", "Error: EOF"),
            "PodWarning",
            "(Failed): Error: EOF",
        ),
        (pod(RUNNING), event("Unhealthy", PROBE), "ProbeFailed", PROBE),
        (pod(RUNNING), event("Unhealthy", STARTUP), "ProbeFailed", STARTUP),
        (pod(RUNNING), event("Anything", "of a later release"), "PodWarning", "(Anything): of a later release"),
    ],
)
def test_a_warning_about_a_pod_that_is_not_ready_becomes_a_symptom_after_seconds(
    seen: Json, told: Json, cause: str, words: str
) -> None:
    early = pods_with(seen, told, seconds=6)
    assert (early.symptom(DEMO), early.seconds_until_fault(DEMO)) == (None, 7.0)
    late = pods_with(seen, told, seconds=13).symptom(DEMO)
    assert late is not None
    assert (late.cause, late.needs_change) == (cause, False)
    assert words in late.message


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (pod(RUNNING, conditions=[{"type": "Ready", "status": "True"}]), event("Unhealthy", PROBE)),
        (pod(RUNNING), event("FailedMount", MOUNT, at="2026-11-20T11:59:00Z")),
        (pod(waiting_container("ContainerCreating")), event("FailedScheduling", "0/1 nodes are available")),
        (pod(waiting_container("ContainerCreating")), event("DNSConfigForming", "Nameserver limits were exceeded")),
        (pod(waiting_container("ContainerCreating")), event("Pulled", "done", type="Normal")),
        (
            pod(waiting_container("ContainerCreating")),
            event("FailedMount", MOUNT, regarding={"kind": "Node", "name": "demo-1"}),
        ),
        (
            pod(waiting_container("ContainerCreating")),
            event(
                "FailedMount",
                MOUNT,
                regarding={"kind": "Pod", "namespace": "team", "name": "demo-1", "uid": "of one that was deleted"},
            ),
        ),
    ],
    ids=["ready", "started since", "no node", "name servers", "normal", "a node", "another pod of its name"],
)
def test_a_warning_that_does_not_keep_a_pod_from_being_ready_is_not_a_symptom(seen: Json, told: Json) -> None:
    assert pods_with(seen, told).symptom(DEMO) is None


def test_a_fault_in_the_status_of_a_pod_comes_before_a_warning_about_it() -> None:
    diagnosis = pods_with(
        pod(waiting_container("ImagePullBackOff", "not found")), event("Failed", "Error: ErrImagePull")
    ).symptom(DEMO)
    assert diagnosis is not None
    assert diagnosis.cause == "ImagePullFailed"


def test_a_server_that_the_kubelet_ends_for_a_probe_is_told_with_the_probe() -> None:
    crashed = waiting_container("CrashLoopBackOff", exitCode=143, message="bye")
    diagnosis = pods_with(pod(crashed), event("Unhealthy", "Liveness probe failed: timeout")).symptom(DEMO)
    assert diagnosis is not None
    assert (
        diagnosis.message
        == "the container ended with exit code 143: bye; Kubernetes ended it: Liveness probe failed: timeout"
    )


def test_tries_that_differ_in_ids_and_counts_alone_are_one_warning() -> None:
    enqueued: list[ServerKey] = []
    notes = [f'sandbox "{digit * 16}" of attempt {digit} failed' for digit in "123"]
    pods = pods_with(
        pod(waiting_container("ContainerCreating")),
        *(event("FailedCreatePodSandBox", note) for note in notes),
        enqueued=enqueued,
    )
    diagnosis = pods.symptom(DEMO)
    assert diagnosis is not None
    assert notes[0] in diagnosis.message
    assert enqueued == [DEMO]


def pod_of(template: str, name: str, second: int, given: Json, **more: Any) -> Json:
    """A pod of DEMO made from the template with that hash, `second` seconds after noon."""
    labels = {LABEL_NAME: "demo", "pod-template-hash": template}
    created = f"2026-11-20T12:00:{second:02}Z"
    metadata = {"namespace": "team", "name": name, "uid": name, "resourceVersion": "1", "labels": labels, **more}
    return {**given, "metadata": {**metadata, "creationTimestamp": created}}


CRASHED = pod(waiting_container("CrashLoopBackOff", exitCode=1, message="no module mcp"))


def test_the_fault_of_a_pod_of_an_earlier_spec_is_not_told_while_a_pod_of_the_present_one_is_there() -> None:
    clock = [NOON + timedelta(seconds=5)]
    pods = Pods(lambda key: None, lambda: clock[0])
    pods.store.put(pod_of("old", "demo-old-1", 0, CRASHED))
    before = pods.symptom(DEMO)
    assert before is not None
    assert before.cause == "CrashLooping"
    pods.store.put(pod_of("new", "demo-new-1", 3, {**pod(RUNNING), "spec": {"containers": [PROBED]}}))
    assert pods.symptom(DEMO) is None
    clock[0] += timedelta(seconds=60)
    after = pods.symptom(DEMO)
    assert after is not None
    assert after.cause == "Silent"


def test_after_a_change_is_taken_back_the_pod_that_stays_tells_its_fault_and_not_the_one_that_ends() -> None:
    pods = Pods(lambda key: None, lambda: NOON)
    pods.store.put(pod_of("old", "demo-old-1", 0, CRASHED))
    ending = pod(waiting_container("ImagePullBackOff", "not found"))
    pods.store.put(pod_of("new", "demo-new-1", 20, ending, deletionTimestamp="2026-11-20T12:00:50Z"))
    fault = pods.symptom(DEMO)
    assert fault is not None
    assert fault.cause == "CrashLooping"


def test_of_several_pods_of_the_present_spec_any_may_tell_the_fault() -> None:
    pods = Pods(lambda key: None, lambda: NOON)
    pods.store.put(pod_of("new", "demo-new-1", 0, CRASHED))
    pods.store.put(pod_of("new", "demo-new-2", 20, pod(RUNNING)))
    fault = pods.symptom(DEMO)
    assert fault is not None
    assert fault.cause == "CrashLooping"


def ready_pod(template: str, name: str, port: int, **more: Any) -> Json:
    container = {"name": "server", "ports": [{"name": "mcp", "containerPort": port}]}
    given = pod(RUNNING, conditions=[{"type": "Ready", "status": "True"}])
    return pod_of(template, name, 0, {**given, "spec": {"containers": [container]}}, **more)


def test_a_server_whose_port_changes_is_reached_at_the_old_one_until_a_pod_of_the_new_spec_is_ready() -> None:
    pods = Pods(lambda key: None, lambda: NOON)
    server = mcp_server(image={"name": "demo:2", "port": 9000})
    assert pods.serving_port(server) == 9000
    pods.store.put(ready_pod("old", "demo-old-1", 8080))
    pods.store.put(pod_of("new", "demo-new-1", 20, pod(RUNNING)))
    assert pods.serving_port(server) == 8080
    pods.store.put(ready_pod("new", "demo-new-1", 9000, resourceVersion="2"))
    assert pods.serving_port(server) == 9000
    assert getattr(endpoint_of(server, 8080), "url", None) == "http://demo.team.svc:8080/mcp"


def test_a_server_is_not_asked_at_the_port_of_a_pod_that_is_being_deleted() -> None:
    pods = Pods(lambda key: None, lambda: NOON)
    pods.store.put(ready_pod("old", "demo-old-1", 8080, deletionTimestamp="2026-11-20T12:00:50Z"))
    assert pods.serving_port(mcp_server(image={"name": "demo:2", "port": 9000})) == 9000


def test_warnings_about_pods_are_bounded_and_the_latest_stay() -> None:
    pods = Pods(lambda key: None)
    for number in range(MOST_WARNINGS + 10):
        about = {"kind": "Pod", "namespace": "team", "name": f"pod-{number}", "uid": "u"}
        pods.warnings.update(event("FailedMount", MOUNT, regarding=about))
    assert len(pods.warnings) == MOST_WARNINGS
    assert pods.warnings.last_warning(ServerKey("team", f"pod-{MOST_WARNINGS + 9}"), "u") is not None
    assert pods.warnings.last_warning(ServerKey("team", "pod-0"), "u") is None


def test_a_probe_that_fails_beyond_the_deadline_of_the_deployment_is_told_with_it() -> None:
    probe = pods_with(pod(RUNNING), event("Unhealthy", PROBE)).symptom(DEMO)
    verdict, _ = add_symptom(ConditionVerdict(False, Cause.DEPLOYMENT_FAILED, "no pod in time"), None, probe)
    assert (verdict.ok, verdict.cause) == (False, Cause.DEPLOYMENT_FAILED)
    assert verdict.message.endswith(PROBE)


PREEMPTION = " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
NO_CLAIMS = f" no new claims to deallocate,{PREEMPTION}"
NO_STATE = " not found"
"""Container status in Kubernetes 1.36 of a pod whose volume is missing."""


@pytest.mark.parametrize(
    ("nodes", "cause"),
    [
        (
            "1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 2 Insufficient cpu.",
            "Unschedulable",
        ),
        ("3 Too many pods.", "Unschedulable"),
        ('persistentvolumeclaim "models" not found.', "VolumeUnavailable"),
        ("pod has unbound immediate PersistentVolumeClaims.", "VolumeUnavailable"),
        ("3 node(s) didn't find available persistent volumes to bind.", "VolumeUnavailable"),
        ("1 Insufficient cpu, 2 node(s) had volume node affinity conflict.", "Unschedulable"),
        ("3 node(s) had volume node affinity conflict.", "VolumeUnavailable"),
        ("3 node(s) didn't match Pod's node affinity/selector.", "NodesExcluded"),
        ("3 node(s) had untolerated taint {gpu: true}.", "NodesExcluded"),
        ("3 node(s) were unschedulable.", "NodesExcluded"),
        ("something that no scheduler says today.", "Unschedulable"),
    ],
)
@pytest.mark.parametrize("attempt", ["", PREEMPTION, NO_CLAIMS, NO_STATE])
def test_a_pod_without_a_node_is_advised_by_what_the_scheduler_says_of_the_nodes(
    nodes: str, cause: str, attempt: str
) -> None:
    message = f"0/3 nodes are available: {nodes}{attempt}"
    diagnosis = symptom(pod(conditions=[{"type": "PodScheduled", "reason": "Unschedulable", "message": message}]))
    assert diagnosis is not None
    assert diagnosis.cause == cause
    assert diagnosis.message == f"no node accepts the server's pod: 0/3 nodes are available: {nodes}"


@pytest.mark.parametrize(
    "seen",
    [
        pod(),
        pod(waiting_container("ContainerCreating")),
        pod(waiting_container("PodInitializing"), init=[ended_container(0, name="install")]),
        {
            **pod(waiting_container("CrashLoopBackOff", exitCode=1)),
            "metadata": {"deletionTimestamp": "2026-11-20T12:00:00Z"},
        },
        pod({"name": "server", "state": {"running": {}}}, conditions=[{"type": "Ready", "status": "True"}]),
    ],
    ids=["new", "creating", "installed", "being deleted", "ready"],
)
def test_a_pod_on_its_way_is_not_blamed(seen: Json) -> None:
    assert symptom(seen) is None


def test_the_symptom_of_a_pod_becomes_the_verdict_unless_another_pod_serves() -> None:
    diagnosis = symptom(pod(waiting_container("ImagePullBackOff", "not found")))
    deploying = ConditionVerdict(None, Cause.DEPLOYING, "no pod yet")
    up = ConditionVerdict(True, Cause.PROGRAMMED, "its pods are up")
    verdict, _ = add_symptom(deploying, None, diagnosis)
    assert (verdict.ok, verdict.cause) == (False, "ImagePullFailed")
    assert add_symptom(up, None, diagnosis) == (up, None)
    _, down = add_symptom(up, NO_POD, diagnosis)
    assert down is not None
    assert (down.cause, "not found" in down.message) == ("Unreachable", True)
    installing = symptom(pod(init=[{"name": "install", "state": {"running": {}}}]))
    assert add_symptom(deploying, None, installing)[0].ok is None


def test_the_advice_about_a_server_without_pods_is_about_what_ails_its_pods() -> None:
    """The address is right, and the network is not to blame."""

    def advice(down: ConditionVerdict | None) -> str:
        assert down is not None
        judged = conditions({ConditionType.VERIFIED: down}, [], 1, datetime(2026, 1, 1, tzinfo=UTC))
        return judged[0].message

    up = ConditionVerdict(True, Cause.PROGRAMMED, "its pods are up")
    _, down = add_symptom(up, NO_POD, symptom(pod(waiting_container("ImagePullBackOff", "not found"))))
    assert "Check name, tag and registry" in advice(down)
    assert advice(NO_POD).endswith("Look at the events and the pods of the server's Deployment.")
