"""Extracts credentials from a request, at the locations where providers' SDKs put them, and removes them from there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.types import Scope

from fairlead_formats.pairs.provider_apis import APIS
from fairlead_offers.problems import INVALID_ARGUMENTS, Problem

PROVIDER_KEY: Final = "x-fairlead-provider-key"
"""Header with the caller's own API key for the provider, and member of the ASGI scope with this key."""
_KEY_HEADERS: Final = tuple(sorted({api.key_header.encode() for api in APIS.values()} - {b"authorization"}))
_QUERY: Final = b"key"
_PROVIDER_KEY: Final = re.compile(rb"[!-~]{1,8192}")
_REMOVED_HEADERS: Final = frozenset({*_KEY_HEADERS, PROVIDER_KEY.encode()})


def take_credential(scope: Scope) -> bytes | None:
    """Extract the principal's credential from `Authorization`, `x-api-key`, `x-goog-api-key` or `?key=`. Returns the
    credential as a value of `Authorization`; None if the request has none. Raises Problem for different credentials.

    Headers other than `Authorization`, and the query parameter, are removed from the scope, so that credentials do not
    reach logs or tool servers. The key for the provider is moved from its header to the member PROVIDER_KEY of the
    scope.
    """
    fields = [(name, value) for name, value in scope["headers"] if name in _REMOVED_HEADERS or name == b"authorization"]
    scope["headers"] = [(name, value) for name, value in scope["headers"] if name not in _REMOVED_HEADERS]
    credentials = [*_credentials_in(fields), *_take_query_keys(scope)]
    _take_provider_key(scope, [value for name, value in fields if name == PROVIDER_KEY.encode()])
    if len(set(credentials)) > 1:
        raise Problem(
            INVALID_ARGUMENTS,
            "the request has different keys: send the key of this gateway in Authorization, x-api-key, x-goog-api-key "
            f"or ?key=, and the key of a provider in {PROVIDER_KEY}",
        )
    return credentials[0] if credentials else None


def _credentials_in(fields: list[tuple[bytes, bytes]]) -> Iterator[bytes]:
    for name, value in fields:
        if name == b"authorization":
            yield value
        elif name in _KEY_HEADERS and value:
            yield b"Bearer " + value


def _take_query_keys(scope: Scope) -> Iterator[bytes]:
    """Yield the credentials in the query, and remove these parameters from the query."""
    pairs = []
    for part in scope["query_string"].split(b"&"):
        name, _, value = part.partition(b"=")
        if name != _QUERY:
            pairs.append(part)
        elif value:
            yield b"Bearer " + unquote_to_bytes(value)
    scope["query_string"] = b"&".join(pairs)


def _take_provider_key(scope: Scope, values: list[bytes]) -> None:
    if not values:
        return
    if len(values) > 1 or _PROVIDER_KEY.fullmatch(values[0]) is None:
        raise Problem(INVALID_ARGUMENTS, f"{PROVIDER_KEY} must be one key of printable ASCII without spaces")
    scope[PROVIDER_KEY] = values[0].decode("ascii")
