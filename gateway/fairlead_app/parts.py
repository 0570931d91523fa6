"""Components of a gateway, as connected by `compose`."""

from __future__ import annotations

import msgspec

from fairlead_app.authorization import AuthorizationService
from fairlead_app.call_path import McpPath
from fairlead_app.grant_upkeep import GrantUpkeep
from fairlead_app.model_endpoints import ModelEndpoints
from fairlead_app.shared_parts import SharedParts
from fairlead_gateway.catalog.source import SnapshotStore
from fairlead_gateway.reports.outbox import Outbox
from fairlead_gateway.sign_in.granted_listings import GrantedListings
from fairlead_gateway.sign_in.sign_ins import SignIns
from fairlead_gateway.upstream.registry import Registry
from fairlead_offers.services import ToolServices
from fairlead_rest.context import RestContext
from fairlead_tools.handlers.tools import CustomTools


class GatewayParts(msgspec.Struct, frozen=True, kw_only=True):
    """Components of one gateway, before its start."""

    shared: SharedParts
    snapshots: SnapshotStore
    registry: Registry
    """Upstreams of all servers."""
    outbox: Outbox
    """Latency report that the operator fetches."""
    custom: CustomTools
    path: McpPath
    tools: ToolServices
    rest: RestContext
    sign_ins: SignIns
    """User sign-ins to servers."""
    listings: GrantedListings
    """Lists that are read with grants of users."""
    upkeep: GrantUpkeep
    models: ModelEndpoints
    authorization: AuthorizationService | None
    """Authorization server in front of the identity providers; None if it is not configured."""
