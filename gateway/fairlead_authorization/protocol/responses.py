"""Responses of the endpoints to clients and browsers. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from fairlead_authorization.protocol.parameters import with_parameters
from fairlead_offers.documents import encode
from fairlead_web.bodies import JSON
from fairlead_web.cross_origin import CROSS_ORIGIN

RETRY_SECONDS: Final = 5
"""`Retry-After` while the store or a provider cannot be reached."""
_NO_STORE: Final = {"cache-control": "no-store", "pragma": "no-cache", "x-content-type-options": "nosniff"}
_PLAIN: Final = str.maketrans({'"': "'", "\\": "/"})


class OAuthRefusal(Exception):
    """Error of the token, revocation or registration endpoint (RFC 6749 section 5.2)."""

    def __init__(self, error: str, message: str, status: int = 400, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.error = error
        self.status = status
        self.headers = dict(headers or {})


def description_of(message: str) -> str:
    """Reduce a message to the characters that `error_description` allows (RFC 6749 section 4.1.2.1)."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in message.translate(_PLAIN))


def json_answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON response that must not be cached, and that web pages of any origin may read."""
    return Response(encode(content), status, {**_NO_STORE, **CROSS_ORIGIN, **(headers or {})}, JSON)


def document_answer(content: Any) -> Response:
    """Response with a public document. It may be cached for five minutes: keys are published an hour early."""
    headers = {**CROSS_ORIGIN, "cache-control": "public, max-age=300", "x-content-type-options": "nosniff"}
    return Response(encode(content), 200, headers, JSON)


def error_answer(refusal: OAuthRefusal) -> Response:
    """JSON response for an error (RFC 6749 section 5.2)."""
    content = {"error": refusal.error, "error_description": description_of(str(refusal))}
    return json_answer(content, refusal.status, refusal.headers)


def browser_redirect(url: str, cookies: Iterable[str] = ()) -> Response:
    """Redirect the browser to a URL."""
    response = RedirectResponse(url, 303, {"cache-control": "no-store", "referrer-policy": "no-referrer"})
    # not Starlette's RedirectResponse, which would percent-encode the encoded URL again
    response.headers["location"] = url
    return with_cookies(response, cookies)


def with_cookies(response: Response, cookies: Iterable[str]) -> Response:
    """Add `Set-Cookie` lines."""
    for cookie in cookies:
        response.headers.append("set-cookie", cookie)
    return response


def error_url(redirect_uri: str, error: str, message: str, state: str, issuer: str) -> str:
    """Redirect URI with an error for the client (RFC 6749 section 4.1.2.1, `iss` of RFC 9207)."""
    parameters = {"error": error, "error_description": description_of(message), "state": state, "iss": issuer}
    return with_parameters(redirect_uri, {name: value for name, value in parameters.items() if value})


def code_url(redirect_uri: str, code: str, state: str, issuer: str) -> str:
    """Redirect URI with a code for the client (RFC 6749 section 4.1.2, `iss` of RFC 9207)."""
    parameters = {"code": code, "state": state, "iss": issuer}
    return with_parameters(redirect_uri, {name: value for name, value in parameters.items() if value})
