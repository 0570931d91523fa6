"""Settings of the operator, from environment variables `FAIRLEAD_*`; each field says what it does."""

from __future__ import annotations

import contextlib
import os
import socket
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta, field

from fairlead_api.environment import EnvironmentSettings, prefixed
from fairlead_api.log_settings import LogSettings
from fairlead_api.setting_types import (
    EnvironmentName,
    HttpUrls,
    ImageReference,
    InstallationName,
    IpAddresses,
    ListenAddress,
    NamespaceName,
    NamespaceNames,
    Networks,
    ObjectName,
    ObjectNames,
    OptionalSeconds,
    Port,
    Seconds,
    Token,
    parsed_network,
)
from fairlead_mcp.addresses import listen_address
from fairlead_mcp.egress_settings import EgressSettings
from fairlead_operator.enforcement.manifests import ProbePods
from fairlead_operator.server.manifests import Images, ManifestContext
from fairlead_operator.server.spec_checks import PodTemplateChecker

_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

Action = Literal["Allow", "Deny"]
Style = Literal["name", "namespace-name"]
UserIds = Literal["Fixed", "Assigned"]
PodTemplateRule = Literal["Restricted", "Any"]
ProbeRule = Literal["Never", "Daily"]


class ReleaseSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Namespaces, and the objects of the release."""

    namespace: NamespaceName = ""
    """Namespace of the release: where documents and credentials are written and the Lease stands. Empty: that of the
    pod, else `fairlead-system`."""
    watch_namespace: NamespaceName = ""
    """The only namespace whose McpServers and ToolPolicies count. Empty: all namespaces."""
    secret_namespaces: NamespaceNames = ()
    """The only namespaces whose Secrets are read for servers, with rights of a Role in each. Empty: those of all
    namespaces that are followed."""
    owner_token: str = ""
    """Path of the token of the pod's ServiceAccount: documents, copied credentials and the Lease then belong to that
    account, and go with it when the release is uninstalled. Empty: they stay."""
    kubeconfig: str = ""
    """Path of a kubeconfig. Empty: `KUBECONFIG`, `~/.kube/config`, or the pod's ServiceAccount."""
    credentials_name: ObjectName = "fairlead-credentials"
    """Name of the Secrets that credentials of servers are copied into for the gateways, without their number (`-0` to
    `-15`)."""
    installation_secret: ObjectName = ""
    """Name of a Secret in the release's namespace with the keys `pullToken`, `sessionKey` and `auditKey`, which the
    operator makes where it is missing and takes `pull_token` from. Empty: `pull_token` is as set."""

    @property
    def release_namespace(self) -> str:
        """`namespace`, or what stands in for it."""
        if self.namespace:
            return self.namespace
        try:
            return _NAMESPACE_FILE.read_text().strip() or "fairlead-system"
        except OSError:
            return "fairlead-system"

    @property
    def secrets_read_in(self) -> tuple[str, ...]:
        """Namespaces whose Secrets are read for servers; an empty name stands for all."""
        return self.secret_namespaces or (self.watch_namespace,)


class LeaseSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("lease_")):
    """Lease of the replica that leads."""

    name: ObjectName = "fairlead-operator"
    """Name of the Lease."""
    seconds: Annotated[float, Meta(ge=1, le=3600)] = 15.0
    """How long a Lease stands unrenewed before another replica takes it. Writing stops after two thirds of it."""
    identity: str = field(default="", name="identity")
    """Name under which this replica holds the Lease. Empty: host name and process id."""

    @property
    def replica(self) -> str:
        """`identity`, or what stands in for it."""
        return self.identity or f"{socket.gethostname()}_{os.getpid()}"


class PublishSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Tools: prefixes, tiers, and the default rule."""

    tiers: str = ""
    """Path of a YAML file: a list of LatencyTiers, each with `name` and `spec`, that are created where there is none at
    all. Empty: fast, standard and deep."""
    default_tier: ObjectName = ""
    """LatencyTier of clients that name none, whichever of them has `default: true`. Empty: the one that has, else none:
    these clients see every tool that policies allow."""
    default_action: Action = "Allow"
    """Action for servers that no ToolPolicy selects."""
    prefix_style: Style = "name"
    """Default prefix of tools: the server's `name`, or `namespace-name` where namespaces share an installation."""
    prefix_retention_seconds: OptionalSeconds = 86400.0
    """Time for which the prefix of a deleted server is reserved for a server of the same namespace and name, in
    seconds; at most 32 prefixes for each namespace. 0: it passes to the next server that has it, at once."""
    gateway_approvals: bool = False
    """Whether administrators of gateways may approve definitions that are held back, over REST and in the console. As
    for the gateways."""


class PodSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Pods of servers, and those that probe the network."""

    listener_image: ImageReference = "busybox:1.37-musl"
    """Image with a static /bin/busybox, which serves stdio servers in pods."""
    runner_image: ImageReference = "localhost/fairlead-runner:0.1.0"
    """Image that `package` servers are installed and run in, as hack/images builds it."""
    api_server_networks: Networks = ()
    """Networks that the API server is in beside the address of its Service: most networks judge
    by the address behind a Service. `spec.network.egress` leaves them out of what it allows, or in with
    `kubernetesAPI`."""
    user_ids: UserIds = "Fixed"
    """User and group ids of servers' pods: `Fixed`, 65532, or `Assigned` by the cluster, as OpenShift does."""
    templates: PodTemplateRule = field(default="Restricted", name="pod_templates")
    """Which fields of its pods a server may set: `Restricted`, those of `spec.podTemplate`, which keep them within the
    Pod Security Standard "restricted", or `Any`, which allows `spec.unrestrictedPodTemplate` too."""
    any_templates_in: NamespaceNames = field(default=(), name="any_pod_templates_in")
    """Namespaces whose servers may set any field all the same."""
    logs: bool = field(default=False, name="pod_logs")
    """Whether the last words of a server on stdio that failed are read out of the log of its pod, which takes the right
    to get pods/log."""
    network_policy_probe: ProbeRule = "Never"
    """Whether two short-lived pods in the release's namespace find out if the cluster enforces NetworkPolicies:
    `Never`, or `Daily`, which takes the rights of operator/network-probe.yaml."""
    image_pull_secrets: ObjectNames = ()
    """Names of Secrets in the release's namespace that the image of these pods is fetched
    with."""

    def manifest_context(self, release_namespace: str) -> ManifestContext:
        """Parameters of the manifests of every server."""
        return ManifestContext(
            release_namespace,
            images=Images(self.listener_image, self.runner_image),
            api_server=tuple(map(str, self._api_server())),
            assigned_ids=self.user_ids == "Assigned",
        )

    def _api_server(self) -> list[IPv4Network | IPv6Network]:
        networks = [parsed_network(text) for text in self.api_server_networks]
        with contextlib.suppress(ValueError):
            networks.insert(0, ip_network(os.environ.get("KUBERNETES_SERVICE_HOST", "")))
        return networks

    @property
    def probe_pods(self) -> ProbePods:
        """Parameters of the pods that probe the network."""
        return ProbePods(self.listener_image, self.image_pull_secrets, self.user_ids == "Assigned")

    @property
    def template_rules(self) -> PodTemplateChecker:
        """Namespaces whose servers may have an `unrestrictedPodTemplate`."""
        return PodTemplateChecker(self.templates == "Any", frozenset(self.any_templates_in))


class ControllerSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Pace of discovery and of status."""

    interval_floor: Seconds = 10.0
    """Shortest time between two discoveries of a server that answers, in seconds, whatever its spec says."""
    discovery_timeout: Seconds = 60.0
    """Longest that one discovery may take, in seconds, all pages together."""
    sweep_seconds: Seconds = 180.0
    """Time between two comparisons of what exists with what is known."""
    list_seconds: Seconds = 20.0
    """Time between two complete lists of McpServers, LatencyTiers and ToolPolicies: the longest that one deleted during
    an outage of the API server stays in force after its return."""
    workers: Annotated[int, Meta(ge=1, le=1024)] = 16
    """Servers that are looked at side by side."""
    figures_seconds: OptionalSeconds = 60.0
    """Shortest time between two writes of measured figures to the status of one McpServer or LatencyTier."""


class MeasurementSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Gateways that measure the tools."""

    gateways: HttpUrls = ()
    """Where gateways are asked what they measured: `http://HOST:PORT` of their operations ports; a
    host name stands for as many replicas as it has addresses. Empty: `http://fairlead-gateway-ops:9464` in a pod, else
    `http://127.0.0.1:9464`."""
    pull_token: Token = ""
    """Bearer token for that; the FAIRLEAD_PULL_TOKEN of the gateways."""
    installation: InstallationName = ""
    """Name that requests to servers carry in `Via` (`fairlead-` and 16 hexadecimal digits), by which gateways find
    servers that lead back to them. As for the gateways. Empty: it follows from `pull_token`, without one this process
    has its own."""
    environment: EnvironmentName = "cluster"
    """Name under which this installation's own measurements are kept; the FAIRLEAD_ENVIRONMENT of the gateways."""

    @property
    def gateway_urls(self) -> tuple[str, ...]:
        """`gateways`, or what stands in for it."""
        usual = "http://fairlead-gateway-ops:9464" if _NAMESPACE_FILE.exists() else "http://127.0.0.1:9464"
        return self.gateways or (usual,)


class MetricsPortSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("metrics_")):
    """Port of metrics and probes."""

    host: ListenAddress = ""
    """Address that /metrics, /healthz and /readyz listen on; `::` is every address, IPv4 ones too. Empty: all addresses
    of the pod, and outside of pods `0.0.0.0`."""
    pod_ips: IpAddresses = field(default=(), name="pod_ips")
    """IP addresses of the pod that this runs in, the field `status.podIPs`. Without any this is not a pod's."""
    port: Port = 9464
    """Port of the same; 0 = any free one."""

    @property
    def address(self) -> str:
        """`host`, or what stands in for it."""
        return self.host or listen_address(self.pod_ips)


class Settings(EnvironmentSettings, frozen=True, kw_only=True):
    """All settings of an operator, in groups; read once, at the start."""

    release: ReleaseSettings = ReleaseSettings()
    lease: LeaseSettings = LeaseSettings()
    publish: PublishSettings = PublishSettings()
    pods: PodSettings = PodSettings()
    egress: EgressSettings = EgressSettings()
    controller: ControllerSettings = ControllerSettings()
    measurements: MeasurementSettings = MeasurementSettings()
    metrics: MetricsPortSettings = MetricsPortSettings()
    log: LogSettings = LogSettings()
