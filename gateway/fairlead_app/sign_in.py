"""Creates the user sign-ins to servers."""

from __future__ import annotations

import time
from collections.abc import Callable

from fairlead_api.documents.catalog import Catalog
from fairlead_api.meta import ServerKey
from fairlead_app.shared_parts import SharedParts
from fairlead_gateway.catalog.model import Snapshot
from fairlead_gateway.identity.persons import identity_of
from fairlead_gateway.reports.outbox import Outbox
from fairlead_gateway.sign_in.granted_listings import GrantedListings
from fairlead_gateway.sign_in.pending import PendingSignIns
from fairlead_gateway.sign_in.sealed_sign_ins import SignInSealer
from fairlead_gateway.sign_in.sign_ins import SignIns, SignInServices
from fairlead_gateway.sign_in.site import SignInSite
from fairlead_gateway.upstream.registry import Registry
from fairlead_mcp.addresses import authority


def granted_listings(
    shared: SharedParts, registry: Callable[[], Registry], outbox: Outbox, snapshot: Callable[[], Snapshot]
) -> GrantedListings:
    """Lists of servers that list nothing without a user's token. `registry` and `snapshot` (returns the served
    snapshot) are called only after the start.
    """
    auditor = shared.governance.auditor

    def observe(server: ServerKey, person: bytes, cause: str, seconds: float) -> None:
        if auditor is not None:
            auditor.record_grant(identity_of(person), server, cause, seconds)

    def find_catalog(key: ServerKey) -> Catalog | None:
        server = snapshot().servers.get(key)
        return None if server is None else server.catalog

    return GrantedListings(
        lambda: registry().consents(), shared.grants, outbox.add_listing, find_catalog, observe=observe
    )


def make_sign_ins(
    shared: SharedParts, registry: Callable[[], Registry], listings: GrantedListings, port: Callable[[], int]
) -> SignIns:
    """Sign-ins of one gateway. `registry` and `port` (returns the gateway's port) are called only after the start."""
    settings = shared.settings
    local = shared.identities.local

    def listening_at(host: str) -> str:
        scheme = "http" if settings.listening.tls.cert is None else "https"
        return f"{scheme}://{authority(host, port())}"

    def base() -> str:
        if settings.identity.public_url:
            return settings.identity.public_url.rstrip("/")
        if not local:
            return ""
        host = settings.listening.address
        return listening_at("127.0.0.1" if host == "localhost" else host)

    services = SignInServices(
        site=SignInSite(base, local, settings.console.enabled, lambda: listening_at("127.0.0.1")),
        store=shared.grants,
        find_consent=lambda key: registry().consent(key),
        needs_grants=lambda key: registry().needs_grants(key),
        all_consents=lambda: registry().consents(),
        find_credentials=lambda key: registry().credentials(key) if registry().consent(key) is not None else None,
        forget_key=lambda key, person: registry().forget(key, person),
        note_sign_in=listings.note_sign_in,
        clock=shared.clock,
    )
    sealer = SignInSealer(settings.installation.session_key.encode())
    return SignIns(services, PendingSignIns(sealer, time.time))
