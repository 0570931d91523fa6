"""Authorization endpoint (RFC 6749 section 4.1.1): checks a request, and redirects the browser to a provider."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead_authorization.clients.client import ClientUnavailable, RegisteredClient, UnknownClient
from fairlead_authorization.clients.redirects import matches, redirect_host
from fairlead_authorization.protocol.browser_state import AwaitingProvider
from fairlead_authorization.protocol.grants import LoadedClient, LoadedRequest, LoadedServer, OAuth2Error
from fairlead_authorization.protocol.metadata import AUTHORIZE
from fairlead_authorization.protocol.parameters import MAX_QUERY, Parameters, UnreadableParameters, read_parameters
from fairlead_authorization.protocol.parts import AuthorizationParts
from fairlead_authorization.protocol.provider import OpenIdProvider
from fairlead_authorization.protocol.resources import canonical_resource
from fairlead_authorization.protocol.responses import browser_redirect, error_url
from fairlead_authorization.sessions.session import IdentityProviderUnavailable, RequestedAccess
from fairlead_gateway.identity.sealed_values import ValueTooLong
from fairlead_web.sign_in_html import choice_page

PROVIDER: Final = "fairlead_provider"
"""Parameter that names the provider, if a person can choose between several."""
UNUSABLE: Final = "This program cannot sign you in"


class PageProblem(Exception):
    """An error that is shown to the person and not sent to the client, because the redirect URI may belong to an
    attacker. The message is one sentence.
    """

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class _ClientRefused(Exception):
    """An error that is sent to the client (RFC 6749 section 4.1.2.1)."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


class _Target(NamedTuple):
    """Client and redirect URI to which the answer is sent."""

    client: RegisteredClient
    redirect_uri: str
    state: str


class AuthorizationEndpoint:
    """Answers `GET /oauth/authorize`."""

    def __init__(self, parts: AuthorizationParts) -> None:
        self._parts = parts

    async def answer(self, request: Request) -> Response:
        """Answer a browser. Raises PageProblem."""
        query = request.url.query
        if len(query) > MAX_QUERY:
            raise PageProblem(f"The request is too long: its parameters have more than {MAX_QUERY} characters.")
        try:
            parameters = read_parameters(query)
        except UnreadableParameters as error:
            raise PageProblem(f"{error}.") from error
        target = await self._target(parameters)
        try:
            access = self._check(parameters, target)
            provider = self._provider(parameters.values)
            if provider is None:
                return self._choice_of_providers(query)
            await asyncio.sleep(0)  # lets calls run, because the checks have taken some time
            return await self._send_to(provider, target, access, request)
        except _ClientRefused as error:
            outcome = "unavailable" if error.error == "temporarily_unavailable" else "refused"
            self._parts.counts.sign_ins[outcome] += 1
            client, issuer = target.client, self._parts.issuer
            return refusal(client, target.redirect_uri, error.error, str(error), target.state, issuer)

    async def _target(self, parameters: Parameters) -> _Target:
        """Check the client and its redirect URI. Raises PageProblem instead of _ClientRefused, because even an
        error must not be sent to an unchecked redirect URI.
        """
        values = parameters.values
        client_id, redirect_uri = values.get("client_id", ""), values.get("redirect_uri", "")
        if not client_id or parameters.repeated & {"client_id", "redirect_uri"}:
            raise PageProblem("The request must have one client_id and one redirect_uri.")
        client = await find_client(self._parts, client_id)
        if not matches(redirect_uri, client.redirect_uris):
            raise PageProblem(
                "The program asked for the answer at an address (redirect_uri) that it has not registered, or gave no "
                "address. Nothing was sent."
            )
        return _Target(client, redirect_uri, "" if "state" in parameters.repeated else values.get("state", ""))

    def _check(self, parameters: Parameters, target: _Target) -> RequestedAccess:
        """Check all other parameters. Raises _ClientRefused."""
        parts, values = self._parts, parameters.values
        if parameters.repeated - {"resource"}:
            raise _ClientRefused("invalid_request", "a parameter is repeated")
        client = LoadedClient(target.client, parts.scopes)
        try:
            scopes = LoadedServer(client).check_authorization(LoadedRequest("GET", parameters, {}))
        except OAuth2Error as error:
            raise _ClientRefused(error.error or "invalid_request", error.get_error_description() or "") from error
        resource = canonical_resource(values.get("resource", parts.issuer), parts.issuer)
        if resource is None or "resource" in parameters.repeated:
            raise _ClientRefused(
                "invalid_target", f"resource must be one URL, {parts.issuer} or one below it, without query"
            )
        return RequestedAccess(
            redirect_uri=target.redirect_uri,
            challenge=values["code_challenge"],
            resource=resource,
            scopes=scopes,
        )

    def _provider(self, values: Mapping[str, str]) -> OpenIdProvider | None:
        """The provider at which the person signs in; None while the person has to choose. Raises _ClientRefused."""
        providers = self._parts.providers
        if len(providers) == 1:
            return next(iter(providers.values()))
        name = values.get(PROVIDER)
        if name is not None and name not in providers:
            raise _ClientRefused(
                "invalid_request", f"the value of the parameter {PROVIDER} is not a provider of this gateway"
            )
        return None if name is None else providers[name]

    def _choice_of_providers(self, query: str) -> Response:
        choices = [
            (
                f"Sign in with {provider.client.display_name}",
                f"{self._parts.issuer}{AUTHORIZE}?{query}&{PROVIDER}={quote(name)}",
            )
            for name, provider in self._parts.providers.items()
        ]
        return choice_page("Sign in", "Choose where you have an account.", choices)

    async def _send_to(
        self, provider: OpenIdProvider, target: _Target, access: RequestedAccess, request: Request
    ) -> Response:
        """Redirect the browser to the provider, and set the cookie that the provider's answer needs. Raises
        _ClientRefused.
        """
        parts = self._parts
        try:
            sign_in = await provider.begin()
        except IdentityProviderUnavailable as error:
            raise _ClientRefused("temporarily_unavailable", str(error)) from error
        await asyncio.sleep(0)  # lets calls run again, before the state is sealed
        state = AwaitingProvider(
            id=sign_in.authorization.state,
            client_id=target.client.id,
            client_state=target.state,
            redirect_uri=access.redirect_uri,
            expires_at=parts.states.expiry(),
            provider=provider.client.name,
            challenge=access.challenge,
            resource=access.resource,
            scopes=access.scopes,
            authorization=msgspec.structs.replace(sign_in.authorization, url=""),
            nonce=sign_in.nonce,
        )
        try:
            cookie = parts.states.cookie(state)
        except ValueTooLong as error:
            raise _ClientRefused(
                "invalid_request", "state, redirect_uri and client_id are too long together"
            ) from error
        parts.counts.sign_ins["begun"] += 1
        return browser_redirect(sign_in.authorization.url, [*parts.states.surplus_cookies(request.cookies), cookie])


def refusal(client: RegisteredClient, redirect_uri: str, code: str, message: str, state: str, issuer: str) -> Response:
    """Response to a request that failed before anybody signed in. A client that a setting names gets the error by a
    redirect. For any other client, a page shows the error and a link: otherwise, links to the gateway could redirect a
    browser anywhere (RFC 9700 section 4.11.2).
    """
    url = error_url(redirect_uri, code, message, state, issuer)
    if client.is_named:
        return browser_redirect(url)
    text = f"You are not signed in: {message}. If you have just started this sign-in yourself, tell the program so."
    status = 503 if code == "temporarily_unavailable" else 400
    return choice_page(UNUSABLE, text, [(f"Go back to {redirect_host(redirect_uri)}", url)], status)


async def find_client(parts: AuthorizationParts, client_id: str) -> RegisteredClient:
    """Find the client with this id. Raises PageProblem if it is unknown or cannot be read."""
    try:
        return await parts.clients.find(client_id)
    except UnknownClient as error:
        raise PageProblem(f"{error}.") from error
    except ClientUnavailable as error:
        raise PageProblem(f"{error}.", 503) from error
