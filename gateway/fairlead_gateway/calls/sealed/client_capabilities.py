"""Capabilities of legacy clients in normalized form.

Apart from `calls.sealed.sessions` because a msgspec Struct is not compiled.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, UnsetType

from fairlead_mcp import jsonrpc


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


def normalized(capabilities: bytes | Raw) -> str | None:
    """Client capabilities in one of a few dozen forms; None for none, or another shape.

    Few, because a session is opened with a server for each.
    """
    try:
        seen = _decode_capabilities(capabilities)
    except jsonrpc.UNREADABLE:
        return None
    said: dict[str, dict[str, dict[str, str]]] = {}
    if seen.elicitation is not UNSET:
        modes = {"form": seen.elicitation.form, "url": seen.elicitation.url}
        said["elicitation"] = {mode: {} for mode, given in modes.items() if given is not UNSET}
    if seen.roots is not UNSET:
        said["roots"] = {}
    if seen.sampling is not UNSET:
        extras = {"context": seen.sampling.context, "tools": seen.sampling.tools}
        said["sampling"] = {extra: {} for extra, given in extras.items() if given is not UNSET}
    return msgspec.json.encode(said).decode() if said else None
