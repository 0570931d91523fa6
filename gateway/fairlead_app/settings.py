"""Settings of a gateway, and their sources.

Read once by `__main__` or by the command line; the parts get their group, or values of it, and never see the
environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import field

from fairlead_api.environment import EnvironmentSettings
from fairlead_api.log_settings import LogSettings
from fairlead_api.setting_types import EnvironmentName, InstallationName, NamespaceName, Token
from fairlead_console.settings import ConsoleSettings
from fairlead_gateway.audit.settings import AuditSettings
from fairlead_gateway.calls.settings import CallSettings
from fairlead_gateway.context.settings import ResultSettings
from fairlead_gateway.endpoint.settings import ListeningSettings
from fairlead_gateway.identity.settings import IdentitySettings
from fairlead_gateway.limits.settings import LimitSettings
from fairlead_gateway.recent.settings import RecentCallSettings
from fairlead_gateway.upstream.settings import UpstreamSettings
from fairlead_models.settings import ModelSettings
from fairlead_rest.settings import RestSettings, ToolSearchSettings

DEFAULT_NAMESPACE: Final = "fairlead-system"
DEFAULT_LOCAL_NAMESPACE: Final = "default"
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class InstallationSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """The installation, and where its documents and credentials are."""

    name: InstallationName = field(default="", name="installation")
    """Name that requests to servers carry in `Via` (`fairlead-` and 16 hexadecimal digits), by which servers that lead
    back here are found. As for the operator; by default it follows from `pull_token`, without one each process has its
    own.
    """
    environment: EnvironmentName = "cluster"
    """Where this gateway stands: latencies are measured and judged apart for each. `fairlead up` says `local`."""
    pull_token: Token = ""
    """Bearer token that the operator shows when it fetches latencies. Without it only this machine may."""
    session_key: str = ""
    """Secret that session ids are signed with; replicas behind one address share it. Without it each has its own."""
    namespace: NamespaceName | None = None
    """Namespace of the release: where documents and credentials are. By default that of the pod, else fairlead-
    system.
    """
    documents: Path | None = None
    """Directory of documents. Without it they are read from the Kubernetes API."""
    credentials: Path | None = None
    """Directory of credentials; `credentials` inside `documents` by default. On a cluster, where the Secrets with them
    are mounted, for starts while the API server is away; the chart does that.
    """
    kubeconfig: Path | None = None
    """By default `KUBECONFIG`, `~/.kube/config`, or the pod's service account."""
    cache_dir: Path | None = None
    """Where the last documents are kept; nowhere without it."""

    @property
    def local_namespace(self) -> str:
        """Namespace of the server `local`: that of the release, off a cluster `default` like that of other servers."""
        return DEFAULT_LOCAL_NAMESPACE if self.documents is not None and not self.namespace else self.release_namespace

    @property
    def release_namespace(self) -> str:
        """`namespace`, or what stands in for it."""
        if self.namespace:
            return self.namespace
        try:
            return _NAMESPACE_FILE.read_text().strip() or DEFAULT_NAMESPACE
        except OSError:
            return DEFAULT_NAMESPACE


class RecordSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Records of calls, and the log."""

    aggregates: bool = False
    """Whether a histogram of its calls is kept for each tool, for `fairlead telemetry`. Nothing is sent anywhere."""
    log: LogSettings = LogSettings()
    audit: AuditSettings = AuditSettings()
    recent: RecentCallSettings = RecentCallSettings()


class Settings(EnvironmentSettings, frozen=True, kw_only=True):
    """All settings of a gateway, in groups. Each can be given as `FAIRLEAD_<NAME>`; lists are separated by commas."""

    installation: InstallationSettings = InstallationSettings()
    listening: ListeningSettings = ListeningSettings()
    identity: IdentitySettings = IdentitySettings()
    calls: CallSettings = CallSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    limits: LimitSettings = LimitSettings()
    results: ResultSettings = ResultSettings()
    search: ToolSearchSettings = ToolSearchSettings()
    rest: RestSettings = RestSettings()
    models: ModelSettings = ModelSettings()
    console: ConsoleSettings = ConsoleSettings()
    records: RecordSettings = RecordSettings()
