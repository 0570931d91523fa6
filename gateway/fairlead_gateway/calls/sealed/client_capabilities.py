"""Capabilities of clients in normalized form.

Apart from `sessions` because a msgspec Struct is not compiled.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_gateway.core.request import McpRequest
from fairlead_mcp import eras, jsonrpc

_WORDS: Final = (b'"elicitation"', b'"sampling"', b'"roots"')


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


def normalize(capabilities: bytes | Raw) -> str | None:
    """Client capabilities in one of a few dozen forms; None for none, or another shape.

    Few, because a session is opened with a server for each.
    """
    try:
        seen = _decode_capabilities(capabilities)
    except jsonrpc.UNREADABLE:
        return None
    features: dict[str, dict[str, dict[str, str]]] = {}
    if seen.elicitation is not UNSET:
        modes = {"form": seen.elicitation.form, "url": seen.elicitation.url}
        features["elicitation"] = {mode: {} for mode, given in modes.items() if given is not UNSET}
    if seen.roots is not UNSET:
        features["roots"] = {}
    if seen.sampling is not UNSET:
        extras = {"context": seen.sampling.context, "tools": seen.sampling.tools}
        features["sampling"] = {extra: {} for extra, given in extras.items() if given is not UNSET}
    return msgspec.json.encode(features).decode() if features else None


def features_of(request: McpRequest) -> bytes | None:
    """Capabilities that a modern client declares with a request, normalized raw JSON; None for none."""
    meta = bytes(request.params["_meta"]) if request.modern and "_meta" in request.params else b""
    if not any(word in meta for word in _WORDS):
        return None
    try:
        capabilities = normalize(jsonrpc.decode_object(meta)[eras.META_CAPABILITIES])
    except (*jsonrpc.UNREADABLE, KeyError):
        return None
    return None if capabilities is None else capabilities.encode()
