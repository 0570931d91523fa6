"""Pages at which users sign in to servers: from the link in an answer to a call, to the grant.

    GET  /sign-in/NAMESPACE/NAME?id=…   shows the server and the authorization server
    POST /sign-in/NAMESPACE/NAME?id=…   sends the browser to the authorization server
    GET  /sign-in/callback/NAMESPACE/NAME?code=…    takes the answer

At a server for which each user enters a key, the first page has a form for the key, and the POST takes it; no page,
log or error repeats the key.

The person who opens the link must be the user who called. At a gateway that serves only its own machine, that user is
the machine's owner, whose browser runs on the machine. Elsewhere the console admits the browser, by its session. The
admitted browser has a cookie, without which it can neither begin the sign-in nor deliver the answer. So somebody who
opens another user's link attaches no account to that user, and an answer that an attacker obtained is not taken from
the victim's browser.
"""

from __future__ import annotations

import hmac
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from fairlead_api.meta import ServerKey
from fairlead_gateway.identity.persons import identity_of
from fairlead_gateway.sign_in.pending import SIGN_IN_SECONDS, PendingSignIn
from fairlead_gateway.sign_in.sign_ins import SignIns
from fairlead_gateway.sign_in.site import (
    CALLBACK,
    CLIENT,
    ID,
    PORT_CALLBACK,
    ROOT,
    SignInSite,
    path_of,
    server_in,
    server_path,
)
from fairlead_mcp.addresses import is_loopback
from fairlead_mcp.credential_hosts import is_confidential
from fairlead_mcp.oauth.entered_keys import UnusableKey
from fairlead_mcp.oauth.errors import GrantFailed
from fairlead_offers.problems import Problem
from fairlead_tools.version import VERSION
from fairlead_web.bodies import read_at_most
from fairlead_web.guard import RequestGuard
from fairlead_web.local_requests import is_local
from fairlead_web.sign_in_html import form_page, key_page, message_page, onward_page

CONSENT: Final = "/console/consent/"
"""Page of the console that admits a browser; the id of the sign-in follows."""
MAX_FORM: Final = 4 << 10
"""Limit on the bytes of a posted form."""
MAX_FIELDS: Final = 32
"""Limit on the parameters of an answer."""
_CLOSED_LINK: Final = (
    "This link is not open any more: it was used already, or is older than ten minutes. Call the tool again, or run "
    "fairlead login, to get a new one."
)
_OTHER_BROWSER: Final = "The link was opened in another browser. Open it again in this one."
_NOT_BEGUN: Final = (
    "This sign-in was not begun in this browser, was completed already, or took longer than ten minutes. Call the tool "
    "again, or run fairlead login, to get a new link."
)
_FOREIGN_ISSUER: Final = (
    "{server} gets access to what you allow at {issuer}: continue only if you know that this server belongs to it, or "
    "trust it with your account there."
)
_KEY_NOTE: Final = (
    "{place} gets this key with each of your calls, until you end the account: enter it only if you know that it is "
    "meant for this server. Fairlead stores it sealed and never shows it again."
)
_KEY_IN_THE_CLEAR: Final = "It goes over the network unencrypted, as the server's URL is http."
_NOT_HERE: Final = "This page can be opened only in a browser on the gateway's machine."
_FOREIGN_FORM: Final = "The form is not from this page: open the link again."


class SignInPages:
    """Pages of one gateway."""

    def __init__(self, sign_ins: SignIns, guard: RequestGuard) -> None:
        self._sign_ins = sign_ins
        self._guard = guard
        self._site = sign_ins.site

    async def request(self, scope: Scope) -> SignInRequest | None:
        """The request as one for these pages; None if its path does not belong to them."""
        path = scope["path"]
        is_own_path = path.startswith(ROOT) or (path == PORT_CALLBACK and self._site.is_local)
        return SignInRequest(self, scope) if is_own_path else None

    async def answer(self, request: Request) -> Response:
        """Answer a request whose `Host` and `Origin` are allowed."""
        path, method = request.url.path, request.method
        if self._site.is_local and not (is_local(request) and is_loopback(request.url.hostname or "")):
            return message_page("Not available here", _NOT_HERE, 403)
        if method not in ("GET", "POST"):
            return message_page("Not available here", "This page can only be opened and its form sent.", 405)
        if method == "GET" and path == PORT_CALLBACK:
            address = f"{self._site.base_url()}{CALLBACK}?{request.url.query}"
            return RedirectResponse(address, 303, {"cache-control": "no-store"})
        if method == "GET" and (path == CALLBACK or server_in(path, CALLBACK) is not None):
            return await self._take_answer(request)
        if method == "GET" and (server := server_in(path, CLIENT)) is not None:
            return self._describe_client(server)
        pending = self._sign_ins.find(request.query_params.get(ID, ""))
        if pending is None or urlsplit(path_of(pending.server, pending.id)).path != request.scope["path"]:
            return message_page("This link is not open", _CLOSED_LINK, 404)
        if method == "POST":
            return await self._begin(request, pending)
        base = self._site.base_url()
        if self._site.is_local and request.url.hostname != urlsplit(base).hostname:
            # the answer arrives at this address, and cookies belong to a host
            return RedirectResponse(base + path_of(pending.server, pending.id), 303, {"cache-control": "no-store"})
        return await self._show(request, pending)

    async def _show(self, request: Request, pending: PendingSignIn) -> Response:
        cookie = request.cookies.get(self._cookie_of(pending), "")
        is_admitted = self._sign_ins.admits(pending, cookie)
        if not is_admitted and not self._site.is_local:
            return onward_page(
                f"Sign in at {pending.server}",
                "The gateway first has to know that you are the person who called.",
                CONSENT + pending.id,
                "Continue",
            )
        if not is_admitted:
            cookie = self._sign_ins.admit_browser(pending)
        if self._sign_ins.key_of(pending.server) is not None:
            page = self._key_form(pending, cookie)
            if not is_admitted:
                page.headers.append("set-cookie", browser_cookie(pending, cookie, self._site))
            return page
        try:
            destination = await self._sign_ins.destination(pending)
            server_host = _host_of(self._sign_ins.address_of(pending.server))
        except GrantFailed as error:
            return message_page(f"You cannot sign in at {pending.server} now", _sentence(error), 502)
        host, issuer = _host_of(destination.url), _host_of(destination.issuer)
        facts = [
            ("Server", str(pending.server)),
            ("Calls go to", server_host),
            ("You are sent to", host),
            ("Authorization server", destination.issuer),
        ]
        if not self._site.is_local:
            facts.append(("The grant is for", pending.name))
        action = path_of(pending.server, pending.id)
        note = _FOREIGN_ISSUER.format(server=server_host, issuer=issuer) if server_host != issuer else ""
        title, label = f"Sign in at {pending.server}", f"Continue to {host}"
        page = form_page(title, facts, note, action, pending.form_token(cookie), label)
        if not is_admitted:
            page.headers.append("set-cookie", browser_cookie(pending, cookie, self._site))
        return page

    async def _begin(self, request: Request, pending: PendingSignIn) -> Response:
        cookie = request.cookies.get(self._cookie_of(pending), "")
        if not self._sign_ins.admits(pending, cookie):
            return message_page("Another browser", _OTHER_BROWSER, 403)
        fields = await _fields(request)
        token = fields.get("token", "")
        if not (_is_own_form(request) and hmac.compare_digest(token.encode(), pending.form_token(cookie).encode())):
            return message_page("Not sent from this page", _FOREIGN_FORM, 403)
        if self._sign_ins.key_of(pending.server) is not None:
            return await self._take_key(request, pending, fields.get("key", ""), cookie)
        try:
            authorization, cookie = await self._sign_ins.begin(pending)
        except GrantFailed as error:
            return message_page(f"You cannot sign in at {pending.server} now", _sentence(error), 502)
        host = _host_of(authorization.url)
        page = onward_page(
            f"Sign in at {pending.server}", f"You are sent to {host}.", authorization.url, f"Continue to {host}"
        )
        page.headers.append("set-cookie", browser_cookie(pending, cookie, self._site))
        return page

    def _key_form(self, pending: PendingSignIn, cookie: str, problem: str = "") -> Response:
        """Form for a key; `problem` says why the previous key was not taken."""
        key = self._sign_ins.key_of(pending.server)
        title = f"Your key for {pending.server}"
        try:
            address = self._sign_ins.address_of(pending.server)
        except GrantFailed as error:
            return message_page(title, _sentence(error), 502)
        receiver = _host_of(address) or address
        facts = [("Server", str(pending.server)), ("The key is sent to" if _host_of(address) else "Program", receiver)]
        if key is not None and key.description:
            facts.append(("Wanted", key.description))
        if not self._site.is_local:
            facts.append(("The key is for calls of", pending.name))
        note = _KEY_NOTE.format(place=receiver)
        if address.startswith("http://") and not is_confidential(address):
            note = f"{note} {_KEY_IN_THE_CLEAR}"
        help_url = "" if key is None else key.help_url
        action, token = path_of(pending.server, pending.id), pending.form_token(cookie)
        if problem:
            return key_page(title, facts, f"{problem} {note}", help_url, action, token, 400)
        return key_page(title, facts, note, help_url, action, token)

    async def _take_key(self, request: Request, pending: PendingSignIn, key: str, cookie: str) -> Response:
        try:
            await self._sign_ins.enter_key_at(pending, key)
        except UnusableKey as error:
            return self._key_form(pending, cookie, _sentence(error))
        except GrantFailed as error:
            return message_page(f"Your key for {pending.server} was not stored", _sentence(error), 502)
        detail = f"key of {pending.holder}"
        self._guard.record_grant_made(request.scope, identity_of(pending.person), pending.server, detail)
        page = message_page(
            f"Your key for {pending.server} is stored", "You can close this window; calls go on by themselves."
        )
        page.headers.append("set-cookie", browser_cookie(pending, "", self._site))
        return page

    async def _take_answer(self, request: Request) -> Response:
        pairs = parse_qsl(request.url.query, keep_blank_values=True)[:MAX_FIELDS]
        answer = dict(pairs)
        open_sign_in = self._sign_ins.of_answer(request.url.path, answer, request.cookies)
        if open_sign_in is None or len(answer) < len(pairs):  # a parameter must not be repeated (RFC 6749 section 3.1)
            return message_page("This sign-in is not open", _NOT_BEGUN, 403)
        pending, authorization = open_sign_in
        try:
            remark = await self._sign_ins.finish(pending, authorization, answer)
        except GrantFailed as error:
            return message_page(f"Not signed in at {pending.server}", _sentence(error), 400)
        scopes = " ".join(authorization.scopes)
        detail = f"of {pending.holder} at {authorization.issuer}{f' for {scopes}' if scopes else ''}"
        self._guard.record_grant_made(request.scope, identity_of(pending.person), pending.server, detail)
        page = message_page(
            f"Signed in at {pending.server}", remark or "You can close this window; calls go on by themselves."
        )
        page.headers.append("set-cookie", browser_cookie(pending, "", self._site))
        return page

    def _describe_client(self, server: ServerKey) -> Response:
        """The gateway as an OAuth client (draft-ietf-oauth-client-id-metadata-document-00 section 4)."""
        document = self._site.client_document(server)
        if not document or not self._sign_ins.requires(server):
            return message_page("Not available here", "This gateway is not an OAuth client of that server.", 404)
        return JSONResponse(
            {
                "client_id": document,
                "client_name": "Fairlead",
                "software_version": VERSION,
                "redirect_uris": [self._site.base_url() + server_path(CALLBACK, server)],
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
                "application_type": "web",
            },
            headers={"cache-control": "max-age=300", "x-content-type-options": "nosniff"},
        )

    def _cookie_of(self, pending: PendingSignIn) -> str:
        return cookie_name(pending, self._site)


class SignInRequest:
    """One request for a page. As a `ForeignApi`, it needs no credential: the pages check who opens them."""

    own_pages = True
    any_origin = False
    public = True

    def __init__(self, pages: SignInPages, scope: Scope) -> None:
        self._pages = pages
        self._scope = scope

    def credential(self, scope: Scope) -> bytes | None:
        """Never called, as all pages are public."""
        return None

    def refusal(self, problem: Problem) -> Response:
        """Page for a request with a foreign `Host` or `Origin`."""
        return message_page("Not available here", f"{problem}.", problem.document.status)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._pages.answer(Request(scope, receive))
        await response(scope, receive, send)


def cookie_name(pending: PendingSignIn, site: SignInSite) -> str:
    """Name of a browser's cookie. With https, the name has a prefix by which browsers take the cookie only from this
    host: otherwise another host of the domain could set the cookie of its own sign-in in the user's browser.
    """
    return f"__Host-{pending.cookie}" if site.is_secure else pending.cookie


def browser_cookie(pending: PendingSignIn, value: str, site: SignInSite) -> str:
    """`Set-Cookie` of a browser that was admitted to a sign-in; with an empty value, the one that removes the cookie.

    The provider leads the browser back from another site, so the cookie is `Lax`.
    """
    seconds = SIGN_IN_SECONDS if value else 0
    scope = "Path=/; Secure" if site.is_secure else f"Path={ROOT}"
    return f"{cookie_name(pending, site)}={value}; {scope}; Max-Age={seconds}; HttpOnly; SameSite=Lax"


def _host_of(url: str) -> str:
    return urlsplit(url).hostname or ""


def _is_own_form(request: Request) -> bool:
    """Whether a form was posted by a page of this gateway, according to the browser."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    return origin is None or urlsplit(origin).netloc == request.headers.get("host", "")


async def _fields(request: Request) -> dict[str, str]:
    """Fields of a posted form; none if it is too long."""
    pieces = await read_at_most(request, MAX_FORM) or ()
    return dict(parse_qsl(b"".join(pieces).decode("latin-1"))[:MAX_FIELDS])


def _sentence(error: GrantFailed | UnusableKey) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."
