"""Protocols that a connection may go on with after a request that asks for one (RFC 9110 section 7.8)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from fairlead_gateway.endpoint.framing import Field


class UpgradeHandler(Protocol):
    """Takes over connections, with the request that asked for it."""

    def takes(self, target: bytes, fields: Sequence[Field]) -> bool:
        """Whether a request is taken over. Others are answered as if they had asked for no other protocol."""
        ...

    def protocol(self) -> asyncio.Protocol:
        """A protocol for one connection, that begins with the head of the request."""
        ...
