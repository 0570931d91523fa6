"""Which pod made a `requestState` or a task, written into the state or the task's id itself.

Pure module. A server seals its state with a key of its own process (MCP 2026-07-28, "Multi Round-Trip Requests"), so a
retry must come back to where the state was made. The state goes to the client with a tag in front, the hash of an
address: nothing is kept here, any replica can read it, and it tells nothing about the network. A tag that fits no
address of the server is dropped; the state then goes to any pod, which refuses it where it does not know it. Beside the
tag stands a sum over the state, so that whatever was altered reaches the server as something that it never made.

A process on stdio has no address, and its tasks end with it: their tag is the random name of the process.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from msgspec import Raw

from fairlead_mcp import jsonrpc, states
from fairlead_mcp.http.dial import Address

_TAGGED: Final = re.compile(r"([0-9a-f]{12})([0-9a-f]{8})\.")


def tag_of(address: Address) -> bytes:
    """The tag of an address, 12 hexadecimal digits."""
    return hashlib.blake2b(f"{address[0]} {address[1]}".encode(), digest_size=6).hexdigest().encode()


def address_of(tag: bytes, addresses: Iterable[Address]) -> Address | None:
    """The address that a tag means, of those that the server has now."""
    return next((address for address in addresses if tag_of(address) == tag), None)


def tagged(result: Raw, address: Address, member: str = states.STATE) -> Raw:
    """A result whose `requestState` (or another member), if it has one, leads back to `address`."""
    return marked(result, tag_of(address), member)


def marked(result: Raw, tag_bytes: bytes, member: str) -> Raw:
    """A result with a tag in front of this member, if it has one."""
    tag = tag_bytes.decode()
    return states.rewrite_state(result, lambda state: f"{tag}{_sum(tag, state)}.{state}", member)


def split(tagged: str) -> tuple[str, bytes | None]:
    """The server's own text behind a tag, and the tag; None where it has none."""
    match = _TAGGED.match(tagged)
    if match is None or _sum(match.group(1), tagged[match.end() :]) != match.group(2):
        return tagged, None
    return tagged[match.end() :], match.group(1).encode()


def untagged(params: jsonrpc.RawObject) -> tuple[jsonrpc.RawObject, bytes | None]:
    """Params with the server's own `requestState`, and the tag that it came with."""
    state = states.state_in(params)
    if state is None:
        return params, None
    own, tag = split(state)
    return (params, None) if tag is None else (states.with_state(params, own), tag)


def _sum(tag: str, state: str) -> str:
    return hashlib.blake2b(f"{tag} {state}".encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
