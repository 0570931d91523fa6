"""Components of a gateway that all other components depend on: settings, limits, authentication, and the served
selection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from fairlead_app.authentication import Trust
from fairlead_app.authorization import OwnTokenParts, own_token_parts
from fairlead_app.governance import Governance, configured_proxies
from fairlead_app.settings import Settings
from fairlead_app.stored_grants import grant_store
from fairlead_gateway.calls.path.startup import StartupWait
from fairlead_gateway.endpoint.trusted_proxies import TrustedProxies
from fairlead_gateway.events import EventLog
from fairlead_gateway.grants.store import ClosableGrantStore
from fairlead_gateway.heap import Heap
from fairlead_gateway.identity.request_authentication import Identities
from fairlead_gateway.identity.resource import ProtectedResource
from fairlead_gateway.limits.buffers import AnswerBuffers
from fairlead_gateway.policy.selection import ServedSelection
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_mcp.addresses import AllowList, is_loopback
from fairlead_mcp.eras import Client
from fairlead_mcp.via import pseudonym
from fairlead_tools.validation.schema_cache import Checks
from fairlead_tools.version import NAME, VERSION

if TYPE_CHECKING:
    from fairlead_kube.client import Kube

CLIENT: Final = Client(name=NAME, version=VERSION)
"""Client information that the gateway sends to servers."""
SERVER_INFO: Final = msgspec.json.encode(CLIENT)
"""Server information that the gateway sends to clients, raw JSON."""
LOCAL_ENVIRONMENT: Final = "local"
"""Name of the environment of a gateway that serves one machine."""


class SharedParts(msgspec.Struct, frozen=True, kw_only=True):
    """Components without dependencies on other components. `clock` is in seconds."""

    settings: Settings
    clock: Callable[[], float]
    heap: Heap
    trust: Trust
    installation: str
    """Value of `Via` in the gateway's own requests (RFC 9110, 7.6.3)."""
    served: ServedSelection
    """Reference to the served `Selection`, which each activation replaces."""
    startup_wait: StartupWait
    """Requests that wait for starting servers."""
    checks: Checks
    """Compiled schemas of tools, for the validation of arguments and results."""
    events: EventLog
    """Events of servers and tools, for subscribers."""
    metrics: MetricsRegistry
    governance: Governance
    identities: Identities
    grants: ClosableGrantStore | None
    """Grants that users made for servers; None if none can be stored."""
    own_tokens: OwnTokenParts | None
    """Tokens that the gateway issues itself; None without an authorization server."""
    resource: ProtectedResource
    """OAuth metadata of the gateway as a protected resource (RFC 9728)."""
    allow: AllowList
    """Allowed values of Host and Origin."""
    proxies: TrustedProxies
    buffers: AnswerBuffers
    """Memory limits for responses that are still arriving, or that clients have not read."""


def shared_parts(
    settings: Settings, trust: Trust, heap: Heap, clock: Callable[[], float], kube: Kube | None = None
) -> SharedParts:
    """Create the shared components. `kube` is the client of the cluster, if there is one. Raises BadSetting.

    If there is an authenticator, requests without a credential are rejected unless the setting `anonymous` is `allow`.
    """
    metrics = MetricsRegistry()
    served = ServedSelection()
    installation, listening = settings.installation, settings.listening
    identity, calls = settings.identity, settings.calls
    anonymous = identity.anonymous == "allow" or (identity.anonymous is None and not trust.authenticators)
    grants = grant_store(settings.upstream.grants, settings.limits.redis, kube, installation.release_namespace)
    own_tokens = own_token_parts(trust.authorization, grants, clock)
    authenticators = trust.authenticators if own_tokens is None else (own_tokens.authenticator, *trust.authenticators)
    return SharedParts(
        settings=settings,
        clock=clock,
        heap=heap,
        trust=trust,
        installation=installation.name or pseudonym(installation.pull_token),
        served=served,
        startup_wait=StartupWait(served.get, calls.start_wait, metrics.shares),
        checks=Checks(),
        events=EventLog(),
        metrics=metrics,
        governance=Governance(settings.limits, settings.records, metrics, clock),
        identities=Identities(authenticators, anonymous=anonymous, local=_serves_owner(settings)),
        grants=grants,
        own_tokens=own_tokens,
        resource=ProtectedResource(
            identity.public_url, trust.issuers, trust.scopes, secure=listening.tls.cert is not None
        ),
        allow=AllowList.for_bind(listening.address, listening.allowed_hosts, listening.allowed_origins),
        proxies=configured_proxies(listening.trusted_proxies),
        buffers=AnswerBuffers(calls.answer_bytes, calls.answer_bytes_each),
    )


def _serves_owner(settings: Settings) -> bool:
    """Whether the gateway serves only its own machine, as `fairlead up` does unless `--host` or another setting says
    that other machines reach it.
    """
    listening = settings.listening
    local = settings.installation.environment == LOCAL_ENVIRONMENT and is_loopback(listening.address)
    return local and not (listening.trusted_proxies or listening.allowed_hosts or settings.identity.public_url)
