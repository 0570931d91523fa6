"""Reads the JSON-RPC response in an HTTP answer, or makes the error for another answer. No I/O.

Servers differ in the status and content type of JSON-RPC errors, so both are ignored where the body has a JSON-RPC
error.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Raw

from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import HttpRefused, McpError, NotMcp
from fairlead_mcp.http.answer import Answer
from fairlead_mcp.messages import ErrorObject

_ALWAYS_REFUSALS: Final = frozenset({401, 403, 421, 508})
"""Statuses that are HTTP refusals even if the body has a JSON-RPC error."""


def read_answer(answer: Answer, ident: bytes) -> Raw:
    """Return the raw result of the response to the request with the id `ident` (raw JSON).

    Raises HttpRefused, RpcError (with the HTTP status), NotMcp, BadJson.
    """
    status = answer.status
    if status >= 300:
        raise refusal(answer)
    body = answer.body
    if not body.strip():
        description = "an event stream without an answer" if answer.streamed else "an empty answer"
        raise _not_mcp(answer, f"the server sent {description} (status {status})", "EmptyAnswer")
    if looks_like_html(answer):
        raise _not_mcp(answer, f"the server sent HTML instead of MCP (status {status})", "HTMLInsteadOfMCP")
    response = jsonrpc.read_response(body)
    if response.error is not None:
        if response.id is not UNSET and bytes(response.id) not in (ident, b'"%b"' % ident, b"null"):
            raise _wrong_id(answer, response.id)
        raise jsonrpc.rpc_error(response.error, status)
    if response.id is UNSET or bytes(response.id) not in (
        ident,
        b'"%b"' % ident,
    ):  # some servers answer the id 7 with "7"
        raise _wrong_id(answer, response.id)
    assert response.result is not UNSET
    return response.result


def refusal(answer: Answer) -> McpError:
    """Make the error for a status of 300 or more: the server's JSON-RPC error if the body has one."""
    status = answer.status
    if status not in _ALWAYS_REFUSALS and status >= 400:
        error = error_in(answer.body)
        if error is not None:
            return jsonrpc.rpc_error(error, status)
    retry_after = answer.headers.get(b"retry-after")
    return HttpRefused(
        _refusal_sentence(answer),
        status=status,
        retry_after=retry_after.decode("latin-1") if retry_after is not None else None,
        challenge=answer.headers.get(b"www-authenticate"),
    )


def error_in(body: bytes) -> ErrorObject | None:
    """Return the JSON-RPC error in a body, or None."""
    try:
        return jsonrpc.decode_response(body).error
    except jsonrpc.UNREADABLE:
        return None


def looks_like_html(answer: Answer) -> bool:
    """Whether the body is an HTML page, by its beginning, or by its content type unless it begins like JSON."""
    start = answer.body[:256].lstrip().lower()
    return start.startswith((b"<!doctype", b"<html")) or (
        b"html" in answer.content_type.lower() and not start.startswith((b"{", b"["))
    )


def _refusal_sentence(answer: Answer) -> str:
    status = answer.status
    if status == 401:
        challenge = answer.headers.get(b"www-authenticate", b"").decode("latin-1")
        scheme = f" ({challenge.split(' ')[0]})" if challenge else ""
        error = error_in(answer.body)
        why = f": {jsonrpc.excerpt(error.message.encode())}" if error is not None and error.message else ""
        return f"the server requires credentials{scheme}, or rejects the credentials that it got (401){why}"
    if status == 403:
        return f"the server forbids the request (403){_quote(answer)}"
    if status == 404:
        return f"the server has no endpoint at the path of its URL (404){_quote(answer)}"
    if status == 421:
        return "the server rejects the host name of the request (421): set hostHeader to a name that it accepts"
    if status == 508:
        return "the server's URL leads back to this gateway, or the request passed too many gateways (508)"
    if 300 <= status < 400:
        location = answer.headers.get(b"location", b"").decode("latin-1")
        redirect = f"redirects to {plain_address(location)}" if location else "redirects without a Location header"
        return f"the server {redirect} ({status}); only a trailing slash may differ: set the url to that address"
    return f"the server answered with status {status}{_quote(answer)}"


def plain_address(location: str) -> str:
    """Return a URL, such as a Location, without the parts that may be secret: user information, query and fragment."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return "an invalid URL"
    public_url = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    return jsonrpc.excerpt(public_url.encode()) or "the same URL with another query"


def _quote(answer: Answer) -> str:
    if looks_like_html(answer):
        return " with an HTML page"
    text = jsonrpc.excerpt(answer.body)
    return f": {text}" if text else ""


def _not_mcp(answer: Answer, message: str, reason: str) -> NotMcp:
    return NotMcp(
        message,
        status=answer.status,
        content_type=answer.content_type.decode("latin-1"),
        excerpt=jsonrpc.excerpt(answer.body),
        reason=reason,
    )


def _wrong_id(answer: Answer, ident: Raw | msgspec.UnsetType) -> NotMcp:
    id_text = "no id" if ident is UNSET else f"the id {jsonrpc.excerpt(bytes(ident))}"
    return _not_mcp(answer, f"the server's answer has {id_text} instead of the id of the request", "WrongAnswerID")
