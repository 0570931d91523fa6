"""Settings of a gateway.

They are read once, by `__main__` or by the command line. Components get their group of settings, or single values, and
never read the environment.
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
from fairlead_gateway.endpoint.settings import ListeningSettings
from fairlead_gateway.identity.settings import IdentitySettings
from fairlead_gateway.limits.settings import LimitSettings
from fairlead_gateway.recent.settings import RecentCallSettings
from fairlead_gateway.result_stores.settings import ResultSettings
from fairlead_gateway.upstream.settings import UpstreamSettings
from fairlead_models.settings import ModelSettings
from fairlead_rest.settings import RestSettings, ToolSearchSettings

DEFAULT_NAMESPACE: Final = "fairlead-system"
DEFAULT_LOCAL_NAMESPACE: Final = "default"
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class InstallationSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """The installation, and the sources of its documents and credentials."""

    name: InstallationName = field(default="", name="installation")
    """Name of the installation in the header `Via` of requests to servers (`fairlead-` and 16 hexadecimal digits), by
    which loops are detected. Set the same name for the operator. By default, the name is derived from `pull_token`;
    without a token, each process has a random name.
    """
    environment: EnvironmentName = "cluster"
    """Name of the environment, whose latencies are measured and judged separately. `fairlead up` sets `local`."""
    pull_token: Token = ""
    """Bearer token that the operator sends when it fetches latencies. Without a token, only loopback addresses may
    fetch latencies.
    """
    session_key: str = ""
    """Secret key that signs session ids, shared by replicas behind one address. Without it, each process has a random
    key.
    """
    namespace: NamespaceName | None = None
    """Namespace of the release, with its documents and credentials. By default the pod's namespace; outside of a pod
    `fairlead-system`.
    """
    documents: Path | None = None
    """Directory of documents. Without it, documents are read from the Kubernetes API."""
    credentials: Path | None = None
    """Directory of credentials; by default `credentials` inside `documents`. On a cluster, the mount path of the
    Secrets with credentials, for starts while the API server cannot be reached; the chart sets it.
    """
    kubeconfig: Path | None = None
    """Path of the kubeconfig. By default `KUBECONFIG`, `~/.kube/config`, or the pod's service account."""
    cache_dir: Path | None = None
    """Directory that caches the last documents; without it, documents are not cached."""

    @property
    def local_namespace(self) -> str:
        """Namespace of the server `local`: `default` with `documents` and without `namespace`, otherwise
        `release_namespace`.
        """
        return DEFAULT_LOCAL_NAMESPACE if self.documents is not None and not self.namespace else self.release_namespace

    @property
    def release_namespace(self) -> str:
        """`namespace`, or its default."""
        if self.namespace:
            return self.namespace
        try:
            return _NAMESPACE_FILE.read_text().strip() or DEFAULT_NAMESPACE
        except OSError:
            return DEFAULT_NAMESPACE


class RecordSettings(EnvironmentSettings, frozen=True, kw_only=True):
    """Records of calls, and the log."""

    aggregates: bool = False
    """Whether to keep a histogram of calls for each tool, for `fairlead telemetry`. Nothing is sent to other
    parties.
    """
    log: LogSettings = LogSettings()
    audit: AuditSettings = AuditSettings()
    recent: RecentCallSettings = RecentCallSettings()


class Settings(EnvironmentSettings, frozen=True, kw_only=True):
    """All settings of a gateway, in groups. Each has a variable `FAIRLEAD_<NAME>`; lists are separated by commas."""

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
