"""Settings of the operator, from environment variables `FAIRLEAD_*`; the docstring of each field is its description."""

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
    Port,
    Seconds,
    SecondsOrZero,
    Token,
    parsed_network,
)
from fairlead_mcp.addresses import listen_address
from fairlead_mcp.egress_settings import EgressSettings
from fairlead_operator.enforcement.manifests import ProbePods
from fairlead_operator.server.kube_manifests import DRAIN_SECONDS, Images, ManifestContext
from fairlead_operator.server.spec_checks import PodTemplateChecker

_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

Action = Literal["Allow", "Deny"]
Style = Literal["name", "namespace-name"]
UserIds = Literal["Fixed", "Assigned"]
PodTemplateRule = Literal["Restricted", "Any"]
ProbeRule = Literal["Never", "Daily"]


class ReleaseSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Namespaces and objects of the release."""

    namespace: NamespaceName = ""
    """Namespace of the release, which contains documents, credentials and the Lease. Empty: the namespace of the pod,
    else `fairlead-system`.
    """
    watch_namespace: NamespaceName = ""
    """The only namespace whose McpServers and ToolPolicies are read. Empty: all namespaces."""
    secret_namespaces: NamespaceNames = ()
    """The only namespaces whose Secrets are read for servers; each needs a Role. Empty: all watched namespaces."""
    owner_token: str = ""
    """Path of the token of the pod's ServiceAccount, which then owns documents, copied credentials and the Lease, so
    that they are deleted when the release is uninstalled. Empty: they stay.
    """
    owner_service: ObjectName = ""
    """Name of a Service of the release, which then owns these objects too: they are deleted when both are gone, and
    stay when the release changes the ServiceAccount. Empty: none.
    """
    kubeconfig: str = ""
    """Path of a kubeconfig. Empty: `KUBECONFIG`, `~/.kube/config`, or the pod's ServiceAccount."""
    credentials_name: ObjectName = "fairlead-credentials"
    """Name of the Secrets with the gateways' copies of servers' credentials, without their number (`-0` to `-15`)."""
    installation_secret: ObjectName = ""
    """Name of a Secret in the release's namespace with the keys `pullToken`, `sessionKey` and `auditKey`. The operator
    creates it if it is missing, and uses its `pullToken` instead of FAIRLEAD_PULL_TOKEN. Empty: none.
    """

    @property
    def release_namespace(self) -> str:
        """`namespace`, or its default."""
        if self.namespace:
            return self.namespace
        try:
            return _NAMESPACE_FILE.read_text().strip() or "fairlead-system"
        except OSError:
            return "fairlead-system"

    @property
    def secrets_read_in(self) -> tuple[str, ...]:
        """Namespaces whose Secrets are read for servers; an empty name stands for all namespaces."""
        return self.secret_namespaces or (self.watch_namespace,)


class LeaseSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("lease_")):
    """Lease of the leading replica."""

    name: ObjectName = "fairlead-operator"
    """Name of the Lease that the leading replica of the operator holds."""
    seconds: Annotated[float, Meta(ge=1, le=3600)] = 15.0
    """Seconds after its last renewal when another replica may take over the Lease. The leader stops writing after two
    thirds of them.
    """
    identity: str = field(default="", name="identity")
    """Name under which this replica holds the Lease. Empty: host name and process id."""

    @property
    def replica(self) -> str:
        """`identity`, or its default."""
        return self.identity or f"{socket.gethostname()}_{os.getpid()}"


class PublishSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Prefixes of tools, tiers, and the default action of policies."""

    tiers: str = ""
    """Path of a YAML file with a list of LatencyTiers, each with `name` and `spec`. They are created if no LatencyTier
    exists. Empty: fast, standard and deep.
    """
    default_tier: ObjectName = ""
    """LatencyTier of clients that name none; overrides `default: true` of LatencyTiers. Empty: the one with `default:
    true`. Without either, these clients see every tool that policies allow.
    """
    default_action: Action = "Allow"
    """Action for servers that no ToolPolicy selects."""
    prefix_style: Style = "name"
    """Default prefix of tools: the server's `name`, or `namespace-name` where namespaces share an installation."""
    prefix_retention_seconds: SecondsOrZero = 86400.0
    """Seconds for which the prefix of a deleted server is reserved for a server of the same namespace and name; at most
    32 prefixes per namespace. 0: the next server that claims the prefix gets it at once.
    """
    gateway_approvals: bool = False
    """Whether administrators of gateways may approve definitions that are held back, over REST and in the console. Set
    the same value for the gateways.
    """


class PodSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Pods of servers, and pods that probe the network."""

    listener_image: ImageReference = "busybox:1.37-musl"
    """Image with a static /bin/busybox, which serves stdio servers in pods."""
    runner_image: ImageReference = "localhost/fairlead-runner:0.1.0"
    """Image in which `package` servers are installed and run; hack/images builds it."""
    pod_drain_seconds: Annotated[int, Meta(ge=1, le=600)] = DRAIN_SECONDS
    """Seconds for which a server's pod that is about to end still takes requests: 5 more than name servers give its
    address for. Set 40 if they cache addresses for 30 s.
    """
    api_server_networks: Networks = ()
    """Networks of the API server in addition to the address of its Service, because most network plugins check the
    address behind a Service. `spec.network.egress` excludes them from what it allows, or includes them with
    `kubernetesAPI`.
    """
    user_ids: UserIds = "Fixed"
    """User and group IDs of servers' pods: `Fixed` (65532), or `Assigned` by the cluster, as OpenShift does."""
    templates: PodTemplateRule = field(default="Restricted", name="pod_templates")
    """Fields of pods that an McpServer may set. `Restricted`: those of `spec.podTemplate`, within the Pod Security
    Standard "restricted". `Any`: those of `spec.unrestrictedPodTemplate` too.
    """
    any_templates_in: NamespaceNames = field(default=(), name="any_pod_templates_in")
    """Namespaces whose servers may set any field even if FAIRLEAD_POD_TEMPLATES is `Restricted`."""
    logs: bool = field(default=False, name="pod_logs")
    """Whether the failure of a stdio server is explained by the last lines of its pod's log. Requires the right to get
    pods/log.
    """
    network_policy_probe: ProbeRule = "Never"
    """Whether two short-lived pods in the release's namespace check if the cluster enforces NetworkPolicies: `Never`,
    or `Daily`, which requires the rights in operator/network-probe.yaml.
    """
    image_pull_secrets: ObjectNames = ()
    """Names of Secrets in the release's namespace for pulling the image of the network probe's pods."""

    def manifest_context(self, release_namespace: str) -> ManifestContext:
        """Parameters of the manifests of every server."""
        return ManifestContext(
            release_namespace,
            images=Images(self.listener_image, self.runner_image),
            drain_seconds=self.pod_drain_seconds,
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
        """Checker of pod templates, with the namespaces whose servers may have an `unrestrictedPodTemplate`."""
        return PodTemplateChecker(self.templates == "Any", frozenset(self.any_templates_in))


class ControllerSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Timing of discoveries and of writes to statuses."""

    interval_floor: Seconds = 10.0
    """Shortest time between two discoveries of a server that answers, in seconds; overrides its spec."""
    discovery_timeout: Seconds = 60.0
    """Timeout of one discovery with all pages, in seconds."""
    sweep_seconds: Seconds = 180.0
    """Seconds between two sweeps, which clean up after servers whose deletion was missed."""
    list_seconds: Seconds = 20.0
    """Seconds between two complete lists of McpServers, LatencyTiers and ToolPolicies. A resource that is deleted
    during an outage of the API server stays in force at most this long after the outage.
    """
    workers: Annotated[int, Meta(ge=1, le=1024)] = 16
    """Number of servers that are reconciled concurrently."""
    figures_seconds: SecondsOrZero = 60.0
    """Shortest time between two writes of measured latencies to the status of one McpServer or LatencyTier, in
    seconds.
    """


class MeasurementSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Polling of the gateways' measurements."""

    gateways: HttpUrls = ()
    """URLs `http://HOST:PORT` of the gateways' operations ports, which are polled for measurements; each address of a
    host name is a replica. Empty: `http://fairlead-gateway-ops:9464` in a pod, else `http://127.0.0.1:9464`.
    """
    pull_token: Token = ""
    """Bearer token for polling gateways; the same as FAIRLEAD_PULL_TOKEN of the gateways."""
    installation: InstallationName = ""
    """Name of the installation in the `Via` header of requests to servers (`fairlead-` and 16 hexadecimal digits), by
    which gateways detect servers that lead back to them. Set the same value for the gateways. Empty: derived from
    FAIRLEAD_PULL_TOKEN, or random without one.
    """
    environment: EnvironmentName = "cluster"
    """Name under which this installation's measurements are stored; the same as FAIRLEAD_ENVIRONMENT of the
    gateways.
    """

    @property
    def gateway_urls(self) -> tuple[str, ...]:
        """`gateways`, or its default."""
        default = "http://fairlead-gateway-ops:9464" if _NAMESPACE_FILE.exists() else "http://127.0.0.1:9464"
        return self.gateways or (default,)


class MetricsPortSettings(EnvironmentSettings, frozen=True, kw_only=True, rename=prefixed("metrics_")):
    """Port of metrics and probes."""

    host: ListenAddress = ""
    """Address on which /metrics, /healthz and /readyz are served; `::` is every address, IPv4 ones too. Empty: all
    addresses of the pod; outside of pods `0.0.0.0`.
    """
    pod_ips: IpAddresses = field(default=(), name="pod_ips")
    """IP addresses of the operator's pod, its field `status.podIPs`. Empty: the operator does not run in a pod."""
    port: Port = 9464
    """Port on which /metrics, /healthz and /readyz are served; 0: any free port."""

    @property
    def address(self) -> str:
        """`host`, or its default."""
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
