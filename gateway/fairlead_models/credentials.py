"""Takes credentials out of a request where an SDK of a provider puts them, before anything else sees the request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.types import Scope

from fairlead_formats.pairs.provider_apis import APIS
from fairlead_offers.problems import INVALID_ARGUMENTS, Problem

PROVIDER_KEY: Final = "x-fairlead-provider-key"
"""Header with the caller's own key at the provider, and name of that key in the scope of a request."""
_KEY_HEADERS: Final = tuple(sorted({api.key_header.encode() for api in APIS.values()} - {b"authorization"}))
_QUERY: Final = b"key"
_PROVIDER_KEY: Final = re.compile(rb"[!-~]{1,8192}")
_TAKEN: Final = frozenset({*_KEY_HEADERS, PROVIDER_KEY.encode()})


def take_credential(scope: Scope) -> bytes | None:
    """The principal's credential as a value of `Authorization`; None where there is none. It may come as
    `Authorization`, `x-api-key`, `x-goog-api-key` or `?key=`, or equally in several of them.

    All but `Authorization` are removed from the scope, so that they reach no log and no tool server, and the key for
    the provider goes from its header to the member PROVIDER_KEY. Raises Problem.
    """
    fields = [(name, value) for name, value in scope["headers"] if name in _TAKEN or name == b"authorization"]
    scope["headers"] = [(name, value) for name, value in scope["headers"] if name not in _TAKEN]
    shown = [*_credentials_in(fields), *_of_query(scope)]
    _take_provider_key(scope, [value for name, value in fields if name == PROVIDER_KEY.encode()])
    if len(set(shown)) > 1:
        raise Problem(
            INVALID_ARGUMENTS,
            "the request shows several keys: send the one of this gateway in Authorization, x-api-key, x-goog-api-key "
            f"or ?key=, and a provider's own in {PROVIDER_KEY}",
        )
    return shown[0] if shown else None


def _credentials_in(fields: list[tuple[bytes, bytes]]) -> Iterator[bytes]:
    for name, value in fields:
        if name == b"authorization":
            yield value
        elif name in _KEY_HEADERS and value:
            yield b"Bearer " + value


def _of_query(scope: Scope) -> Iterator[bytes]:
    """Credentials in the query, which are removed from it."""
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
