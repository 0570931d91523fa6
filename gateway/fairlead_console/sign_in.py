"""Signing in with an API key or another bearer token, and out again."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response

from fairlead_console.admission import SIGN_IN, Access
from fairlead_console.context import ConsoleContext, read_form
from fairlead_console.html import redirect
from fairlead_console.paths import ROOT
from fairlead_console.session_cookie import CredentialTooLong
from fairlead_gateway.core.identity import Identity

SIGN_OUT: Final = "/console/sign-out"
OFFERS: Final = "sign_in.html"


def router(console: ConsoleContext, access: Access) -> APIRouter:
    """The routes of signing in and out."""
    routes = APIRouter()

    async def form(request: Request, why: str = "", status: int = 200, place: str = ROOT) -> Response:
        values = {
            "why": why, "place": place, "printed": access.here_only, "keys": not console.rest.guard.identities.open
        }  # fmt: skip
        return await console.answer(request, OFFERS, values, status=status)

    @routes.get(SIGN_IN)
    async def show(request: Request) -> Response:
        return await form(request, place=own_place(request.query_params.get("next", ROOT)))

    @routes.post(SIGN_IN)
    async def sign_in(request: Request) -> Response:
        fields = await read_form(request)
        place, credential = own_place(fields.get("next", ROOT)), fields.get("key", "").strip()
        if not (credential.isascii() and credential.isprintable()) or not credential:
            return await form(request, "Paste the key as it was given to you.", 400, place)
        guard, headers = console.rest.guard, {b"user-agent": request.headers.get("user-agent", "").encode("latin-1")}
        address, _ = guard.client(request.scope, headers)
        admitted = await guard.admitted(f"Bearer {credential}".encode(), headers, address)
        if not isinstance(admitted, Identity):
            return await form(request, f"Not signed in: {admitted.document.detail}.", admitted.document.status, place)
        try:
            return redirect(place, access.cookie(request.scope, access.sealer.begin(credential)))
        except CredentialTooLong:
            return await form(request, "This token is too long for a session; use an API key.", 400, place)

    @routes.post(SIGN_OUT)
    async def sign_out(request: Request) -> Response:
        await console.visit(request).form()
        return redirect(SIGN_IN, access.sealer.ended(secure=request.url.scheme == "https"))

    return routes


def own_place(place: str) -> str:
    """The path, if it is one of the console; its first page for any other, which may lead elsewhere."""
    parts = urlsplit(place)
    good = not parts.scheme and not parts.netloc and parts.path.startswith(ROOT) and "\\" not in place
    return parts.path if good and ".." not in parts.path else ROOT
