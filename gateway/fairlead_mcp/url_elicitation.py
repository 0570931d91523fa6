"""URL elicitation: a server wants a user to open a page. Conversion between the forms of the revisions. No I/O.

- 2025-11-25: the request `elicitation/create` with `mode: "url"` and an `elicitationId`; or the answer to any request,
  the error URLElicitationRequiredError (-32042) with `data.elicitations`.
- 2026-07-28: only the request, without an id, within an `input_required` result.
- Earlier revisions have only forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Raw

from fairlead_mcp import capabilities, jsonrpc
from fairlead_mcp.errors import RpcError
from fairlead_mcp.messages import Message

METHOD: Final = "elicitation/create"
CAPABILITY: Final = "elicitation.url"
URL: Final = "url"
FORM: Final = "form"
URL_ELICITATION_REQUIRED: Final = -32042
"""Error of 2025-11-25; must not be emitted to clients of other revisions."""
MAX_ELICITATIONS: Final = 16
"""Limit on the pages of one error or result; further pages are dropped."""
MAX_URL: Final = 8192
"""Limit on the characters of a page's URL."""
ELICITATION_ID: Final = "elicitationId"
COMPLETED: Final = "notifications/elicitation/complete"
"""Notification of 2025-11-25 that a user is done with a page."""
DEFAULT_MESSAGE: Final = "Open this page to continue"
"""Message of an elicitation without one."""

NewId: TypeAlias = Callable[[], str]
"""Makes an `elicitationId`."""


class UrlElicitation(msgspec.Struct, frozen=True):
    """A page that a user has to open."""

    url: str
    message: str
    members: jsonrpc.RawObject = {}
    """Params of the request as the server sent them."""

    def modern_params(self) -> bytes:
        """Params of 2026-07-28, raw JSON."""
        return jsonrpc.encode({name: value for name, value in self.params().items() if name != ELICITATION_ID})

    def legacy_params(self, new_id: NewId) -> bytes:
        """Params of 2025-11-25, raw JSON, with the server's `elicitationId` or a new one."""
        members = self.params()
        if not _is_text(self.members.get(ELICITATION_ID)):
            members[ELICITATION_ID] = new_id()
        return jsonrpc.encode(members)

    def params(self) -> dict[str, object]:
        """Params with all required members but the id."""
        return {**self.members, "mode": URL, URL: self.url, "message": self.message}


class _Mode(msgspec.Struct):
    mode: Any = FORM


class _Action(msgspec.Struct):
    action: Any = ""


class _RequiredData(msgspec.Struct):
    elicitations: list[Raw]


_decode_mode = msgspec.json.Decoder(_Mode).decode
_decode_response = msgspec.json.Decoder(_Action).decode
_decode_required = msgspec.json.Decoder(_RequiredData).decode


def mode_of(params: Raw | bytes) -> str:
    """Return the mode of `elicitation/create`; `form` also for params that cannot be read."""
    try:
        mode = _decode_mode(params).mode
    except jsonrpc.UNREADABLE:
        return FORM
    return URL if mode == URL else FORM


def read(params: Raw | bytes) -> UrlElicitation | None:
    """Read params of `elicitation/create`; None if they are not of mode `url`, or have no valid URL."""
    return _read(params) if mode_of(params) == URL else None


def read_request(method: object, params: object) -> UrlElicitation | None:
    """Read a server's request; None unless it is `elicitation/create` of mode `url` with a valid URL."""
    return read(params) if method == METHOD and isinstance(params, Raw) else None


def is_url_elicitation(method: object, params: object) -> bool:
    """Whether a server's request is `elicitation/create` of mode `url`, even if its URL is not valid."""
    return method == METHOD and isinstance(params, Raw) and mode_of(params) == URL


def pages_in_error(error: Exception) -> tuple[UrlElicitation, ...]:
    """Return the pages of the error -32042, at most MAX_ELICITATIONS; empty for other and for malformed errors."""
    if not isinstance(error, RpcError) or error.code != URL_ELICITATION_REQUIRED or error.data is None:
        return ()
    try:
        items = _decode_required(error.data).elicitations
    except jsonrpc.UNREADABLE:
        return ()
    pages = (_read(params) for params in items[:MAX_ELICITATIONS])
    return tuple(page for page in pages if page is not None)


def required_error(pages: Sequence[UrlElicitation]) -> RpcError:
    """Make the error -32042 (URLElicitationRequired) that asks the client to open the pages."""
    data = jsonrpc.encode({"elicitations": [page.params() for page in pages]})
    return RpcError(URL_ELICITATION_REQUIRED, describe_pages(pages), data)


def required_data(pages: Sequence[UrlElicitation], new_id: NewId) -> bytes:
    """Make the `data` of the error -32042 for a client of 2025-11-25, raw JSON."""
    return jsonrpc.encode({"elicitations": [Raw(page.legacy_params(new_id)) for page in pages]})


def input_requests(pages: Sequence[UrlElicitation]) -> dict[str, dict[str, object]]:
    """Make the `inputRequests` for a client of 2026-07-28."""
    return {
        f"page{number}": {"method": METHOD, "params": Raw(page.modern_params())} for number, page in enumerate(pages)
    }


def is_declared(features: bytes | None, params: object) -> bool:
    """Whether client capabilities (raw JSON) include the mode of an elicitation, whose params can be forwarded.

    A capability without members means forms (MCP 2025-11-25, Elicitation, "Capabilities").
    """
    if not isinstance(params, Raw) or mode_of(params) == FORM:
        forms = capabilities.declares(features, "elicitation.form")
        return forms or (capabilities.declares(features, "elicitation") and not declares_urls(features))
    return declares_urls(features) and _read(params) is not None


def declares_urls(features: bytes | None) -> bool:
    """Whether client capabilities (raw JSON) include elicitation by URL."""
    return capabilities.declares(features, CAPABILITY)


def refuse(request: Message, features: bytes | None) -> bytes:
    """Answer a request of a legacy server that cannot be forwarded to its client (MCP 2025-11-25, Elicitation, "Error
    Handling"). Most servers quote the error in the tool's result, so the error contains the link.
    """
    if request.method != METHOD or not isinstance(request.params, Raw) or request.id is UNSET:
        return jsonrpc.reply_to_server(request)
    if mode_of(request.params) == FORM:
        if not declares_urls(features):
            return jsonrpc.reply_to_server(request)
        message = "The client of this request opens pages (elicitation.url), but has not declared elicitation.form"
    else:
        page = _read(request.params)
        if page is None:
            message = f"elicitation/create of mode url needs params.url, a URL of at most {MAX_URL} characters"
        else:
            message = f"The client of this request has not declared elicitation.url. {describe_pages((page,))}"
    return jsonrpc.error(request.id, jsonrpc.INVALID_PARAMS, message)


def is_accepted(response: Raw | bytes) -> bool:
    """Whether a client's result of `elicitation/create` says that the user agreed."""
    try:
        return bool(_decode_response(response).action == "accept")
    except jsonrpc.UNREADABLE:
        return False


def completion_notification(params: object) -> bytes | None:
    """Make `notifications/elicitation/complete` of a server's params; None if they name no elicitation."""
    try:
        members = jsonrpc.decode_object(params) if isinstance(params, Raw) else {}
    except jsonrpc.UNREADABLE:
        return None
    has_id = _is_text(members.get(ELICITATION_ID))
    return jsonrpc.notification(COMPLETED, jsonrpc.encode(members)) if has_id else None


def describe_pages(pages: Sequence[UrlElicitation]) -> str:
    """Describe pages for a user or model that can only get text."""
    if len(pages) == 1:
        return f"{_sentence(pages[0].message)} Open {pages[0].url} in a browser, then call again."
    items = "".join(f"\n- {_sentence(page.message)} {page.url}" for page in pages)
    return f"Open these pages in a browser, then call again:{items}"


def _sentence(text: str) -> str:
    text = text.strip() or DEFAULT_MESSAGE
    return text if text[-1] in ".!?:" else f"{text}."


def _read(params: Raw | bytes) -> UrlElicitation | None:
    try:
        members = jsonrpc.decode_object(params)
        url = jsonrpc.decode_text(members[URL])
    except (*jsonrpc.UNREADABLE, KeyError):
        return None
    raw_message = members.get("message")
    message = jsonrpc.decode_text(raw_message) if raw_message is not None and _is_text(raw_message) else DEFAULT_MESSAGE
    return UrlElicitation(url, message, members) if _is_url(url) else None


def _is_url(text: str) -> bool:
    """Whether a text is an absolute URI in ASCII, as the schema's format `uri` demands (RFC 3986 section 4.3)."""
    if len(text) > MAX_URL or not text.isascii() or not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme != "" and (parts.netloc != "" or parts.path != "")


def _is_text(raw: Raw | None) -> bool:
    if raw is None:
        return False
    try:
        jsonrpc.decode_text(raw)
    except jsonrpc.UNREADABLE:
        return False
    return True
