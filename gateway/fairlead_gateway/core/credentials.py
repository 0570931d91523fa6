"""Credentials of servers, as upstreams get them from the source of documents."""

from __future__ import annotations

from typing import Protocol

from fairlead_api.documents.catalog import Credential, CredentialRef


class CredentialUnreadable(Exception):
    """A credential that a catalog refers to cannot be had now. The message never holds any of it."""


class Credentials(Protocol):
    """Where the credentials of servers are kept."""

    async def read(self, ref: CredentialRef) -> Credential:
        """Raises CredentialUnreadable."""
        ...
