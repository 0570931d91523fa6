"""Client capabilities (roots, sampling, elicitation): declared by a discovery, which declines what is then asked of it,
and looked up in what a client declared.

Pure module: no I/O. A capability is named as in `initialize`, one of its members with a dot: `elicitation.url`
(MCP 2025-11-25 and 2026-07-28, client capabilities).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import UNSET, Raw

from fairlead_mcp import jsonrpc, methods
from fairlead_mcp.errors import RpcError
from fairlead_mcp.messages import Message

ALL: Final = b'{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"context":{},"tools":{}}}'
"""Capabilities that a discovery declares, raw JSON."""
SINGLE: Final[tuple[tuple[str, bytes], ...]] = (
    ("roots", b'{"roots":{}}'),
    ("sampling", b'{"sampling":{}}'),
    ("elicitation", b'{"elicitation":{"form":{}}}'),
    ("elicitation.url", b'{"elicitation":{"url":{}}}'),
    ("sampling.tools", b'{"sampling":{"tools":{}}}'),
)
"""One capability each, by its name; those that servers use most come first."""
TOGETHER: Final = ("roots", "sampling", "elicitation")
"""Names of the capabilities that are required of a tool which no single one brings forth."""

_REJECTED: Final = -1
"""Code of a sampling request that the user rejected (MCP 2025-11-25, Sampling, "Error Handling")."""


def decline(request: Message, answer: Callable[[bytes], None]) -> None:
    """Answer a server's request during a discovery: no roots, no sampling, a declined elicitation. Raises nothing."""
    assert request.id is not UNSET
    if request.method == "roots/list":
        answer(jsonrpc.result(request.id, b'{"roots":[]}'))
    elif request.method == "elicitation/create":
        answer(jsonrpc.result(request.id, b'{"action":"decline"}'))
    elif request.method == "sampling/createMessage":
        answer(jsonrpc.error(request.id, _REJECTED, "Sampling was rejected: this client only lists what there is"))
    else:
        answer(jsonrpc.reply_to_server(request))


def declares(capabilities: bytes | None, name: str) -> bool:
    """Whether a client that declared these capabilities (raw JSON) has the named one. An elicitation capability without
    members is that of forms (MCP 2025-11-25, Elicitation, "Capabilities").
    """
    if capabilities is None:
        return False
    whole, _, part = name.partition(".")
    try:
        members = jsonrpc.decode_object(capabilities)
        return whole in members and (not part or part in jsonrpc.decode_object(members[whole]))
    except jsonrpc.UNREADABLE:
        return False


def required(names: Iterable[str]) -> bytes:
    """`data` of the error MissingRequiredClientCapability (-32021), raw JSON (MCP 2026-07-28)."""
    wanted: dict[str, dict[str, dict[str, str]]] = {}
    for name in names:
        whole, _, part = name.partition(".")
        members = wanted.setdefault(whole, {})
        if part or whole == "elicitation":
            members[part or "form"] = {}
    return jsonrpc.encode({"requiredCapabilities": wanted})


def extensions(capabilities: bytes | Raw) -> frozenset[str]:
    """Identifiers of the extensions in the capabilities of a client or a server, raw JSON (SEP-2133)."""
    return frozenset(extension_settings(capabilities))


def extension_settings(capabilities: bytes | Raw) -> jsonrpc.RawObject:
    """Extensions in the capabilities of a client or a server, raw JSON: identifier to raw settings, an object each.
    Tolerant: what has another shape declares nothing.
    """
    if b'"extensions"' not in bytes(capabilities) and b"\\" not in bytes(capabilities):
        return {}  # a name can be written with escapes too
    try:
        by_name = jsonrpc.decode_object(jsonrpc.decode_object(capabilities).get("extensions", Raw(b"{}")))
    except jsonrpc.UNREADABLE:
        return {}
    return {name: settings for name, settings in by_name.items() if bytes(settings)[:1] == b"{"}


def declaring(capabilities: bytes | None, name: str) -> bytes:
    """Client capabilities, raw JSON, with an extension among them."""
    members = {} if capabilities is None else jsonrpc.decode_object(capabilities)
    return jsonrpc.encode({**members, "extensions": {**extension_settings(capabilities or b""), name: Raw(b"{}")}})


def for_method(capabilities: bytes, method: str, declares: str = "") -> bytes:
    """Client capabilities, raw JSON, with the extension that a method belongs to, for servers may insist on it, or the
    one that a request declares.
    """
    name = declares or methods.extension_of(method)
    return declaring(capabilities, name) if name else capabilities


def unanswerable(method: str, message: str) -> RpcError:
    """Error MissingRequiredClientCapability (-32021) for a server's question that its client cannot answer."""
    missing = jsonrpc.CAPABILITY_OF.get(method)
    data = None if missing is None else jsonrpc.encode({"requiredCapabilities": {missing: {}}})
    return RpcError(jsonrpc.MISSING_CLIENT_CAPABILITY, f"{method}: {message}", data)


def required_extension(name: str) -> bytes:
    """`data` of the error -32021 for an extension that a request has to declare, raw JSON (SEP-2133)."""
    return jsonrpc.encode({"requiredCapabilities": {"extensions": {name: {}}}})


def requires_extension(data: bytes | None, name: str) -> bool:
    """Whether the `data` of such an error names an extension."""
    try:
        wanted = jsonrpc.decode_object(jsonrpc.decode_object(data or b"")["requiredCapabilities"])
    except (*jsonrpc.UNREADABLE, KeyError):
        return False
    return name in extensions(jsonrpc.encode(wanted))


def names_in(data: bytes | None) -> tuple[str, ...]:
    """Names of the capabilities in the `data` of such an error; none where it has another shape."""
    try:
        wanted = jsonrpc.decode_object(jsonrpc.decode_object(data or b"")["requiredCapabilities"])
    except (*jsonrpc.UNREADABLE, KeyError):
        return ()
    return tuple(sorted(wanted))


def sentence(tool: str, names: Iterable[str]) -> str:
    """Message for a client that lacks capabilities which a tool requires."""
    wanted = list(names)
    kind = "capability" if len(wanted) == 1 else "capabilities"
    return f"{tool} needs the client {kind} {' and '.join(wanted)}, which this client has not declared"
