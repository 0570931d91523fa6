"""Finds the reason that keeps a pod of a server from serving, as far as its status tells. Pure.

A Deployment only says that no pod is available; why stands in the pods.
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
from fairlead_operator.server.manifests import CONTAINER, INSTALL

LISTEN_S: Final = 8
"""Seconds for which a server may run before it is said that its port is not open: told within 10 s, with the time that
a status takes."""
TEXT: Final = 400
"""Characters of foreign words that a message quotes."""
REGISTRY_UNREACHABLE: Final = 75
"""Exit code of the runner where the registry could not be reached."""
RELAX: Final = (
    "try another user, as runAsUser in spec.podTemplate.spec.securityContext; to let it run as root, set "
    "spec.unrestrictedPodTemplate.spec.securityContext to {runAsNonRoot: false, runAsUser: 0}, which needs "
    "servers.podTemplates: Any of the chart; where it writes outside of /tmp, set "
    "securityContext.readOnlyRootFilesystem of the container server to false"
)
_PULL: Final = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
_CREATE: Final = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError"}
_ROOT: Final = re.compile(
    r"(?:must|needs? to|has to|should) (?:be )?(?:run|started|executed)?\s*(?:as|by|with) (?:the )?(?:root|superuser)"
    r"|(?:requires?|without|not) root|not running as root|will run as root|permission denied|operation not permitted"
    r"|read-only file system|\bEACCES\b|\bEPERM\b|\bEROFS\b",
    re.IGNORECASE,
)
_CLAIM: Final = re.compile(r"persistentvolumeclaim|persistent volumes? to bind|pvc\(s\)", re.IGNORECASE)
_ROOM: Final = re.compile(r"insufficient |too many pods", re.IGNORECASE)
_VOLUME: Final = re.compile(r"volume", re.IGNORECASE)
_EXCLUDED: Final = re.compile(
    r"node affinity|node selector|nodeselector|taint|affinity rules|topology spread|unschedulable",
    re.IGNORECASE,
)
_PREEMPTION: Final = re.compile(r"(?<=\.) (?:no new claims to deallocate\b|not found$|preemption:).*", re.DOTALL)
"""Outcome of the scheduler's attempt to make room, behind what it says of the nodes. In Kubernetes 1.36 it is
"not found" for a pod whose volume is missing.
"""
_OUT_OF_MEMORY: Final = "was killed for using more memory than spec.resources.limits allows: raise its memory there"
_NEVER_RAN: Final = {"StartError", "ContainerCannotRun"}
"""Reasons of a container that the runtime could not start: it counts as one that ended, with exit code 128."""
_MISSING: Final = re.compile(r"executable file not found|no such file or directory", re.IGNORECASE)


@dataclass(frozen=True)
class Symptom:
    """Becomes the verdict about a server that is not up. `hopeless` False: it is on its way."""

    cause: Cause
    message: str
    hopeless: bool = True


@dataclass(frozen=True)
class ClosedPort:
    """Port that the readiness probe of a running server finds closed."""

    port: int
    since: datetime
    """Start of the container, by the clock of its node."""
    ipv6: bool = False
    """Whether the address of the pod that is probed is of IPv6."""

    @property
    def symptom(self) -> Symptom:
        return Symptom(
            Cause.SILENT,
            f"its container runs for more than {LISTEN_S} s, and nothing listens at port {self.port}: wait for one "
            "that starts slowly; else correct spec.image.port, or have it listen on "
            + ("::, as its pod has an IPv6 address" if self.ipv6 else "all interfaces, not on localhost"),
            hopeless=False,
        )


def closed_port(pod: Mapping[str, Any]) -> ClosedPort | None:
    """Port of a server that runs and whose probe, a connection to the port, has not succeeded; None for any other."""
    status = pod.get("status") or {}
    if pod.get("metadata", {}).get("deletionTimestamp"):
        return None
    container, since = _of_name(status.get("containerStatuses")), started_at(pod)
    wanted = _of_name((pod.get("spec") or {}).get("containers"))
    probed = "tcpSocket" in (wanted.get("readinessProbe") or {}) and "startupProbe" not in wanted
    if container.get("ready") or since is None or not probed:
        return None
    return ClosedPort(int(wanted["ports"][0]["containerPort"]), since, ":" in (status.get("podIP") or ""))


def unready(pod: Mapping[str, Any]) -> bool:
    """Whether a pod is meant to be ready and is not."""
    status = pod.get("status") or {}
    return not pod.get("metadata", {}).get("deletionTimestamp") and _condition(status, "Ready").get("status") != "True"


def started_at(pod: Mapping[str, Any]) -> datetime | None:
    """When the server's container was started, by the clock of its node; None while it does not run."""
    container = _of_name((pod.get("status") or {}).get("containerStatuses"))
    running = ((container.get("state") or {}).get("running") or {}).get("startedAt")
    return datetime.fromisoformat(running) if running else None


def symptom(pod: Mapping[str, Any]) -> Symptom | None:
    """The first thing that is wrong with a pod; None for one that serves, that starts, or that is being deleted."""
    status = pod.get("status") or {}
    if not unready(pod):
        return None
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("reason") == "Unschedulable":
        return _scheduling_symptom(str(scheduled.get("message", "")))
    for container in _containers(status):
        container_symptom = _of_container(container)
        if container_symptom is not None:
            return container_symptom
    return None


def _scheduling_symptom(message: str) -> Symptom:
    """Cause by what the scheduler counts for each node, as each has another remedy. A node that only lacks room comes
    before nodes that do not fit: every control plane is tainted.
    """
    reason = _PREEMPTION.sub("", message)
    causes = (
        (_CLAIM, Cause.VOLUME_UNAVAILABLE),
        (_ROOM, Cause.UNSCHEDULABLE),
        (_VOLUME, Cause.VOLUME_UNAVAILABLE),
        (_EXCLUDED, Cause.NODES_EXCLUDED),
    )
    cause = next((cause for pattern, cause in causes if pattern.search(reason)), Cause.UNSCHEDULABLE)
    return Symptom(cause, f"no node takes its pod: {cut(reason)}")


def _of_container(container: Mapping[str, Any]) -> Symptom | None:
    state = container.get("state") or {}
    waiting, ended = state.get("waiting") or {}, _last_end(container)
    reason, message = str(waiting.get("reason", "")), cut(waiting.get("message", ""))
    if reason in _PULL:
        return Symptom(Cause.IMAGE_PULL_FAILED, f"its image cannot be fetched: {message}")
    if container.get("name") == INSTALL:
        return _of_installation(state, ended)
    if reason in _CREATE:
        return _not_created(message)
    if ended is None or not (reason == "CrashLoopBackOff" or container.get("restartCount") or "terminated" in state):
        return None
    ends = int(container.get("restartCount") or 0) + ("terminated" in state)
    if ended.get("exitCode") in (None, 0) and reason != "CrashLoopBackOff" and ends < 2:
        return None  # one that was asked to end, and is started again
    return _crash_symptom(ended)


def _not_created(message: str) -> Symptom:
    if _ROOT.search(message):
        return Symptom(Cause.RUN_AS_ROOT_REFUSED, f"its image insists on root ({message}): {RELAX}")
    if _MISSING.search(message):
        return Symptom(Cause.COMMAND_NOT_FOUND, f"its program cannot be started: {message}")
    return Symptom(Cause.DEPLOYMENT_FAILED, f"its container cannot be made: {message}")


def _of_installation(state: Mapping[str, Any], ended: Mapping[str, Any] | None) -> Symptom | None:
    if ended is not None and ended.get("reason") == "OOMKilled":
        return Symptom(Cause.INSTALL_FAILED, f"the installation {_OUT_OF_MEMORY}")
    if ended is not None and ended.get("exitCode"):
        words = cut(ended.get("message") or f"the installation exited with {ended['exitCode']}")
        unreachable = ended["exitCode"] == REGISTRY_UNREACHABLE
        return Symptom(Cause.REGISTRY_UNREACHABLE if unreachable else Cause.INSTALL_FAILED, words)
    if "running" in state:
        return Symptom(Cause.INSTALLING, "its package is being installed", hopeless=False)
    return None


def _crash_symptom(ended: Mapping[str, Any]) -> Symptom:
    if ended.get("reason") in _NEVER_RAN:
        return _not_created(cut(ended.get("message") or ""))
    printed = str(ended.get("message") or "")  # the end of its log, where it left no message
    words = cut(_telling(printed) or printed or ended.get("reason") or "it said nothing")
    message = f"it ended with exit code {ended.get('exitCode')}: {words}"
    if ended.get("reason") == "OOMKilled":
        return Symptom(Cause.CRASH_LOOPING, f"it {_OUT_OF_MEMORY}")
    if _ROOT.search(words) or _ROOT.search(cut(printed)):
        return Symptom(Cause.RUN_AS_ROOT_REFUSED, f"it does not start as an ordinary user ({message}): {RELAX}")
    if ended.get("exitCode") == 0:
        message += ". A program that speaks MCP over stdio ends so: set spec.image.transport to stdio, and its command"
    return Symptom(Cause.CRASH_LOOPING, message)


def _telling(printed: str) -> str:
    """Line that says why a container ended, out of the end of its log."""
    return diagnosis(printable(line.encode()) for line in printed.splitlines())


def _last_end(container: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """How it ended last, if it ever did."""
    for when in ("state", "lastState"):
        termination = (container.get(when) or {}).get("terminated")
        if termination is not None:
            return dict(termination)
    return None


def _containers(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _of_name(containers: Iterable[Mapping[str, Any]] | None) -> Mapping[str, Any]:
    """The container that is the server."""
    return next((container for container in containers or () if container.get("name") == CONTAINER), {})


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return next((c for c in status.get("conditions") or () if c.get("type") == kind), {})


def cut(text: object) -> str:
    """The end of foreign words on one line: what went wrong stands last."""
    line = " ".join(str(text).split())
    return line if len(line) <= TEXT else f"…{line[1 - TEXT :]}"
