"""The objects that run an `image` or a `package` server, as plain dicts for server-side apply. Pure.

All are called like the server, stand in its namespace and are owned by it, so that they go with it even when no
operator runs. Pods are restricted: any user but root, no privileges, a read-only root with writable /tmp and home.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fairlead_api.meta import API_VERSION, LABEL_MANAGED_BY, LABEL_NAME, MANAGED_BY
from fairlead_api.v1alpha1.mcpserver import McpServer, Package
from fairlead_operator.server import stdio_gate
from fairlead_operator.server.egress import domain_rules, egress_rules
from fairlead_operator.server.overlay import merge
from fairlead_operator.server.secret_references import SecretReference, secret_references, without_secrets

Json = dict[str, Any]

CONTAINER: Final = "server"
INSTALL: Final = "install"
"""The init container of a `package` server that installs it."""
CACHE: Final = "/cache"
PORT_NAME: Final = "mcp"
ANNOTATION_SECRETS: Final = "fairlead.dev/secrets"
"""On pods: changes when a Secret that they read their environment from does, so that they are replaced."""

APP_LABEL: Final = "app.kubernetes.io/name"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
APP: Final = "fairlead"
CALLERS: Final = ("gateway", "operator")

DRAIN_SECONDS: Final = 5
"""How long a pod of a server on stdio goes on serving after it was told to end."""

_USER: Final = 65532
_HOME: Final = "/home/fairlead"
_RESTRICTED_CONTAINER: Final[Json] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_LEAST: Final[Json] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@dataclass(frozen=True)
class Images:
    """Images of the installation's own that pods need beside that of the server."""

    listener: str = "busybox:1.37-musl"
    """Has a static busybox as /bin/busybox."""
    runner: str = "localhost/fairlead-runner:0.1.0"
    """Installs packages; has a static busybox too."""


@dataclass(frozen=True)
class ManifestContext:
    """Parameters of the manifests beside the server itself."""

    release_namespace: str
    """Where gateway and operator run: nothing else may connect to a server."""
    secrets_revision: str = ""
    """Revision of the Secrets that the environment comes from; empty where there are none."""
    token_digest: str = ""
    """Digest of the token that a connection to a server on stdio begins with."""
    images: Images = Images()
    restricted: bool = True
    """Whether containers that `spec.podTemplate` adds are held to the restricted security context."""
    api_server: tuple[str, ...] = ()
    """Networks that the API server is in."""
    domain_policies: bool = False
    """Whether the cluster knows CiliumNetworkPolicies."""
    assigned_ids: bool = False
    """Whether the cluster assigns user and group ids, as OpenShift does; else they are fixed."""
    absent: frozenset[str] = frozenset()
    """Secrets that do not exist: optional references to them are left out."""


def selector_labels(server: McpServer) -> dict[str, str]:
    """Labels that Service, NetworkPolicy and Deployment select by. Never changes: a Deployment's selector is
    immutable.
    """
    return {LABEL_NAME: server.metadata.name, LABEL_MANAGED_BY: MANAGED_BY}


def service_host(server: McpServer) -> str:
    """The name under which the pods are found, one address per pod."""
    return f"{server.metadata.name}.{server.metadata.namespace}.svc"


def _metadata(server: McpServer) -> Json:
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
    """An identity without rights and without a token in the pod."""
    return {"metadata": _metadata(server), "automountServiceAccountToken": False}


def service(server: McpServer) -> Json:
    """Headless: the gateway speaks to pods one by one, so there is no address to translate and no port either. Of one
    family, that of the cluster: a second address of a pod would count as another pod.
    """
    port = {"name": PORT_NAME, "port": server.spec.effective_port, "targetPort": PORT_NAME, "protocol": "TCP"}
    spec = {"clusterIP": "None", "ipFamilyPolicy": "SingleStack", "selector": selector_labels(server), "ports": [port]}
    return {"metadata": _metadata(server), "spec": spec}


def network_policy(server: McpServer, context: ManifestContext) -> Json:
    """Only gateway and operator of the release may connect; the pods connect to what `spec.network` allows."""
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
    """Hosts by their names that the pods may connect to, beside what the NetworkPolicy allows; None = none."""
    network = server.spec.network
    rules = None if network is None or network.egress is None else domain_rules(network.egress, context.api_server)
    if rules is None:
        return None
    return {
        "metadata": _metadata(server),
        "spec": {"endpointSelector": {"matchLabels": selector_labels(server)}, **rules},
    }


def disruption_budget(server: McpServer) -> Json:
    """A node that is drained takes one pod at a time."""
    return {
        "metadata": _metadata(server),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector_labels(server)}},
    }


def deployment(server: McpServer, context: ManifestContext) -> Json:
    """The pods. `replicas` is left out where the spec leaves it out, for an autoscaler to own."""
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
    """The generated template with `spec.podTemplate` laid over it, and `spec.unrestrictedPodTemplate` over both."""
    overlay = server.spec.pod_template
    template: Json = merge(_generate(server, context), {} if overlay is None else overlay.overlay())
    if context.restricted and overlay is not None:
        template = _confine(template)
    template = merge(template, server.spec.unrestricted_pod_template or {})
    return without_secrets(template, context.absent)


def references(server: McpServer) -> list[SecretReference]:
    """Every Secret that the pods of a server would read; none for one that runs elsewhere."""
    if server.spec.source_kind not in ("image", "package"):
        return []
    return secret_references(pod_template(server, ManifestContext("", restricted=False)))


def _confine(template: Json) -> Json:
    """With what the restricted Pod Security Standard asks of a container below what its `securityContext` says."""
    spec = dict(template["spec"])
    for kind in ("initContainers", "containers"):
        if kind in spec:
            spec[kind] = [
                {**each, "securityContext": merge(_LEAST, each.get("securityContext") or {})} for each in spec[kind]
            ]
    return {**template, "spec": spec}


def _generate(server: McpServer, context: ManifestContext) -> Json:
    metadata: Json = {"labels": selector_labels(server)}
    if context.secrets_revision:
        metadata["annotations"] = {ANNOTATION_SECRETS: context.secrets_revision}
    spec: Json = {
        "serviceAccountName": server.metadata.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            **({} if context.assigned_ids else {"runAsUser": _USER, "runAsGroup": _USER, "fsGroup": _USER}),
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(server)],
        "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "home", "emptyDir": {}}],
    }
    if server.spec.runtime_class_name is not None:
        spec["runtimeClassName"] = server.spec.runtime_class_name
    if server.spec.package is not None:
        _install(spec, server, server.spec.package, context)
    if server.spec.effective_transport == "stdio":
        _listen(spec, server, context)
    return {"metadata": metadata, "spec": spec}


def _container(server: McpServer) -> Json:
    spec, image = server.spec, server.spec.image
    own = {variable.name for variable in spec.env}
    env = [] if "HOME" in own else [{"name": "HOME", "value": _HOME}]
    container: Json = {
        "name": CONTAINER,
        "image": "" if image is None else image.name,
        "env": env + [variable.to_wire() for variable in spec.env],
        "ports": [{"name": PORT_NAME, "containerPort": spec.effective_port, "protocol": "TCP"}],
        # Whether the port is open, and no more: a GET is refused by servers that take POST alone, and a real request
        # every few seconds would fill a server's log. That it serves is seen by discovery.
        "readinessProbe": {"tcpSocket": {"port": PORT_NAME}, "periodSeconds": 5, "failureThreshold": 3},
        "securityContext": _RESTRICTED_CONTAINER,
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


def _listen(pod: Json, server: McpServer, context: ManifestContext) -> None:
    """Make the pod of a server on stdio reachable: see `stdio_gate`."""
    volume: Json = {"name": "fairlead", "mountPath": stdio_gate.FOLDER}
    bring: Json = {
        "name": "listener",
        "image": context.images.runner if server.spec.package is not None else context.images.listener,
        "command": stdio_gate.installation(),
        "securityContext": _RESTRICTED_CONTAINER,
        "volumeMounts": [volume],
    }
    (container,) = pod["containers"]
    program = [*container.pop("command", ()), *container.pop("args", ())]
    port = server.spec.effective_port
    container["command"] = stdio_gate.listen(port, context.token_digest, program, most=server.spec.limits.processes)
    container["readinessProbe"] = {
        "exec": {"command": stdio_gate.readiness(port)},
        "periodSeconds": 5,
        "failureThreshold": 3,
    }
    # Calls that run are cut off by the end of the listener, so they get a moment; new ones go elsewhere by then.
    container["lifecycle"] = {"preStop": {"exec": {"command": [stdio_gate.BUSYBOX, "sleep", str(DRAIN_SECONDS)]}}}
    container["volumeMounts"].append({**volume, "readOnly": True})
    pod["initContainers"] = [bring, *pod.get("initContainers", ())]
    pod["volumes"].append({"name": "fairlead", "emptyDir": {}})


def _install(pod: Json, server: McpServer, package: Package, context: ManifestContext) -> None:
    """Have the package installed before the server starts, with its environment: it may name another registry.

    The volume `cache` lives as long as the pod; `spec.podTemplate` can put a lasting one in its place.
    """
    (container,) = pod["containers"]
    volume: Json = {"name": "cache", "mountPath": CACHE}
    container["image"] = context.images.runner
    container["command"] = [f"{CACHE}/server", *package.args]
    container["volumeMounts"].append(volume)
    shared = ("env", "envFrom", "resources", "securityContext", "volumeMounts", "terminationMessagePolicy")
    words = [package.registry, package.name, package.version, *([package.executable] if package.executable else [])]
    words = ["--allow-build", *words] if package.allow_build else words
    install: Json = {
        "name": INSTALL,
        "image": context.images.runner,
        "command": ["python", "-m", "fairlead_operator.local.runner", *words],
        **{member: container[member] for member in shared if member in container},
    }
    install["volumeMounts"] = list(container["volumeMounts"])
    pod["initContainers"] = [install]
    pod["volumes"].append({"name": "cache", "emptyDir": {}})
