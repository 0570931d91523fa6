"""Routes for signing in with an API key or another bearer token, and for signing out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response

from fairlead_console.admission import SIGN_IN, SIGN_OUT, Access, is_secure
from fairlead_console.context import SESSION, read_form, read_own_form
from fairlead_console.html import redirect
from fairlead_console.paths import ROOT
from fairlead_console.sign_in_form import SignInForm, safe_return_path
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity.sealed_values import ValueTooLong

if TYPE_CHECKING:
    from fairlead_console.oidc_sign_in import OidcSignIn

_NAVIGATION: Final = "navigate"
"""`Sec-Fetch-Mode` of a navigation. Requests of scripts have other values, and cannot be redirected to the provider."""


def router(access: Access, form: SignInForm, provider: OidcSignIn | None) -> APIRouter:
    """Make the routes."""
    routes = APIRouter()

    @routes.get(SIGN_IN)
    async def show(request: Request) -> Response:
        location = safe_return_path(request.query_params.get("next", ROOT))
        expired_session = access.renewable_session(request.scope)
        if (
            provider is not None
            and expired_session is not None
            and request.headers.get("sec-fetch-mode") == _NAVIGATION
        ):
            return await provider.begin(request, location, expired_session)
        return await form.answer(request, location=location)

    @routes.post(SIGN_IN)
    async def sign_in(request: Request) -> Response:
        fields = await read_form(request)
        location, credential = safe_return_path(fields.get("next", ROOT)), fields.get("key", "").strip()
        if form.admits_anonymous and "anonymous" in fields:
            return redirect(location, access.cookie(request.scope, access.sealer.begin()))
        if not (credential.isascii() and credential.isprintable()) or not credential:
            return await form.answer(request, "Paste the key exactly as you got it.", 400, location)
        admission = await form.admit(request, credential)
        if not isinstance(admission, Identity):
            message, status = f"Not signed in: {admission.document.detail}.", admission.document.status
            return await form.answer(request, message, status, location)
        try:
            session = access.sealer.begin(credential, ends=admission.expires_at)
            return redirect(location, access.cookie(request.scope, session))
        except ValueTooLong:
            message = "This token is too long for a session; use an API key."
            return await form.answer(request, message, 400, location)

    @routes.post(SIGN_OUT)
    async def sign_out(request: Request) -> Response:
        session = request.scope[SESSION] or access.renewable_session(request.scope)
        await read_own_form(request, session)
        end_cookie = access.sealer.end_cookie(secure=is_secure(request.scope))
        if provider is not None and session is not None and session.subject:
            return await provider.answer_sign_out(request, end_cookie, session.credential)
        return redirect(SIGN_IN, end_cookie)

    if provider is not None:
        routes.routes.extend(provider.router().routes)
    return routes
