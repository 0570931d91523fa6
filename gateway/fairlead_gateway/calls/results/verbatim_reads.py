"""Results that are passed on byte for byte or not at all: files of skills, and user interfaces (SEP-2640, SEP-1865).

A host compares a skill's bytes with their digest, and nobody reads HTML with escapes in its middle. So what policies
want made visible refuses such a result, and so does a pinned server's skill that is not the approved one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from msgspec import Raw

from fairlead_gateway.core.server import Server
from fairlead_mcp.errors import NotMcp
from fairlead_mcp.escaping import escape
from fairlead_mcp.skills import ApprovedSkills
from fairlead_mcp.uris import SCHEMES, scheme_of

READ: Final = "resources/read"
GET_SKILL: Final = "skills/get"
Check: TypeAlias = Callable[[bytes | Raw], None]


def check_of(server: Server, method: str, uri: str, *, escapes: bool) -> Check | None:
    """Check of the result of a request for a URI, the server's own; None where it may be changed on the way.
    `escapes`: policies want control characters made visible.
    """
    approved = server.approved
    if method == GET_SKILL and approved is not None:
        return partial(_check_entry, approved, uri)
    if method != READ:
        return None
    if approved is not None and not approved.covers(uri):
        approved = None
    plain = escapes and scheme_of(uri) in SCHEMES
    return partial(_check_read, approved, uri, plain) if plain or approved is not None else None


def _check_entry(approved: ApprovedSkills, uri: str, result: bytes | Raw) -> None:
    wrong = approved.explain_unapproved_entry(uri, result)
    if wrong is not None:
        raise NotMcp(wrong)


def _check_read(approved: ApprovedSkills | None, uri: str, plain: bool, result: bytes | Raw) -> None:
    wrong = None if approved is None else approved.explain_unapproved_read(uri, result)
    if wrong is not None:
        raise NotMcp(wrong)
    if plain and bytes(escape(result)) != bytes(result):
        raise NotMcp(f"{uri} has control characters, which a policy does not let through, and may not be changed")
