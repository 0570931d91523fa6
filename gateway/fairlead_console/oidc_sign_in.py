"""Sign-in to the console by OpenID Connect: authorization code flow with PKCE, `state` and `nonce`.

The provider redirects the browser back from another site. Within such a chain of redirects, browsers send no
`SameSite=Strict` cookie, not even a cookie that was just set. So the callback does not redirect to the console. It
answers with a page that sets the session's cookie and then loads the console. The request of this page is same-site, so
the cookie can be `Strict`.

The sign-in starts with a link, not a form, because the policy `form-action 'self'` does not allow the redirect of a
form to the provider.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from fairlead_console.admission import SIGN_IN, Access
from fairlead_console.context import ConsoleContext
from fairlead_console.html import redirect
from fairlead_console.oidc_answers import SignInFault, code_of
from fairlead_console.oidc_provider import CALLBACK, OidcProvider, TokenAnswer
from fairlead_console.oidc_transactions import COOKIE_PATH, SIGN_IN_SECONDS, SignInTransaction, SignInTransactions
from fairlead_console.paths import ROOT, header
from fairlead_console.session_cookie import SESSION_SECONDS, ConsoleSession
from fairlead_console.sign_in_form import SignInForm, safe_return_path, with_cookies
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity.console_client import ConsoleSignIn
from fairlead_gateway.identity.id_tokens import id_token_fault, serves_as_hint
from fairlead_gateway.identity.refusal import CredentialRefusal
from fairlead_gateway.identity.sealed_values import ValueTooLong

START: Final = COOKIE_PATH
_UNKNOWN_SIGN_IN: Final = (
    "This sign-in was not started in this browser, was completed already, or took longer than ten minutes. Start again"
)
_SIGNED_IN_PAGE: Final = "signed_in.html"
_SIGNED_OUT_PAGE: Final = "signed_out.html"


class OidcSignIn:
    """Routes and sessions of the sign-in by one provider. Each gateway has at most one instance."""

    def __init__(self, console: ConsoleContext, access: Access, form: SignInForm, sign_in: ConsoleSignIn) -> None:
        self._console = console
        self._access = access
        self._form = form
        self._client = sign_in.client
        self._tokens = sign_in.tokens
        self._provider = OidcProvider(sign_in.client)
        self._transactions = SignInTransactions(access.sealer)
        self._secure = sign_in.client.base.startswith("https:")

    def router(self) -> APIRouter:
        """Make the routes of the sign-in."""
        routes = APIRouter()

        @routes.get(START)
        async def start(request: Request) -> Response:
            return await self.begin(request, safe_return_path(request.query_params.get("next", ROOT)))

        @routes.get(CALLBACK)
        async def callback(request: Request) -> Response:
            return await self._answer_callback(request)

        return routes

    async def begin(self, request: Request, location: str, renews: ConsoleSession | None = None) -> Response:
        """Redirect the browser to the provider.

        With `renews`, the provider is asked to confirm the user of this session without interaction (`prompt=none`).
        The redirect also ends the session, so that the renewal is tried only once.
        """
        transaction = self._transactions.begin(location, renews)
        cookies = [] if renews is None else [self._access.sealer.end_cookie(secure=self._secure)]
        try:
            address = await self._provider.authorization_url(transaction)
        except SignInFault as fault:
            return await self._form.answer(request, str(fault), fault.status, location, cookies)
        cookies += self._transactions.surplus_cookies(header(request.scope, b"cookie"), secure=self._secure)
        cookies.append(self._transactions.cookie(transaction, secure=self._secure))
        return with_cookies(redirect(address), cookies)

    async def answer_sign_out(self, request: Request, end_cookie: str, credential: str) -> Response:
        """Answer a sign-out, with a page that leads to the provider's logout if the provider has one.

        `end_cookie` is the `Set-Cookie` that ends the console's session; `credential` is the credential of that
        session.
        """
        hint = credential if serves_as_hint(credential, self._client.client_id) else ""
        try:
            address = await self._provider.sign_out_url(hint)
        except SignInFault:
            address = ""
        if not address:
            return redirect(SIGN_IN, end_cookie)
        values = {"address": address, "provider": self._client.provider}
        return with_cookies(await self._console.answer(request, _SIGNED_OUT_PAGE, values), [end_cookie])

    async def _answer_callback(self, request: Request) -> Response:
        pairs = request.query_params.multi_items()
        query = dict(pairs)
        state = query.get("state", "")
        transaction = (
            self._transactions.find(header(request.scope, b"cookie"), state) if len(query) == len(pairs) else None
        )
        if transaction is None:
            return await self._form.answer(request, f"{_UNKNOWN_SIGN_IN} at {self._client.base}{ROOT}.", 400)
        cookies = [self._transactions.end_cookie(state, secure=self._secure)]
        try:
            session = await self._session(request, query, transaction)
            cookies.append(self._access.sealer.header(session, secure=self._secure))
        except SignInFault as fault:
            return await self._form.answer(request, str(fault), fault.status, transaction.return_to, cookies)
        except ValueTooLong:
            return await self._form.answer(request, self._too_long(), 400, transaction.return_to, cookies)
        answer = with_cookies(
            await self._console.answer(request, _SIGNED_IN_PAGE, {"location": transaction.return_to}), cookies
        )
        answer.headers["referrer-policy"] = "no-referrer"  # the page's URL contains the code
        return answer

    async def _session(
        self, request: Request, query: Mapping[str, str], transaction: SignInTransaction
    ) -> ConsoleSession:
        """Make the session of the user whom the provider signed in. Raises SignInFault and ValueTooLong."""
        client = self._client
        always_sends_iss = (await self._provider.metadata()).authorization_response_iss_parameter_supported
        code = code_of(
            query, client.provider, client.issuer.issuer, always_sends_iss=always_sends_iss, silent=transaction.silent
        )
        answer = await self._provider.exchange(code, transaction.verifier)
        subject = _digest(await self._verify(answer.id_token, transaction.nonce))
        if transaction.silent and subject != transaction.subject:
            raise SignInFault(f"Another user has signed in at {client.provider} meanwhile. Sign in again.", 401)
        credential, end = await self._credential(request, answer)
        latest_end = transaction.renewable_until or transaction.expires_at - SIGN_IN_SECONDS + SESSION_SECONDS
        return self._access.sealer.begin(
            credential, ends=min(end, latest_end), subject=subject, renewable_until=latest_end
        )

    async def _verify(self, token: str, nonce: str) -> Mapping[str, Any]:
        """Verify issuer, audience and nonce of the ID token and return its claims. Raises SignInFault."""
        claims = await self._tokens.verify(token, self._client.issuer.issuer)
        if isinstance(claims, CredentialRefusal):
            raise self._fault(claims)
        fault = id_token_fault(claims, self._client.client_id, nonce)
        if fault is not None:
            raise SignInFault(
                f"The answer of {self._client.provider} does not belong to this sign-in: {fault}. Sign in again."
            )
        return claims

    async def _credential(self, request: Request, answer: TokenAnswer) -> tuple[str, float]:
        """Choose the session's credential and return it with its end: the access token if the gateway accepts it, else
        the ID token. Raises SignInFault.
        """
        reasons = []
        for name, token in (("access token", answer.access_token), ("ID token", answer.id_token)):
            # `check` writes no entry of the audit log: it is normal that one of the two tokens is not for this gateway
            verdict = (
                (self._tokens.check(token) or await self._tokens.look_up(token))
                if self._tokens.recognizes(token)
                else None
            )
            if isinstance(verdict, Identity):
                admission = await self._form.admit(request, token)
                if isinstance(admission, Identity):
                    return token, admission.expires_at
                raise SignInFault(f"Not signed in: {admission.document.detail}.", admission.document.status)
            if verdict is not None and verdict.status == 503:
                raise self._fault(verdict)
            reasons.append(f"{name}: {'it is not a JWT' if verdict is None else verdict.message}")
        provider, details = self._client.provider, "; ".join(reasons)
        message = f"{provider} signed you in, but this gateway accepts neither of its tokens ({details})."
        raise SignInFault(f"{message} {self._remedy()}", 403)

    def _remedy(self) -> str:
        client = self._client
        audiences = " or ".join(client.issuer.audiences) or client.resource
        return (
            f"An administrator can configure the provider to write {audiences} into the `aud` of access tokens of "
            f"{client.client_id}, or add {client.client_id} to the `audiences` of this issuer in FAIRLEAD_IDENTITY."
        )

    def _too_long(self) -> str:
        return (
            f"The token of {self._client.provider} does not fit into a cookie, which holds about 2,700 characters. "
            f"An administrator can leave claims out of tokens for {self._client.client_id} (groups, roles, "
            "profile); until then sign in with an API key."
        )

    def _fault(self, refusal: CredentialRefusal) -> SignInFault:
        if refusal.status == 503:
            return SignInFault(f"The keys of {self._client.provider} cannot be fetched. Try again in a moment.", 503)
        return SignInFault(f"The answer of {self._client.provider} is not accepted: {refusal.message}. Sign in again.")


def _digest(claims: Mapping[str, Any]) -> str:
    """Make the digest of the subject that a session stores."""
    return base64.urlsafe_b64encode(
        hashlib.blake2b(claims["sub"].encode("utf-8", "replace"), digest_size=9).digest()
    ).decode()
