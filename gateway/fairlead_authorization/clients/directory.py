"""Finds clients of all kinds: configured clients first, then registered clients, then clients with a document."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead_authorization.clients.client import RegisteredClient, UnknownClient
from fairlead_authorization.clients.client_ids import is_document_id
from fairlead_authorization.clients.document_clients import DocumentClients
from fairlead_authorization.clients.registration import ID_PREFIX, Registrations


class Clients:
    """The `ClientDirectory` of a gateway. `configured_clients` are clients by id. `registrations` is None if clients
    may not register themselves.
    """

    def __init__(
        self,
        configured_clients: Mapping[str, RegisteredClient],
        registrations: Registrations | None,
        documents: DocumentClients,
    ) -> None:
        self._configured = configured_clients
        self.registrations = registrations
        self._documents = documents

    async def find(self, client_id: str) -> RegisteredClient:
        """The client with an id. Raises UnknownClient, ClientUnavailable."""
        if client := self._configured.get(client_id):
            return client
        if client_id.startswith(ID_PREFIX):
            if self.registrations is None:
                raise UnknownClient("clients cannot register themselves here: remove this client's registration")
            return self.registrations.find(client_id)
        if is_document_id(client_id):
            return await self._documents.find(client_id)
        raise UnknownClient(
            f"there is no client {client_id[:80]!r}: an administrator can add it to clients of authorizationServer"
        )

    async def aclose(self) -> None:
        """End fetches of documents."""
        await self._documents.aclose()
