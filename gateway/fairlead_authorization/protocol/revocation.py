"""Revocation endpoint (RFC 7009): a client ends its access for a person."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from fairlead_authorization.protocol.client_requests import ClientRequests, unavailable_error
from fairlead_authorization.protocol.metadata import REVOKE
from fairlead_authorization.protocol.parts import AuthorizationParts
from fairlead_authorization.protocol.responses import OAuthRefusal, json_answer
from fairlead_authorization.sessions.session import SessionStoreUnavailable


class RevocationEndpoint:
    """Answers `POST /oauth/revoke`."""

    def __init__(self, parts: AuthorizationParts) -> None:
        self._sessions = parts.sessions
        self._own_tokens = parts.own_tokens
        self._requests = ClientRequests(parts, REVOKE)

    async def answer(self, request: Request) -> Response:
        """Answer a client. The answer to an unknown token is 200 too (section 2.2). Both refresh token and access token
        end the session, if it belongs to this client. Raises OAuthRefusal.
        """
        authenticated = await self._requests.read(request)
        token = authenticated.form.get("token")
        if token is None:
            raise OAuthRefusal("invalid_request", "the request needs token")
        client_id = authenticated.client.client.id
        try:
            await self._sessions.revoke(token, client_id)
            if self._own_tokens.recognizes(token):
                owner = await self._own_tokens.session_of(token)
                if owner is not None and owner.client_id == client_id:
                    await self._sessions.end(owner.person, owner.session)
        except SessionStoreUnavailable as error:
            raise unavailable_error(error) from error
        return json_answer({})
