"""Affinity tags in `requestState` and task ids: each names the pod that created the state or task.

Pure module. A server may protect its state with a key of its process (MCP 2026-07-28, "Multi Round-Trip Requests"), so
the next request has to reach the same pod. Before the gateway passes a state on to the client, it puts a tag in front:
a hash of the pod's address, which every replica can match without stored data, and which reveals nothing about the
network. If no pod matches the tag, the state is sent to any pod, which rejects it if it is unknown. The tag is followed
by a checksum over the state, so that an altered state is not mistaken for a tagged one.

A server process on stdio has no address, so its tag is the random name of the process.
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
    """The address that matches a tag, or None."""
    return next((address for address in addresses if tag_of(address) == tag), None)


def add_pod_tag(result: Raw, address: Address, member: str = states.STATE) -> Raw:
    """Put the tag of `address` in front of `requestState` or another member of a result, if the result has it."""
    return add_tag(result, tag_of(address), member)


def add_tag(result: Raw, tag_bytes: bytes, member: str) -> Raw:
    """Put a tag in front of a member of a result, if the result has it."""
    tag = tag_bytes.decode()
    return states.rewrite_state(result, lambda state: f"{tag}{_checksum(tag, state)}.{state}", member)


def split(tagged: str) -> tuple[str, bytes | None]:
    """The text without its tag, and the tag; None for a text without a tag."""
    match = _TAGGED.match(tagged)
    if match is None or _checksum(match.group(1), tagged[match.end() :]) != match.group(2):
        return tagged, None
    return tagged[match.end() :], match.group(1).encode()


def remove_tag(params: jsonrpc.RawObject) -> tuple[jsonrpc.RawObject, bytes | None]:
    """Params with the server's original `requestState`, and its tag, if any."""
    state = states.state_in(params)
    if state is None:
        return params, None
    server_state, tag = split(state)
    return (params, None) if tag is None else (states.with_state(params, server_state), tag)


def _checksum(tag: str, state: str) -> str:
    return hashlib.blake2b(f"{tag} {state}".encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
