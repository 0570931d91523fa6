"""Fields that `spec.podTemplate` of an McpServer may set while an installation restricts it.

One table, in two forms: `refused` judges a template in Python, `admission` writes the same as CEL for a
ValidatingAdmissionPolicy. The rules are an allow-list, so that a field which a later Kubernetes adds is refused until
it is listed here. What they allow, laid over the generated template, fulfils the Pod Security Standard "restricted".
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

ROOT: Final = "spec.podTemplate"


@dataclass(frozen=True)
class Anything:
    """Any value."""


@dataclass(frozen=True)
class OneOf:
    """One of these values; null, which would remove a member of the generated template, is none of them."""

    values: tuple[Any, ...]

    def holds(self, value: Any) -> bool:
        """Whether `value` is one of them, and not merely equal: `1` is not `true`."""
        return any(type(value) is type(each) and value == each for each in self.values)


@dataclass(frozen=True)
class AtLeast:
    """An integer that is not smaller."""

    least: int

    def holds(self, value: Any) -> bool:
        """Whether `value` is such an integer."""
        return isinstance(value, int) and not isinstance(value, bool) and value >= self.least


@dataclass(frozen=True)
class Fields:
    """An object with no other members than these; `removable` allows null in its place."""

    members: Mapping[str, Node]
    removable: bool = False


@dataclass(frozen=True)
class Items:
    """A list, each item of which is so."""

    item: Node


@dataclass(frozen=True)
class PodTemplateNames:
    """An object with any members but those that begin with one of these texts."""

    without: tuple[str, ...]


Node = PodTemplateNames | Anything | OneOf | AtLeast | Fields | Items


def _any(*names: str) -> dict[str, Node]:
    return dict.fromkeys(names, Anything())


_OFF: Final = OneOf((False,))
_ON: Final = OneOf((True,))
_SECCOMP: Final = Fields({"type": OneOf(("RuntimeDefault", "Localhost")), "localhostProfile": Anything()})
_USERS: Final[dict[str, Node]] = {
    "runAsNonRoot": _ON,
    "runAsUser": AtLeast(1),
    "runAsGroup": AtLeast(0),
    "seccompProfile": _SECCOMP,
}

_POD_SECURITY: Final = Fields(
    {**_USERS, **_any("fsGroup", "fsGroupChangePolicy", "supplementalGroups", "supplementalGroupsPolicy")},
)
_CONTAINER_SECURITY: Final = Fields(
    {
        **_USERS,
        "privileged": _OFF,
        "allowPrivilegeEscalation": _OFF,
        "readOnlyRootFilesystem": OneOf((True, False)),
        "capabilities": Fields({"drop": OneOf((["ALL"],)), "add": Items(OneOf(("NET_BIND_SERVICE",)))}),
    },
)

# No `host` in any of them: the kubelet, and not the pod, would connect to it, past every NetworkPolicy.
_HANDLERS: Final[dict[str, Node]] = {
    "exec": Anything(),
    "grpc": Anything(),
    "sleep": Anything(),
    "httpGet": Fields(_any("path", "port", "scheme", "httpHeaders"), removable=True),
    "tcpSocket": Fields(_any("port"), removable=True),
}
_PROFILES: Final = ("container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/")
"""Annotations that older versions read as members of a security context, and newer ones turn into such."""

_PROBE: Final = Fields(
    {
        **_HANDLERS,
        **_any(
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
            "terminationGracePeriodSeconds",
        ),
    },
    removable=True,
)
_LIFECYCLE: Final = Fields(
    {"postStart": Fields(_HANDLERS), "preStop": Fields(_HANDLERS), "stopSignal": Anything()}, removable=True
)

_SOURCES: Final = _any("secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef")
_CONTAINER: Final = Fields(
    {
        **_any("name", "image", "imagePullPolicy", "command", "args", "workingDir", "resources", "restartPolicy"),
        **_any("terminationMessagePath", "terminationMessagePolicy"),
        "env": Items(Fields({**_any("name", "value"), "valueFrom": Fields(_SOURCES)})),
        "envFrom": Items(Fields(_any("prefix", "secretRef", "configMapRef"))),
        "ports": Items(Fields(_any("name", "containerPort", "protocol"))),
        "volumeMounts": Items(Fields(_any("name", "mountPath", "subPath", "subPathExpr", "readOnly"))),
        "livenessProbe": _PROBE,
        "readinessProbe": _PROBE,
        "startupProbe": _PROBE,
        "lifecycle": _LIFECYCLE,
        "securityContext": _CONTAINER_SECURITY,
    }
)
_VOLUME: Final = Fields(
    {
        **_any("name", "emptyDir", "configMap", "secret", "downwardAPI", "persistentVolumeClaim", "ephemeral"),
        "projected": Fields(
            {
                "defaultMode": Anything(),
                # No serviceAccountToken.
                "sources": Items(Fields(_any("secret", "configMap", "downwardAPI", "clusterTrustBundle"))),
            }
        ),
    }
)

ALLOWED: Final = Fields(
    {
        "metadata": Fields({"labels": Anything(), "annotations": PodTemplateNames(_PROFILES)}),
        "spec": Fields(
            {
                # Where the pods run. No nodeName, which passes by the scheduler and its taints; no priorityClassName,
                # which drives the pods of others off a node; no runtimeClassName, which may be weaker.
                **_any("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"),
                # How they end, and how they look up names.
                **_any("terminationGracePeriodSeconds", "dnsPolicy", "dnsConfig", "hostAliases", "enableServiceLinks"),
                # No serviceAccountName: the server has an account of its own, without rights.
                **dict.fromkeys(("automountServiceAccountToken", "hostNetwork", "hostPID", "hostIPC"), _OFF),
                "hostUsers": _OFF,
                "imagePullSecrets": Items(Fields(_any("name"))),
                "securityContext": _POD_SECURITY,
                "volumes": Items(_VOLUME),
                "containers": Items(_CONTAINER),
                "initContainers": Items(_CONTAINER),
            }
        ),
    }
)

BEFORE: Final = "this installation does not let a server set "
AFTER: Final = ", or not to that value: leave it out, or have servers.podTemplates of the chart set to Any "
ADVICE: Final = "(FAIRLEAD_POD_TEMPLATES of the operator)"


def sentence(path: str) -> str:
    """Message about a refused field; the admission policy says the same."""
    return f"{BEFORE}{path}{AFTER}{ADVICE}"


def refused(template: Any) -> str | None:
    """Path of the first field of a `spec.podTemplate` that may not be set, or not to its value; None = all may."""
    return next(_refused(ALLOWED, template, ROOT), None)


def _refused(node: Node, value: Any, path: str) -> Iterator[str]:
    match node:
        case OneOf() | AtLeast():
            if not node.holds(value):
                yield path
        case PodTemplateNames(without=without) if isinstance(value, Mapping):
            yield from (f"{path}.{name}" for name in value if name.startswith(without))
        case Fields(members=members) if isinstance(value, Mapping):
            for name, inner in value.items():
                yield from _refused(members[name], inner, f"{path}.{name}") if name in members else (f"{path}.{name}",)
        case Items(item=item) if isinstance(value, list):
            for inner in value:
                yield from _refused(item, inner, f"{path}[*]")
        case Fields(removable=removable):
            if value is not None or not removable:
                yield path
        case Items() | PodTemplateNames():
            yield path
