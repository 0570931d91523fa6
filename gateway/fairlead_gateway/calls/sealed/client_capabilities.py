"""Client capabilities in normalized form: equal capabilities of different clients become equal bytes.

Separate from `sessions`, because mypyc cannot compile msgspec Structs.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_gateway.core.request import McpRequest
from fairlead_mcp import eras, jsonrpc

_FORMS_SINCE: Final = "2025-06-18"
"""First revision with elicitation."""
_MODES_SINCE: Final = "2025-11-25"
"""First revision with elicitation by URL."""
_FEATURE_MEMBERS: Final = (b'"elicitation"', b'"sampling"', b'"roots"')


class _Elicitation(msgspec.Struct, omit_defaults=True):
    form: dict[str, Raw] | UnsetType = UNSET
    url: dict[str, Raw] | UnsetType = UNSET


class _Sampling(msgspec.Struct, omit_defaults=True):
    context: dict[str, Raw] | UnsetType = UNSET
    tools: dict[str, Raw] | UnsetType = UNSET


class _Capabilities(msgspec.Struct, omit_defaults=True):
    elicitation: _Elicitation | UnsetType = UNSET
    roots: dict[str, Raw] | UnsetType = UNSET
    sampling: _Sampling | UnsetType = UNSET


_decode_capabilities = msgspec.json.Decoder(_Capabilities).decode


def normalize(capabilities: bytes | Raw, version: str = eras.MODERN_VERSION) -> str | None:
    """Client capabilities as JSON, reduced to the members that matter in the client's protocol version; None if there
    are none, or they are malformed.

    Only a few dozen values are possible: the gateway may open one session per value with each server.
    """
    try:
        parsed = _decode_capabilities(capabilities)
    except jsonrpc.UNREADABLE:
        return None
    features: dict[str, dict[str, dict[str, str]]] = {}
    if parsed.elicitation is not UNSET and version >= _FORMS_SINCE:
        modes = {"form": parsed.elicitation.form, "url": parsed.elicitation.url}
        if version < _MODES_SINCE:
            modes = {}  # no mode: an elicitation was always a form
        features["elicitation"] = {mode: {} for mode, value in modes.items() if value is not UNSET}
    if parsed.roots is not UNSET:
        features["roots"] = {}
    if parsed.sampling is not UNSET:
        extras = {"context": parsed.sampling.context, "tools": parsed.sampling.tools}
        features["sampling"] = {extra: {} for extra, value in extras.items() if value is not UNSET}
    return msgspec.json.encode(features).decode() if features else None


def features_of(request: McpRequest) -> bytes | None:
    """Capabilities that a modern client declares with a request, as normalized raw JSON, or None."""
    meta = bytes(request.params["_meta"]) if request.modern and "_meta" in request.params else b""
    if not any(word in meta for word in _FEATURE_MEMBERS):
        return None
    try:
        capabilities = normalize(jsonrpc.decode_object(meta)[eras.META_CAPABILITIES])
    except (*jsonrpc.UNREADABLE, KeyError):
        return None
    return None if capabilities is None else capabilities.encode()
