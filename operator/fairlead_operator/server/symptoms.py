"""Finds out from the status of a server's pod why the pod does not serve. Pure.

The status of a Deployment only says that no pod is available; the reason is in the status of the pods.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from fairlead_api.v1alpha1.causes import Cause
from fairlead_mcp.diagnosis import diagnosis
from fairlead_mcp.printed import printable
from fairlead_operator.server.kube_manifests import CONTAINER, INSTALL, PORT_NAME

LISTEN_S: Final = 8
"""Seconds for which a server may run with a closed port before the port is reported. With the write of the status, the
report takes less than 10 s.
"""
QUOTE_LIMIT: Final = 400
"""Maximum characters that a message quotes from another program."""
REGISTRY_UNREACHABLE: Final = 75
"""Exit code of the runner if the registry cannot be reached."""
SECURITY_ADVICE: Final = (
    "try another user, as runAsUser in spec.podTemplate.spec.securityContext; to run it as root, set "
    "spec.unrestrictedPodTemplate.spec.securityContext to {runAsNonRoot: false, runAsUser: 0}, which requires "
    "servers.podTemplates: Any of the chart; if it writes outside of /tmp, set "
    "securityContext.readOnlyRootFilesystem of the container server to false"
)
_PULL_REASONS: Final = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
}
_CREATION_REASONS: Final = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError"}
_NEEDS_ROOT: Final = re.compile(
    r"(?:must|needs? to|has to|should) (?:be )?(?:run|started|executed)?\s*(?:as|by|with) (?:the )?(?:root|superuser)"
    r"|(?:requires?|without|not) root|not running as root|will run as root|permission denied|operation not permitted"
    r"|read-only file system|\bEACCES\b|\bEPERM\b|\bEROFS\b",
    re.IGNORECASE,
)
_CLAIM: Final = re.compile(r"persistentvolumeclaim|persistent volumes? to bind|pvc\(s\)", re.IGNORECASE)
_RESOURCES: Final = re.compile(r"insufficient |too many pods", re.IGNORECASE)
_VOLUME: Final = re.compile(r"volume", re.IGNORECASE)
_NODES_EXCLUDED: Final = re.compile(
    r"node affinity|node selector|nodeselector|taint|affinity rules|topology spread|unschedulable",
    re.IGNORECASE,
)
_PREEMPTION: Final = re.compile(r"(?<=\.) (?:no new claims to deallocate\b|not found$|preemption:).*", re.DOTALL)
"""Result of the scheduler's preemption, which follows the reasons of the nodes in its message. In Kubernetes 1.36 it is
"not found" for a pod whose volume is missing.
"""
_OUT_OF_MEMORY: Final = "was killed for using more memory than spec.resources.limits allows: raise its memory there"
_NOT_STARTED_REASONS: Final = {"StartError", "ContainerCannotRun"}
"""Termination reasons of a container that the runtime could not start; its exit code is 128."""
_PROGRAM_MISSING: Final = re.compile(r"executable file not found|no such file or directory", re.IGNORECASE)


@dataclass(frozen=True)
class Symptom:
    """Why a pod does not serve; becomes the server's verdict."""

    cause: Cause
    message: str
    needs_change: bool = True
    """Whether the pod cannot start until a user changes something; False: the pod may still start by itself."""


@dataclass(frozen=True)
class ClosedPort:
    """Closed port of a running server, as its readiness probe reports."""

    port: int
    since: datetime
    """Start of the container, by the clock of its node."""
    ipv6: bool = False
    """Whether the probed pod address is IPv6."""

    @property
    def symptom(self) -> Symptom:
        return Symptom(
            Cause.SILENT,
            f"the container has run for more than {LISTEN_S} s, but nothing listens at port {self.port}: if the server "
            "starts slowly, wait; else correct spec.image.port, or have the server listen on "
            + ("::, as its pod has an IPv6 address" if self.ipv6 else "all interfaces, not on localhost"),
            needs_change=False,
        )


def closed_port(pod: Mapping[str, Any]) -> ClosedPort | None:
    """The port of a running server whose TCP readiness probe has not succeeded; None for any other pod."""
    status = pod.get("status") or {}
    if pod.get("metadata", {}).get("deletionTimestamp"):
        return None
    since = started_at(pod)
    container_status = _server_container(status.get("containerStatuses"))
    container = _server_container((pod.get("spec") or {}).get("containers"))
    is_probed = "tcpSocket" in (container.get("readinessProbe") or {}) and "startupProbe" not in container
    if container_status.get("ready") or since is None or not is_probed:
        return None
    return ClosedPort(int(container["ports"][0]["containerPort"]), since, ":" in (status.get("podIP") or ""))


def listening_port(pod: Mapping[str, Any]) -> int | None:
    """The port of the server in a pod that is ready and not being deleted; None for any other pod."""
    is_ready = condition_of(pod.get("status") or {}, "Ready").get("status") == "True"
    if not is_ready or pod.get("metadata", {}).get("deletionTimestamp"):
        return None
    ports = _server_container((pod.get("spec") or {}).get("containers")).get("ports") or ()
    return next((int(port["containerPort"]) for port in ports if port.get("name") == PORT_NAME), None)


def is_unready(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is not ready although it is not being deleted."""
    status = pod.get("status") or {}
    return (
        not pod.get("metadata", {}).get("deletionTimestamp") and condition_of(status, "Ready").get("status") != "True"
    )


def started_at(pod: Mapping[str, Any]) -> datetime | None:
    """Start of the server's container, by the clock of its node; None if it is not running."""
    container = _server_container((pod.get("status") or {}).get("containerStatuses"))
    start_time = ((container.get("state") or {}).get("running") or {}).get("startedAt")
    return datetime.fromisoformat(start_time) if start_time else None


def symptom(pod: Mapping[str, Any]) -> Symptom | None:
    """The first fault of a pod; None for a pod that serves, starts normally, or is being deleted."""
    status = pod.get("status") or {}
    if not is_unready(pod):
        return None
    scheduled = condition_of(status, "PodScheduled")
    if scheduled.get("reason") == "Unschedulable":
        return _scheduling_symptom(str(scheduled.get("message", "")))
    for container in _containers(status):
        container_symptom = _container_symptom(container)
        if container_symptom is not None:
            return container_symptom
    return None


def _scheduling_symptom(message: str) -> Symptom:
    """Symptom of an unschedulable pod. The scheduler's message counts the nodes for each reason. The reason decides the
    cause, because each reason has its own remedy.

    Lack of resources takes precedence over excluded nodes, because control plane nodes are always tainted and therefore
    always excluded.
    """
    reason = _PREEMPTION.sub("", message)
    causes = (
        (_CLAIM, Cause.VOLUME_UNAVAILABLE),
        (_RESOURCES, Cause.UNSCHEDULABLE),
        (_VOLUME, Cause.VOLUME_UNAVAILABLE),
        (_NODES_EXCLUDED, Cause.NODES_EXCLUDED),
    )
    cause = next((cause for pattern, cause in causes if pattern.search(reason)), Cause.UNSCHEDULABLE)
    return Symptom(cause, f"no node accepts the server's pod: {cut(reason)}")


def _container_symptom(container: Mapping[str, Any]) -> Symptom | None:
    """The fault of one container of a pod, from its status; None if it has no fault."""
    state = container.get("state") or {}
    waiting_state, termination = state.get("waiting") or {}, _last_termination(container)
    reason, message = str(waiting_state.get("reason", "")), cut(waiting_state.get("message", ""))
    if reason in _PULL_REASONS:
        return Symptom(Cause.IMAGE_PULL_FAILED, f"the image cannot be fetched: {message}")
    if container.get("name") == INSTALL:
        return _installation_symptom(state, termination)
    if reason in _CREATION_REASONS:
        return _creation_symptom(message)
    restarts, is_looping = int(container.get("restartCount") or 0), reason == "CrashLoopBackOff"
    if termination is None or not (is_looping or restarts or "terminated" in state):
        return None
    terminations = restarts + ("terminated" in state)
    if termination.get("exitCode") in (None, 0) and not is_looping and terminations < 2:
        return None  # the container was asked to end, and is being restarted
    return _crash_symptom(termination)


def _creation_symptom(message: str) -> Symptom:
    """Symptom of a container that the runtime could not create or start."""
    if _NEEDS_ROOT.search(message):
        return Symptom(Cause.RUN_AS_ROOT_REFUSED, f"the image requires root ({message}): {SECURITY_ADVICE}")
    if _PROGRAM_MISSING.search(message):
        return Symptom(Cause.COMMAND_NOT_FOUND, f"the container's program cannot be started: {message}")
    return Symptom(Cause.DEPLOYMENT_FAILED, f"the container cannot be created: {message}")


def _installation_symptom(state: Mapping[str, Any], termination: Mapping[str, Any] | None) -> Symptom | None:
    """Symptom of the init container that installs a package; None unless it is running or has failed."""
    if termination is not None and termination.get("reason") == "OOMKilled":
        return Symptom(Cause.INSTALL_FAILED, f"the installation {_OUT_OF_MEMORY}")
    if termination is not None and termination.get("exitCode"):
        message = cut(termination.get("message") or f"the installation exited with {termination['exitCode']}")
        is_unreachable = termination["exitCode"] == REGISTRY_UNREACHABLE
        return Symptom(Cause.REGISTRY_UNREACHABLE if is_unreachable else Cause.INSTALL_FAILED, message)
    if "running" in state:
        return Symptom(Cause.INSTALLING, "the package is being installed", needs_change=False)
    return None


def _crash_symptom(termination: Mapping[str, Any]) -> Symptom:
    """Symptom of a container whose program ended, from its last termination."""
    if termination.get("reason") in _NOT_STARTED_REASONS:
        return _creation_symptom(cut(termination.get("message") or ""))
    # the end of the log, if the container left no termination message
    output = str(termination.get("message") or "")
    explanation = cut(_explaining_line(output) or output or termination.get("reason") or "it printed nothing")
    message = f"the container ended with exit code {termination.get('exitCode')}: {explanation}"
    if termination.get("reason") == "OOMKilled":
        return Symptom(Cause.CRASH_LOOPING, f"the server {_OUT_OF_MEMORY}")
    if _NEEDS_ROOT.search(explanation) or _NEEDS_ROOT.search(cut(output)):
        return Symptom(
            Cause.RUN_AS_ROOT_REFUSED,
            f"the server does not start as an unprivileged user ({message}): {SECURITY_ADVICE}",
        )
    if termination.get("exitCode") == 0:
        message += (
            ". A stdio server ends like this: if it is one, set spec.image.transport to stdio, and spec.image.command"
        )
    return Symptom(Cause.CRASH_LOOPING, message)


def _explaining_line(output: str) -> str:
    """The line of a container's output that explains why the container ended."""
    return diagnosis(printable(line.encode()) for line in output.splitlines())


def _last_termination(container: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Last termination of the container; None if it never ended."""
    for member in ("state", "lastState"):
        termination = (container.get(member) or {}).get("terminated")
        if termination is not None:
            return dict(termination)
    return None


def _containers(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _server_container(containers: Iterable[Mapping[str, Any]] | None) -> Mapping[str, Any]:
    """The server's container among the containers of a pod; empty if the pod has no such container."""
    return next((container for container in containers or () if container.get("name") == CONTAINER), {})


def condition_of(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Condition of a pod or a Deployment; empty if the status has no condition of that type."""
    conditions = status.get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == kind), {})


def cut(text: object) -> str:
    """A quoted text on one line, without its beginning if it is too long: the reason of a failure is usually at the
    end.
    """
    line = " ".join(str(text).split())
    return line if len(line) <= QUOTE_LIMIT else f"…{line[1 - QUOTE_LIMIT :]}"
