"""Lets the browser of a console session continue a sign-in to a server, if both belong to the same user."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from fairlead_console.admission import SIGN_IN
from fairlead_console.html import redirect
from fairlead_gateway.core.identity import IDENTITY, Identity
from fairlead_gateway.identity.persons import name_of, person_of
from fairlead_gateway.sign_in.sign_ins import SignIns
from fairlead_gateway.sign_in.site import path_of
from fairlead_offers.problems import FORBIDDEN, NOT_FOUND, Problem
from fairlead_web.guard import RequestGuard
from fairlead_web.sign_in_pages import CONSENT, browser_cookie


def router(sign_ins: SignIns, guard: RequestGuard) -> APIRouter:
    """Make the route."""
    routes = APIRouter()

    @routes.get(CONSENT + "{ident}")
    async def admit(request: Request, ident: str) -> Response:
        identity: Identity = request.scope[IDENTITY]
        pending = sign_ins.find(ident)
        if pending is None:
            raise Problem(NOT_FOUND, "this link is not open any more: call the tool again to get a new one")
        if identity.kind == "anonymous":  # the session of a user who chose to go on without signing in
            return redirect(f"{SIGN_IN}?{urlencode({'next': request.url.path})}")
        if pending.person != person_of(identity):
            guard.record_refusal(request.scope, 403, f"link of {pending.holder} to sign in at {pending.server}")
            raise Problem(FORBIDDEN, _other_person(identity, pending.holder))
        cookie = browser_cookie(pending, sign_ins.admit_browser(pending), sign_ins.site)
        return redirect(path_of(pending.server, pending.id), cookie)

    return routes


def _other_person(identity: Identity, holder: str) -> str:
    """Message that names the visitor, and describes the owner of the link only by the issuer or as an owner of an API
    key."""
    issuer, separator, _ = holder.partition(" ")
    other = f"another person of {issuer}" if separator else "the owner of an API key"
    visitor = name_of(identity)
    return (
        f"this sign-in link belongs to {other}, who called the server, but this browser is signed in as {visitor}: "
        "only the person who called may open it, because that person's calls will use the account that signs in"
    )
