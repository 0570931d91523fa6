"""Checks of results that must be passed on byte for byte: files of skills, and user interfaces (SEP-2640, SEP-1865).

An MCP host compares a skill's bytes with their digest, and escape sequences would break the HTML of a user interface.
Such a result is therefore rejected, not changed, if it has control characters that a policy wants escaped, or if it
differs from the approved skill of a pinned server.
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
"""Raises NotMcp for a raw result that must not be passed on."""


def check_of(server: Server, method: str, uri: str, *, must_escape: bool) -> Check | None:
    """The check for the result of a request; None if the result need not be passed on byte for byte.

    `uri` is the server's own URI of the target. `must_escape` tells that policies require control characters to be
    escaped.
    """
    approved = server.approved
    if method == GET_SKILL and approved is not None:
        return partial(_check_entry, approved, uri)
    if method != READ:
        return None
    if approved is not None and not approved.covers(uri):
        approved = None
    must_be_plain = must_escape and scheme_of(uri) in SCHEMES
    return partial(_check_read, approved, uri, must_be_plain) if must_be_plain or approved is not None else None


def _check_entry(approved: ApprovedSkills, uri: str, result: bytes | Raw) -> None:
    problem = approved.explain_unapproved_entry(uri, result)
    if problem is not None:
        raise NotMcp(problem)


def _check_read(approved: ApprovedSkills | None, uri: str, must_be_plain: bool, result: bytes | Raw) -> None:
    problem = None if approved is None else approved.explain_unapproved_read(uri, result)
    if problem is not None:
        raise NotMcp(problem)
    if must_be_plain and bytes(escape(result)) != bytes(result):
        raise NotMcp(
            f"{uri} has control characters, which a policy forbids and which cannot be escaped in this kind of resource"
        )
