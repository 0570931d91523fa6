"""Consent page: a person consents to a client once per client, redirect host and scopes.

The provider knows only the gateway as its client, and does not ask people about the gateway's clients. Without this
page, every client would get the access that the person has granted to another client (confused deputy; MCP 2025-11-25,
Security Best Practices).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from fairlead_authorization.clients.client import RegisteredClient
from fairlead_authorization.clients.redirects import is_loopback_redirect, redirect_host
from fairlead_authorization.protocol.authorize import PageProblem, find_client
from fairlead_authorization.protocol.browser_state import AwaitingConsent, BrowserState
from fairlead_authorization.protocol.metadata import CONSENT
from fairlead_authorization.protocol.parameters import MAX_FORM, UnreadableParameters, read_parameters
from fairlead_authorization.protocol.parts import AuthorizationParts
from fairlead_authorization.protocol.responses import code_url, error_url, with_cookies
from fairlead_authorization.sessions.session import ClientSession, SignedInPerson, WaitingSession
from fairlead_gateway.identity.persons import account_name, one_line
from fairlead_gateway.identity.sealed_values import ValueTooLong
from fairlead_gateway.identity.token_identity import jwt_person
from fairlead_mcp.oauth.authorization_request import new_secret
from fairlead_web.sign_in_html import decision_page, onward_page

Recorder: TypeAlias = Callable[[bytes, str, str], None]
"""Records a sign-in in the audit log. Parameters: the person's key, the client's id, and a text about the access."""
_GONE: Final = "This sign-in was completed already, or took longer than ten minutes: start again from the program."
_FOREIGN: Final = "The form is not from this page: start again from the program that wants to sign you in."
_SELF_REGISTERED: Final = (
    "The program has registered itself, so that anybody may have given it this name: allow it only if you have just "
    "started this sign-in yourself."
)
_ON_THIS_MACHINE: Final = (
    "The answer goes to a program on the machine of this browser, and any program there can say that it is this one: "
    "allow it only if you have just started this sign-in yourself."
)
_CONFIRMATION: Final = "I have started this sign-in myself."
_EVERYTHING: Final = "all that you may use at this gateway"
_MAX_LINE: Final = 200


class ConsentPages:
    """Shows the page, and answers `POST /oauth/consent`."""

    def __init__(self, parts: AuthorizationParts) -> None:
        self._parts = parts

    def ask(self, session: ClientSession, client: RegisteredClient, state: BrowserState) -> Response:
        """Page that asks the person. Raises PageProblem."""
        waiting = AwaitingConsent(
            id=state.id,
            client_id=client.id,
            client_state=state.client_state,
            redirect_uri=session.access.redirect_uri,
            expires_at=state.expires_at,
            session_id=session.id,
            issuer=session.person.issuer,
            subject=session.person.subject,
            client_digest=client.digest,
            token=new_secret(),
        )
        hidden = {"id": waiting.id, "token": waiting.token}
        title = f"Allow {one_line(client.name, _MAX_LINE) or 'this program'} to use your account?"
        # a web page could place its window so that the second click of a double click hits Allow
        confirmation = "" if client.is_named or client.kind != "document" else _CONFIRMATION
        facts, notes = self._facts(session, client), _notes(client, session)
        page = decision_page(title, facts, notes, CONSENT, hidden, confirmation)
        try:
            return with_cookies(page, [self._parts.states.cookie(waiting)])
        except ValueTooLong as error:
            raise PageProblem("Your subject at the provider and the program's state are too long together.") from error

    async def answer(self, request: Request, record: Recorder) -> Response:
        """Answer the form. Raises PageProblem, SessionRefused, SessionStoreUnavailable."""
        parts = self._parts
        fields = await _fields(request)
        state = parts.states.find(AwaitingConsent, request.cookies, fields.get("id", ""))
        if state is None:
            raise PageProblem(_GONE, 403)
        token = fields.get("token", "").encode("utf-8", "replace")
        if not (_is_own_form(request) and hmac.compare_digest(token, state.token.encode())):
            raise PageProblem(_FOREIGN, 403)
        person = SignedInPerson(issuer=state.issuer, subject=state.subject, claims={})
        waiting = await parts.sessions.find_waiting(person, state.session_id)
        if waiting is None:
            raise PageProblem(_GONE, 403)
        session = waiting.session
        if fields.get("decision") != "allow":
            await parts.sessions.end(jwt_person(person.issuer, person.subject), session.id)
            parts.counts.sign_ins["denied"] += 1
            url = error_url(
                state.redirect_uri, "access_denied", "the person declined", state.client_state, parts.issuer
            )
            return self._leave_page(url, state, "The program is told that you declined.")
        client = await find_client(parts, state.client_id)
        if client.digest != state.client_digest or client.id != session.client_id:
            raise PageProblem("The program has changed meanwhile: start again from it.")
        await parts.sessions.consent(session, client)
        url = await self.code_url(waiting, state, record)
        return self._leave_page(url, state, "You can close this window once the program goes on.")

    async def code_url(self, waiting: WaitingSession, state: BrowserState, record: Recorder) -> str:
        """URL that takes a code to the client. Raises SessionRefused, SessionStoreUnavailable."""
        parts, session = self._parts, waiting.session
        code = await parts.sessions.issue_code(waiting)
        parts.counts.sign_ins["signed_in"] += 1
        scopes = " ".join(session.access.scopes)
        grant = f"access to {session.access.resource}{f' for {scopes}' if scopes else ''}"
        record(jwt_person(session.person.issuer, session.person.subject), session.client_id, grant)
        return code_url(session.access.redirect_uri, code, state.client_state, parts.issuer)

    def _leave_page(self, url: str, state: BrowserState, text: str) -> Response:
        # a page with a link, because `form-action` forbids that a form is redirected to another site
        page = onward_page("Back to the program", text, url, "Continue")
        return with_cookies(page, [self._parts.states.end_cookie(state.id)])

    def _facts(self, session: ClientSession, client: RegisteredClient) -> list[tuple[str, str]]:
        person, access = session.person, session.access
        is_whole_gateway = access.resource == self._parts.issuer
        facts = [
            ("Your account", account_name(person.claims, person.issuer, person.subject)),
            ("Program", _origin_of(client)),
            ("The answer goes to", redirect_host(access.redirect_uri) or access.redirect_uri),
            ("Access to", f"{access.resource}: {_EVERYTHING}" if is_whole_gateway else access.resource),
        ]
        if access.scopes:
            facts.append(("Scopes", " ".join(access.scopes)))
        return facts


def _origin_of(client: RegisteredClient) -> str:
    """Source of the client's name and identity, for the page."""
    if client.kind == "document":
        return f"{urlsplit(client.id).netloc} ({client.id})"
    if client.kind == "configured":
        return f"{client.id}, set up by the administrator of this gateway"
    return "has registered itself"


def _notes(client: RegisteredClient, session: ClientSession) -> list[str]:
    notes = []
    if client.kind == "registered":
        notes.append(_SELF_REGISTERED)
    if is_loopback_redirect(session.access.redirect_uri):
        notes.append(_ON_THIS_MACHINE)
    return notes


def _is_own_form(request: Request) -> bool:
    """Whether a form comes from a page of this gateway; True if the browser does not tell (Fetch Metadata)."""
    return request.headers.get("sec-fetch-site", "same-origin") == "same-origin"


async def _fields(request: Request) -> dict[str, str]:
    """Fields of a posted form. Raises PageProblem."""
    size, pieces = 0, []
    async for piece in request.stream():
        size += len(piece)
        if size > MAX_FORM:
            raise PageProblem("The form is too large.", 413)
        pieces.append(piece)
    try:
        return dict(read_parameters(b"".join(pieces).decode("utf-8", "replace")).values)
    except UnreadableParameters as error:
        raise PageProblem(f"{error}.") from error
