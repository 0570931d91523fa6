"""Builds the objects that run an `image` or `package` server, as dicts for server-side apply. Pure.

All objects have the name and namespace of the McpServer and are owned by it, so that the garbage collector deletes them
even when no operator runs. Pods are restricted: they do not run as root, have no privileges, and have a read-only root
file system with a writable /tmp and home folder.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from fairlead_api.documents.base import sha256
from fairlead_api.meta import API_VERSION, LABEL_MANAGED_BY, LABEL_NAME, MANAGED_BY
from fairlead_api.v1alpha1.mcpserver import McpServer, Package
from fairlead_operator.server import stdio_gate
from fairlead_operator.server.egress import domain_rules, egress_rules
from fairlead_operator.server.overlay import merge
from fairlead_operator.server.secret_references import SecretReference, secret_references, without_secrets

Json = dict[str, Any]

CONTAINER: Final = "server"
INSTALL: Final = "install"
"""Name of the init container that installs a `package` server."""
CACHE: Final = "/cache"
"""Folder in which a `package` server is installed."""
PORT_NAME: Final = "mcp"
ANNOTATION_SECRETS: Final = "fairlead.dev/secrets"
"""Annotation of pods: hash of the Secrets in their environment, so that a changed Secret replaces the pods."""
ANNOTATION_CONFIG_MAPS: Final = "fairlead.dev/config-maps"
"""Likewise for ConfigMaps."""

APP_LABEL: Final = "app.kubernetes.io/name"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
APP: Final = "fairlead"
CALLERS: Final = ("gateway", "operator")
"""Components of the release that may connect to the pods."""

DRAIN_SECONDS: Final = 10
"""Default of `ManifestContext.drain_seconds`: CoreDNS answers with the address of a pod for up to 5 s after its end has
begun, and gateways look addresses up every 5 s.
"""
ANSWER_SECONDS: Final = 20
"""Seconds that a pod has at least for its last answers, after it has stopped taking requests."""

_USER: Final = 65532
_HOME: Final = "/home/fairlead"
_RESTRICTED_CONTAINER: Final[Json] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_RESTRICTED_DEFAULTS: Final[Json] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""Security context of containers that `spec.podTemplate` adds, as far as it does not set these fields."""


@dataclass(frozen=True)
class Images:
    """Images of the installation that pods need in addition to the server's."""

    listener: str = "busybox:1.37-musl"
    """Image with a static busybox as /bin/busybox."""
    runner: str = "localhost/fairlead-runner:0.1.0"
    """Image that installs packages; contains a static busybox too."""


@dataclass(frozen=True)
class ManifestContext:
    """Parameters of the manifests in addition to the server's spec."""

    release_namespace: str
    """Namespace of gateway and operator, the only allowed clients of the pods."""
    secrets_revision: str = ""
    """Hash of the Secrets in the pods' environment; empty without such Secrets."""
    config_maps_revision: str = ""
    """Hash of the ConfigMaps in the pods' environment; empty without such ConfigMaps."""
    token_digest: str = ""
    """Digest of the token with which a connection to a stdio server begins."""
    images: Images = Images()
    drain_seconds: int = DRAIN_SECONDS
    """Seconds for which a terminating pod keeps serving, because gateways still connect to it."""
    restricted: bool = True
    """Whether containers that `spec.podTemplate` adds get the restricted security context."""
    api_server: tuple[str, ...] = ()
    """CIDRs of the networks that contain the API server."""
    domain_policies: bool = False
    """Whether the cluster serves the kind CiliumNetworkPolicy."""
    assigned_ids: bool = False
    """Whether the cluster assigns user and group IDs, as OpenShift does; else they are fixed."""
    absent_secrets: frozenset[str] = frozenset()
    """Names of Secrets that do not exist; optional references to them are omitted."""


def selector_labels(server: McpServer) -> dict[str, str]:
    """Labels by which Service, NetworkPolicy and Deployment select the pods. They never change, because a Deployment's
    selector is immutable.
    """
    return {LABEL_NAME: server.metadata.name, LABEL_MANAGED_BY: MANAGED_BY}


def service_host(server: McpServer) -> str:
    """DNS name of the server's headless Service, which resolves to one address per pod."""
    return f"{server.metadata.name}.{server.metadata.namespace}.svc"


def _metadata(server: McpServer) -> Json:
    """Metadata of each object of a server: name, labels, and the McpServer as owner."""
    owner = {
        "apiVersion": API_VERSION,
        "kind": "McpServer",
        "name": server.metadata.name,
        "uid": server.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    return {
        "name": server.metadata.name,
        "namespace": server.metadata.namespace,
        "labels": selector_labels(server),
        "ownerReferences": [owner],
    }


def service_account(server: McpServer) -> Json:
    """ServiceAccount without rights, whose token is not mounted."""
    return {"metadata": _metadata(server), "automountServiceAccountToken": False}


def service(server: McpServer) -> Json:
    """Headless Service, because the gateway connects to each pod directly.

    It has a single IP family, because the gateway would take a second address of a pod for another pod.
    """
    port = {"name": PORT_NAME, "port": server.spec.effective_port, "targetPort": PORT_NAME, "protocol": "TCP"}
    spec = {"clusterIP": "None", "ipFamilyPolicy": "SingleStack", "selector": selector_labels(server), "ports": [port]}
    return {"metadata": _metadata(server), "spec": spec}


def network_policy(server: McpServer, context: ManifestContext) -> Json:
    """NetworkPolicy that admits only the release's gateway and operator, and limits egress to `spec.network`."""
    peers = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": context.release_namespace}},
        "podSelector": {
            "matchLabels": {APP_LABEL: APP},
            "matchExpressions": [{"key": COMPONENT_LABEL, "operator": "In", "values": list(CALLERS)}],
        },
    }
    ports = [{"port": PORT_NAME, "protocol": "TCP"}]
    spec: Json = {
        "podSelector": {"matchLabels": selector_labels(server)},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [peers], "ports": ports}],
    }
    if server.spec.network is not None and server.spec.network.egress is not None:
        spec["policyTypes"].append("Egress")
        spec["egress"] = egress_rules(server.spec.network.egress, context.api_server)
    return {"metadata": _metadata(server), "spec": spec}


def domain_policy(server: McpServer, context: ManifestContext) -> Json | None:
    """CiliumNetworkPolicy for the hosts that `spec.network` allows by name; None if `spec.network` names no host."""
    network = server.spec.network
    rules = None if network is None or network.egress is None else domain_rules(network.egress, context.api_server)
    if rules is None:
        return None
    return {
        "metadata": _metadata(server),
        "spec": {"endpointSelector": {"matchLabels": selector_labels(server)}, **rules},
    }


def disruption_budget(server: McpServer) -> Json:
    """PodDisruptionBudget that lets a node drain evict one pod at a time."""
    return {
        "metadata": _metadata(server),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector_labels(server)}},
    }


def deployment(server: McpServer, context: ManifestContext) -> Json:
    """Deployment of the pods. It has no `replicas` if the spec has none, so that an autoscaler can own the field."""
    spec: Json = {
        "selector": {"matchLabels": selector_labels(server)},
        "revisionHistoryLimit": 3,
        "progressDeadlineSeconds": 600,
        "template": pod_template(server, context),
    }
    if server.spec.replicas is not None:
        spec["replicas"] = server.spec.replicas
    return {"metadata": _metadata(server), "spec": spec}


def pod_template(server: McpServer, context: ManifestContext) -> Json:
    """The generated pod template, overlaid by `spec.podTemplate` and then by `spec.unrestrictedPodTemplate`."""
    overlay = server.spec.pod_template
    template: Json = merge(_generated_template(server, context), {} if overlay is None else overlay.overlay())
    if context.restricted and overlay is not None:
        template = _restrict_containers(template)
    template = merge(template, server.spec.unrestricted_pod_template or {})
    return without_secrets(_within_grace(template, context.drain_seconds), context.absent_secrets)


def pod_secret_references(server: McpServer) -> list[SecretReference]:
    """All references of a server's pods to Secrets; empty for a server without pods."""
    if server.spec.source_kind not in ("image", "package"):
        return []
    return secret_references(pod_template(server, ManifestContext("", restricted=False)))


def _within_grace(template: Json, drain_seconds: int) -> Json:
    """Shorten the generated drain to half of a short grace period: the API server refuses one that is longer than the
    grace period, and servers need time of their own to end.
    """
    grace = template["spec"].get("terminationGracePeriodSeconds")
    if not isinstance(grace, int) or grace >= 2 * drain_seconds:
        return template
    generated_hook = _drain(drain_seconds)
    shorter_hook = _drain(grace // 2) if grace > 1 else None
    overlay = [
        {"name": container["name"], "lifecycle": {"preStop": shorter_hook}}
        for container in template["spec"]["containers"]
        if (container.get("lifecycle") or {}).get("preStop") == generated_hook
    ]
    return {**template, "spec": merge(template["spec"], {"containers": overlay})}


def _drain(seconds: int) -> Json:
    """The generated `preStop` hook of a server over HTTP."""
    return {"sleep": {"seconds": seconds}}


def _restrict_containers(template: Json) -> Json:
    """Add to each container the fields that the restricted Pod Security Standard requires and that its
    `securityContext` does not set.
    """
    spec = dict(template["spec"])
    for kind in ("initContainers", "containers"):
        if kind in spec:
            spec[kind] = [
                {**container, "securityContext": merge(_RESTRICTED_DEFAULTS, container.get("securityContext") or {})}
                for container in spec[kind]
            ]
    return {**template, "spec": spec}


def _generated_template(server: McpServer, context: ManifestContext) -> Json:
    """The pod template before the overlays of the spec are applied."""
    metadata: Json = {"labels": selector_labels(server)}
    revisions = {
        ANNOTATION_SECRETS: context.secrets_revision,
        ANNOTATION_CONFIG_MAPS: context.config_maps_revision,
    }
    if annotations := {name: revision for name, revision in revisions.items() if revision}:
        metadata["annotations"] = annotations
    spec: Json = {
        "serviceAccountName": server.metadata.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": context.drain_seconds + max(ANSWER_SECONDS, context.drain_seconds),
        "securityContext": {
            "runAsNonRoot": True,
            **({} if context.assigned_ids else {"runAsUser": _USER, "runAsGroup": _USER, "fsGroup": _USER}),
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(server, context.drain_seconds)],
        "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "home", "emptyDir": {}}],
    }
    if server.spec.runtime_class_name is not None:
        spec["runtimeClassName"] = server.spec.runtime_class_name
    if server.spec.package is not None:
        _add_installation(spec, server, server.spec.package, context)
    if server.spec.effective_transport == "stdio":
        _add_listener(spec, server, context)
    return {"metadata": metadata, "spec": spec}


def _container(server: McpServer, drain_seconds: int) -> Json:
    """The container of the server's program."""
    spec, image = server.spec, server.spec.image
    names = {variable.name for variable in spec.env}
    env = [] if "HOME" in names else [{"name": "HOME", "value": _HOME}]
    container: Json = {
        "name": CONTAINER,
        "image": "" if image is None else image.name,
        "env": env + [variable.to_wire() for variable in spec.env],
        "ports": [{"name": PORT_NAME, "containerPort": spec.effective_port, "protocol": "TCP"}],
        # Checks only that the port is open: servers that accept only POST refuse a GET, and a real MCP request every
        # few seconds would fill the server's log. Discovery checks that the server serves MCP.
        "readinessProbe": {"tcpSocket": {"port": PORT_NAME}, "periodSeconds": 5, "failureThreshold": 3},
        "securityContext": _RESTRICTED_CONTAINER,
        "lifecycle": {"preStop": _drain(drain_seconds)},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, {"name": "home", "mountPath": _HOME}],  # noqa: S108 - in a pod
    }
    if image is not None and image.command is not None:
        container["command"] = list(image.command)
    if image is not None and image.args:
        container["args"] = list(image.args)
    if spec.env_from:
        container["envFrom"] = [source.to_wire() for source in spec.env_from]
    if spec.resources is not None:
        container["resources"] = spec.resources.to_wire()
    return container


def program_digest(server: McpServer) -> str:
    """Digest of the spec's members that decide what the program does with users' keys; empty for a program that gets no
    keys.
    """
    spec = server.spec
    if not spec.starts_with_keys:
        return ""
    return sha256(
        *(
            json.dumps(spec.to_wire().get(member), sort_keys=True).encode()
            for member in ("image", "package", "env", "envFrom", "podTemplate", "unrestrictedPodTemplate")
        )
    )[:16]


def _add_listener(pod: Json, server: McpServer, context: ManifestContext) -> None:
    """Add to the pod of a stdio server the listener that makes it reachable over TCP: see `stdio_gate`."""
    volume: Json = {"name": "fairlead", "mountPath": stdio_gate.FOLDER}
    copy_busybox: Json = {
        "name": "listener",
        "image": context.images.runner if server.spec.package is not None else context.images.listener,
        "command": stdio_gate.installation_command(),
        "securityContext": _RESTRICTED_CONTAINER,
        "volumeMounts": [volume],
    }
    (container,) = pod["containers"]
    program = [*container.pop("command", ()), *container.pop("args", ())]
    port = server.spec.effective_port
    container["command"] = stdio_gate.listener_command(
        port,
        context.token_digest,
        program,
        max_processes=server.spec.limits.processes,
        key_variable=server.spec.key_variable,
        program_digest=program_digest(server),
    )
    container["readinessProbe"] = {
        "exec": {"command": stdio_gate.readiness_command(port)},
        "periodSeconds": 5,
        "failureThreshold": 3,
    }
    # The end of the listener aborts running calls, so it is delayed; new calls go to other pods meanwhile.
    sleep = [stdio_gate.BUSYBOX, "sleep", str(context.drain_seconds)]
    container["lifecycle"] = {"preStop": {"exec": {"command": sleep}}}
    container["volumeMounts"].append({**volume, "readOnly": True})
    pod["initContainers"] = [copy_busybox, *pod.get("initContainers", ())]
    pod["volumes"].append({"name": "fairlead", "emptyDir": {}})


def _add_installation(pod: Json, server: McpServer, package: Package, context: ManifestContext) -> None:
    """Add the init container that installs the package. The init container has the server's environment, which may name
    a registry.

    The volume `cache` lives as long as the pod; `spec.podTemplate` can replace it by a persistent volume.
    """
    (container,) = pod["containers"]
    volume: Json = {"name": "cache", "mountPath": CACHE}
    container["image"] = context.images.runner
    container["command"] = [f"{CACHE}/server", *package.args]
    container["volumeMounts"].append(volume)
    shared_members = ("env", "envFrom", "resources", "securityContext", "volumeMounts", "terminationMessagePolicy")
    arguments = ["--allow-build"] if package.allow_build else []
    arguments += [package.registry, package.name, package.version]
    arguments += [package.executable] if package.executable else []
    install: Json = {
        "name": INSTALL,
        "image": context.images.runner,
        "command": ["python", "-m", "fairlead_operator.local.runner", *arguments],
        **{member: container[member] for member in shared_members if member in container},
    }
    install["volumeMounts"] = list(container["volumeMounts"])
    pod["initContainers"] = [install]
    pod["volumes"].append({"name": "cache", "emptyDir": {}})
