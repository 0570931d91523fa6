"""Client capabilities (roots, sampling, elicitation): encoding, lookup, and answers to servers that use them during
discovery, when definitions are listed and there is no client to answer. No I/O.

A capability has the name that it has in `initialize`, and a member of a capability has a dotted name, such as
`elicitation.url` (MCP 2025-11-25 and 2026-07-28, client capabilities).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import UNSET, Raw

from fairlead_mcp import jsonrpc, methods
from fairlead_mcp.errors import RpcError
from fairlead_mcp.messages import Message

ALL: Final = b'{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"context":{},"tools":{}}}'
"""All client capabilities, as raw JSON, which discovery declares."""
SINGLE: Final[tuple[tuple[str, bytes], ...]] = (
    ("roots", b'{"roots":{}}'),
    ("sampling", b'{"sampling":{}}'),
    ("elicitation", b'{"elicitation":{"form":{}}}'),
    ("elicitation.url", b'{"elicitation":{"url":{}}}'),
    ("sampling.tools", b'{"sampling":{"tools":{}}}'),
)
"""Names of capabilities, the most used first, each with the raw JSON that declares only this capability."""
REQUIRED_TOGETHER: Final = ("roots", "sampling", "elicitation")
"""Capabilities that count as required by a tool that the server lists only to clients that declare several."""

_REJECTED: Final = -1
"""Error code for a rejected sampling request (MCP 2025-11-25, Sampling, "Error Handling")."""


def decline(request: Message, answer: Callable[[bytes], None]) -> None:
    """Answer a server's request during discovery: no roots, no sampling, a declined elicitation. Raises nothing."""
    assert request.id is not UNSET
    if request.method == "roots/list":
        answer(jsonrpc.result(request.id, b'{"roots":[]}'))
    elif request.method == "elicitation/create":
        answer(jsonrpc.result(request.id, b'{"action":"decline"}'))
    elif request.method == "sampling/createMessage":
        answer(
            jsonrpc.error(
                request.id, _REJECTED, "Sampling was rejected: this client only lists tools, prompts and resources"
            )
        )
    else:
        answer(jsonrpc.reply_to_server(request))


def declares(capabilities: bytes | None, name: str) -> bool:
    """Whether client capabilities (raw JSON) include the named one.

    An elicitation capability without members means forms (MCP 2025-11-25, Elicitation, "Capabilities").
    """
    if capabilities is None:
        return False
    capability, _, member = name.partition(".")
    try:
        members = jsonrpc.decode_object(capabilities)
        return capability in members and (not member or member in jsonrpc.decode_object(members[capability]))
    except jsonrpc.UNREADABLE:
        return False


def missing_capability_data(names: Iterable[str]) -> bytes:
    """Make the `data` of the error MissingRequiredClientCapability (-32021, MCP 2026-07-28), as raw JSON."""
    required: dict[str, dict[str, dict[str, str]]] = {}
    for name in names:
        capability, _, member = name.partition(".")
        members = required.setdefault(capability, {})
        if member or capability == "elicitation":
            members[member or "form"] = {}
    return jsonrpc.encode({"requiredCapabilities": required})


def extensions(capabilities: bytes | Raw) -> frozenset[str]:
    """Return the identifiers of the extensions (SEP-2133) in capabilities of a client or server, raw JSON."""
    return frozenset(extension_settings(capabilities))


def extension_settings(capabilities: bytes | Raw) -> jsonrpc.RawObject:
    """Return the raw settings of the extensions in capabilities of a client or server, by identifier.

    Extensions whose settings are not an object are ignored.
    """
    if b'"extensions"' not in bytes(capabilities) and b"\\" not in bytes(capabilities):
        return {}  # the name does not occur, not even with escapes
    try:
        by_name = jsonrpc.decode_object(jsonrpc.decode_object(capabilities).get("extensions", Raw(b"{}")))
    except jsonrpc.UNREADABLE:
        return {}
    return {name: settings for name, settings in by_name.items() if bytes(settings)[:1] == b"{"}


def add_extension(capabilities: bytes | None, name: str) -> bytes:
    """Add an extension to client capabilities (raw JSON)."""
    members = {} if capabilities is None else jsonrpc.decode_object(capabilities)
    return jsonrpc.encode({**members, "extensions": {**extension_settings(capabilities or b""), name: Raw(b"{}")}})


def for_method(capabilities: bytes, method: str, extension: str = "") -> bytes:
    """Add to client capabilities (raw JSON) the extension that a server may require for a request: the one that the
    request declares (`extension`), or else the extension of its method.
    """
    name = extension or methods.extension_of(method)
    return add_extension(capabilities, name) if name else capabilities


def missing_capability_error(method: str, message: str) -> RpcError:
    """Make the error MissingRequiredClientCapability (-32021) for a server's request that its client cannot answer."""
    capability = jsonrpc.CAPABILITY_OF.get(method)
    data = None if capability is None else jsonrpc.encode({"requiredCapabilities": {capability: {}}})
    return RpcError(jsonrpc.MISSING_CLIENT_CAPABILITY, f"{method}: {message}", data)


def missing_extension_data(name: str) -> bytes:
    """Make the `data` of the error -32021 for an extension that a request has to declare (SEP-2133), as raw JSON."""
    return jsonrpc.encode({"requiredCapabilities": {"extensions": {name: {}}}})


def requires_extension(data: bytes | None, name: str) -> bool:
    """Whether the `data` of an error -32021 names an extension."""
    try:
        required = jsonrpc.decode_object(jsonrpc.decode_object(data or b"")["requiredCapabilities"])
    except (*jsonrpc.UNREADABLE, KeyError):
        return False
    return name in extensions(jsonrpc.encode(required))


def names_in(data: bytes | None) -> tuple[str, ...]:
    """Return the names of the capabilities in the `data` of an error -32021; empty if it is malformed."""
    try:
        required = jsonrpc.decode_object(jsonrpc.decode_object(data or b"")["requiredCapabilities"])
    except (*jsonrpc.UNREADABLE, KeyError):
        return ()
    return tuple(sorted(required))


def missing_capability_message(tool: str, names: Iterable[str]) -> str:
    """Make the message for a client without the capabilities that a tool requires."""
    required = list(names)
    kind = "capability" if len(required) == 1 else "capabilities"
    return f"{tool} needs the client {kind} {' and '.join(required)}, which this client has not declared"
