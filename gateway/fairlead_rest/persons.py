"""Determines whose records a request is for: the caller's or, for administrators, also the records of others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime

from starlette.requests import Request

from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity.persons import person_of
from fairlead_mcp.oauth.stored_grant import GrantStoreError
from fairlead_offers.problems import FORBIDDEN, UNREADABLE, Problem
from fairlead_rest.context import RestContext
from fairlead_rest.log_access import may_read


def listed_person(context: RestContext, request: Request, records: str, *, everybody: bool) -> bytes | None:
    """The user whose records to list; None for all users. `records` is the plural noun for messages. Raises Problem."""
    identity = context.catalog(request).identity
    if not everybody:
        return _require_person(identity, records)
    if not may_read(context, request, identity):
        hint = context.administration.setting_hint
        raise Problem(FORBIDDEN, f"only administrators may list the {records} of others; {hint}")
    return None


def chosen_person(context: RestContext, request: Request, records: str, person: str | None) -> bytes:
    """The user whose record to end: the caller, unless the request names a `person`. Raises Problem."""
    identity = context.catalog(request).identity
    if person is None:
        return _require_person(identity, records)
    person_id = person.encode("utf-8", "surrogatepass")
    if (not person_id or person_id != person_of(identity)) and not may_read(context, request, identity):
        hint = context.administration.setting_hint
        raise Problem(FORBIDDEN, f"only administrators may end the {records} of others; {hint}")
    return person_id


def time_of(seconds: float) -> str | None:
    """RFC 3339 time; None for 0, and for a number outside of the calendar."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else None
    except (ValueError, OverflowError, OSError):
        return None


@contextlib.contextmanager
def store_problems() -> Iterator[None]:
    """Context that converts a failure of the store to a problem."""
    try:
        yield
    except GrantStoreError as error:
        raise Problem(UNREADABLE, str(error)) from error


def _require_person(identity: Identity, records: str) -> bytes:
    """The caller's person. Raises Problem for callers that are not users."""
    person = person_of(identity)
    if not person:
        raise Problem(
            FORBIDDEN,
            f"{records} belong to users, and the gateway cannot tell who calls: call with a token of its identity "
            "provider or an API key; a gateway without authentication has to listen on 127.0.0.1 alone",
        )
    return person
