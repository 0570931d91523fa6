"""Builds the objects of a network probe as dicts, and evaluates NetworkPolicies for the probe's ports. Pure.

A probe has two Jobs: the pod of the first Job (the target) listens on three ports, the pod of the second Job (the
client) connects to them. A NetworkPolicy for both pods allows the first port, forbids ingress to the second port and
egress to the third. Kubernetes ends the Jobs at their deadline. The first Job owns all other objects, and Kubernetes
deletes it after its deadline, so that no object is left even if the operator ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from fairlead_api.v1alpha1.toolpolicy import ServerSelector
from fairlead_operator.enforcement.probe_answer import Direction
from fairlead_operator.publish.compile import selects

Json = dict[str, Any]

LABEL: Final = "fairlead.dev/network-probe"
"""Label of all objects of a probe; its value is `target` or `client`."""
TARGET: Final = "fairlead-network-probe"
CLIENT: Final = f"{TARGET}-client"
CONTAINER: Final = "probe"
ALLOWED, NO_INGRESS, NO_EGRESS = 7001, 7002, 7003
PORT_OF: Final[Mapping[Direction, int]] = {"incoming": NO_INGRESS, "outgoing": NO_EGRESS}
"""Port that the NetworkPolicy closes in each direction."""
DEADLINE_S: Final = 180
"""Seconds after which Kubernetes ends the pods of a Job."""
DELETE_AFTER_S: Final = 60
"""Seconds after which Kubernetes deletes a Job that has ended."""
CLIENT_RETRY_S: Final = 30
"""Seconds for which the client retries, because a network plugin may apply a policy to new pods with a delay."""
_BUSYBOX: Final = "/bin/busybox"
_USER: Final = 65532

LISTEN: Final = """\
B=$0
for PORT in "$@"; do $B nc -ll -p $PORT -e $B echo fairlead & done
trap 'exit 0' TERM INT
wait
"""
CONNECT: Final = """\
B=$0 TARGET=$1 ALLOWED=$2 NO_INGRESS=$3 NO_EGRESS=$4
END=`$B date +%s`
END=`$B expr $END + $5`
ANSWER="allowed=held"
BLOCKED_BEFORE=
reaches() { [ "`$B timeout 5 $B nc -w 2 $TARGET $1 </dev/null 2>/dev/null`" = fairlead ]; }
while [ `$B date +%s` -lt $END ]; do
  INCOMING=held OUTGOING=held
  if reaches $ALLOWED; then
    reaches $NO_INGRESS && INCOMING=open
    reaches $NO_EGRESS && OUTGOING=open
    if reaches $ALLOWED; then
      ANSWER="incoming=$INCOMING outgoing=$OUTGOING"
      if [ "$ANSWER" = "incoming=held outgoing=held" ]; then
        [ -n "$BLOCKED_BEFORE" ] && break
        BLOCKED_BEFORE=yes
      else
        BLOCKED_BEFORE=
      fi
    fi
  fi
  $B sleep 1
done
echo "$ANSWER" >/dev/termination-log
"""
"""Script of the client. A port counts as blocked (`held`) only if connections to the allowed port succeed just before
and just after the attempt, and only if that is so twice in a row: a network that is not ready must not look like a
network that enforces the policy.
"""


@dataclass(frozen=True)
class ProbePods:
    """Parameters of the probe's pods."""

    image: str
    """Image with a static busybox as /bin/busybox."""
    pull_secrets: tuple[str, ...] = ()
    assigned_ids: bool = False
    """Whether the cluster assigns user and group IDs, as OpenShift does."""


def target_job(pods: ProbePods, owners: Sequence[Json]) -> Json:
    """The Job whose pod listens. It owns all other objects of the probe."""
    ports = [str(port) for port in (ALLOWED, NO_INGRESS, NO_EGRESS)]
    container = _container(pods, [_BUSYBOX, "sh", "-c", LISTEN, _BUSYBOX, *ports])
    # Ready means that all three ports have listeners: a port without a listener would look like a blocked port.
    all_ports_answer = " && ".join(
        f"{_BUSYBOX} timeout 2 {_BUSYBOX} nc 127.0.0.1 {port} </dev/null | {_BUSYBOX} grep -q fairlead"
        for port in ports
    )
    probe = {"exec": {"command": [_BUSYBOX, "sh", "-c", all_ports_answer]}, "periodSeconds": 2, "timeoutSeconds": 8}
    return _job(TARGET, "target", {**container, "readinessProbe": probe}, pods, owners)


def client_job(pods: ProbePods, target: Json, address: str) -> Json:
    """The Job whose pod connects to the pod of `target` at `address`."""
    arguments = [address, *(str(number) for number in (ALLOWED, NO_INGRESS, NO_EGRESS, CLIENT_RETRY_S))]
    container = _container(pods, [_BUSYBOX, "sh", "-c", CONNECT, _BUSYBOX, *arguments])
    return _job(CLIENT, "client", container, pods, [owner(target)])


def network_policy(target: Json) -> Json:
    """NetworkPolicy that allows ALLOWED in both directions, and each of the other ports in one direction only."""
    peers = [{"podSelector": _probe_selector()}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": TARGET, "labels": {LABEL: "target"}, "ownerReferences": [owner(target)]},
        "spec": {
            "podSelector": _probe_selector(),
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": peers, "ports": _ports(ALLOWED, NO_EGRESS)}],
            "egress": [{"to": peers, "ports": _ports(ALLOWED, NO_INGRESS)}],
        },
    }


def owner(job: Json) -> Json:
    """Owner reference to a Job as the API server returned it."""
    metadata = job["metadata"]
    return {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}


def opening_policies(policies: Iterable[Json], direction: Direction) -> list[str]:
    """Names of those NetworkPolicies that apply to the probe's pods and may allow the port that the probe's policy
    forbids. The peers in their rules are not evaluated.
    """
    role = "target" if direction == "incoming" else "client"
    return sorted(
        policy["metadata"]["name"]
        for policy in policies
        if applies(policy, {LABEL: role}, direction) and permits(policy, direction, PORT_OF[direction])
    )


def applies(policy: Json, labels: Mapping[str, str], direction: Direction) -> bool:
    """Whether a NetworkPolicy applies to connections of pods with these labels in that direction."""
    spec = policy.get("spec") or {}
    try:
        selector = ServerSelector.model_validate(spec.get("podSelector") or {})
    except ValidationError:
        return True  # exceeds the limits of ServerSelector: assume that it applies
    kind = "Ingress" if direction == "incoming" else "Egress"
    return kind in (spec.get("policyTypes") or ["Ingress"]) and selects(selector, labels)


def permits(policy: Json, direction: Direction, port: int) -> bool:
    """Whether a rule of a NetworkPolicy allows a TCP port; named ports do not match."""
    rules = (policy.get("spec") or {}).get("ingress" if direction == "incoming" else "egress") or ()
    return any(not rule.get("ports") or any(_matches_port(entry, port) for entry in rule["ports"]) for rule in rules)


def _matches_port(entry: Json, port: int) -> bool:
    """Whether an entry of `ports` in a NetworkPolicy's rule covers a TCP port."""
    if entry.get("protocol", "TCP") != "TCP":
        return False
    first_port = entry.get("port")
    return first_port is None or (
        isinstance(first_port, int) and first_port <= port <= entry.get("endPort", first_port)
    )


def _probe_selector() -> Json:
    return {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]}


def _ports(*numbers: int) -> list[Json]:
    return [{"port": number, "protocol": "TCP"} for number in numbers]


def _container(pods: ProbePods, command: Sequence[str]) -> Json:
    """The container of a Job's pod, which runs `command` without privileges."""
    return {
        "name": CONTAINER,
        "image": pods.image,
        "command": list(command),
        # A namespace with a ResourceQuota refuses pods without requests and limits.
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "100m", "memory": "32Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }


def _job(name: str, role: str, container: Json, pods: ProbePods, owners: Sequence[Json]) -> Json:
    """A Job with one pod, which is not restarted and is deleted after its deadline. `role` is the value of `LABEL`."""
    spec: Json = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": {
            "runAsNonRoot": True,
            **({} if pods.assigned_ids else {"runAsUser": _USER, "runAsGroup": _USER}),
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    if pods.pull_secrets:
        spec["imagePullSecrets"] = [{"name": secret} for secret in pods.pull_secrets]
    # The sidecar proxy of a service mesh would make the connections itself, and keep the Jobs from ending.
    labels = {LABEL: role, "sidecar.istio.io/inject": "false"}
    template = {"metadata": {"labels": labels, "annotations": {"linkerd.io/inject": "disabled"}}, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {LABEL: role}, "ownerReferences": list(owners)},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": DEADLINE_S,
            "ttlSecondsAfterFinished": DELETE_AFTER_S,
            "template": template,
        },
    }
