"""Interface for reading the credentials that the gateway presents to servers."""

from __future__ import annotations

from typing import Protocol

from fairlead_api.documents.catalog import Credential, CredentialRef


class CredentialUnreadable(Exception):
    """A credential that a catalog refers to cannot be read. The message never contains parts of the credential."""


class Credentials(Protocol):
    """Source of the credentials that the gateway presents to servers."""

    async def read(self, ref: CredentialRef) -> Credential:
        """Read a credential. Raises CredentialUnreadable."""
        ...
