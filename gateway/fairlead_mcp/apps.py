"""MCP Apps (`io.modelcontextprotocol/ui`, SEP-1865): reads the user interface that a tool definition declares. No I/O.

A tool names a `ui://` resource with HTML that a host shows; the resource need not be listed. The HTML calls tools of
the same server by the server's own names.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from fairlead_mcp import jsonrpc, uris

APP: Final = "app"
MODEL: Final = "model"


class UserInterface(msgspec.Struct, frozen=True):
    """User interface that one tool declares."""

    resources: tuple[str, ...] = ()
    """`ui://` URIs in the definition, without a prefix of the gateway."""
    for_app: bool = True
    """Whether apps may call the tool (`visibility`)."""
    for_model: bool = True
    """Whether models may see the tool (`visibility`)."""


NONE: Final = UserInterface()


class _Ui(msgspec.Struct):
    visibility: list[str] | None = None


class _UiMeta(msgspec.Struct):
    ui: Raw = Raw(b"{}")


class _MetaOfTool(msgspec.Struct):
    meta: Raw = msgspec.field(name="_meta", default=Raw(b"{}"))


_decode_tool: Final = msgspec.json.Decoder(_MetaOfTool).decode
_decode_meta: Final = msgspec.json.Decoder(_UiMeta).decode
_decode_list: Final = msgspec.json.Decoder(list[Raw]).decode
_decode_ui: Final = msgspec.json.Decoder(_Ui).decode


def interface_of(definition: bytes) -> UserInterface:
    """Read the user interface of a raw definition; malformed members are ignored."""
    if b'"ui' not in definition and b'"openai' not in definition and b"\\u" not in definition:
        return NONE
    ui_uris = tuple(uri for uri in uris.find_uris(definition, uris.TOOL) if uris.scheme_of(uri) == "ui")
    visibility = _visibility(definition)
    if visibility is None:
        return UserInterface(ui_uris) if ui_uris else NONE
    return UserInterface(ui_uris, APP in visibility, MODEL in visibility)


def _visibility(definition: bytes) -> list[str] | None:
    try:
        return _decode_ui(_decode_meta(_decode_tool(definition).meta).ui).visibility
    except jsonrpc.UNREADABLE:
        return None


def remove_domain(resource: bytes | Raw) -> bytes | Raw:
    """Remove `_meta.ui.domain` from a resource definition or from one item of its contents.

    Hosts derive the domain from the URL that they connect to, so a domain that the server has derived from its own URL
    is wrong behind a gateway. Returns the same object if there is no domain.
    """
    if not _may_have_domain(resource):
        return resource
    try:
        members = jsonrpc.decode_object(resource)
        meta = jsonrpc.decode_object(members["_meta"])
        ui = jsonrpc.decode_object(meta["ui"])
        del ui["domain"]
    except (KeyError, *jsonrpc.UNREADABLE):
        return resource
    meta["ui"] = Raw(jsonrpc.encode(ui))
    members["_meta"] = Raw(jsonrpc.encode(meta))
    return jsonrpc.encode(members)


def remove_domains_in_result(result: bytes | Raw) -> bytes | Raw:
    """Remove `_meta.ui.domain` from a result of `resources/read`; returns the same object if there is none."""
    if not _may_have_domain(result):
        return result
    try:
        members = jsonrpc.decode_object(result)
        contents = [remove_domain(content) for content in _decode_list(members["contents"])]
    except (KeyError, *jsonrpc.UNREADABLE):
        return result
    members["contents"] = Raw(jsonrpc.encode([Raw(bytes(content)) for content in contents]))
    return jsonrpc.encode(members)


def _may_have_domain(raw: bytes | Raw) -> bool:
    data = bytes(raw)
    return b'"domain"' in data or b"\\u" in data
