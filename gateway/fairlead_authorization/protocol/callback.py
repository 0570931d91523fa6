"""Redirect URI of the gateway at the providers: processes their answers, then shows the consent page or redirects to
the client.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from fairlead_authorization.clients.client import RegisteredClient
from fairlead_authorization.clients.redirects import matches
from fairlead_authorization.protocol.authorize import PageProblem, find_client, refusal
from fairlead_authorization.protocol.browser_state import AwaitingProvider
from fairlead_authorization.protocol.consent import ConsentPages, Recorder
from fairlead_authorization.protocol.parameters import MAX_QUERY, UnreadableParameters, read_parameters
from fairlead_authorization.protocol.parts import AuthorizationParts
from fairlead_authorization.protocol.provider import PersonDeclined, ProviderSignIn, SignedIn, SignInFailed
from fairlead_authorization.protocol.responses import browser_redirect, with_cookies
from fairlead_authorization.sessions.session import IdentityProviderUnavailable, SessionStoreUnavailable

NOT_BEGUN: Final = (
    "This sign-in was not begun in this browser, was completed already, or took longer than ten minutes. Start again "
    "from the program that wants to sign you in."
)


class ProviderCallback:
    """Answers `GET /oauth/callback/NAME`."""

    def __init__(self, parts: AuthorizationParts, consents: ConsentPages) -> None:
        self._parts = parts
        self._consents = consents

    async def answer(self, request: Request, name: str, record: Recorder) -> Response:
        """Answer a browser that the provider `name` has redirected. Raises PageProblem."""
        parts = self._parts
        try:
            parameters = read_parameters(request.url.query[:MAX_QUERY])
        except UnreadableParameters as error:
            raise PageProblem(f"{error}.") from error
        state = parts.states.find(AwaitingProvider, request.cookies, parameters.values.get("state", ""))
        # the path names the provider, so that an answer of one provider is never used as another provider's answer
        if state is None or state.provider != name or parameters.repeated or name not in parts.providers:
            raise PageProblem(NOT_BEGUN, 403)
        client = await find_client(parts, state.client_id)
        if not matches(state.redirect_uri, client.redirect_uris):
            raise PageProblem("The program has changed its redirect URIs meanwhile: sign in again from there.")
        end = parts.states.end_cookie(state.id)
        try:
            request_at_provider = ProviderSignIn(state.authorization, state.nonce)
            signed_in = await parts.providers[name].finish(request_at_provider, parameters.values)
            await asyncio.sleep(0)  # lets calls run, because verifying the answer has taken some time
            return await self._continue(request, state, client, signed_in, record)
        except PersonDeclined as declined:
            code, message = "access_denied", str(declined)
        except (IdentityProviderUnavailable, SessionStoreUnavailable) as unavailable:
            code, message = "temporarily_unavailable", str(unavailable)
        except SignInFailed as failed:
            raise PageProblem(f"You are not signed in: {failed}.") from failed
        parts.counts.sign_ins["denied" if code == "access_denied" else "unavailable"] += 1
        answer = refusal(client, state.redirect_uri, code, message, state.client_state, parts.issuer)
        return with_cookies(answer, [end])

    async def _continue(
        self, request: Request, state: AwaitingProvider, client: RegisteredClient, signed_in: SignedIn, record: Recorder
    ) -> Response:
        waiting = await self._parts.sessions.begin(signed_in.person, client, state.access, signed_in.grant)
        if waiting.has_consent:
            url = await self._consents.code_url(waiting, state, record)
            return browser_redirect(url, [self._parts.states.end_cookie(state.id)])
        return self._consents.ask(waiting.session, client, state)
