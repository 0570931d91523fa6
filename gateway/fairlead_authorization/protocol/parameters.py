"""Reads parameters of requests to the endpoints. Their number is limited, and each may occur at most once. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

MAX_QUERY: Final = 8 << 10
"""Limit on the characters of a query."""
MAX_FORM: Final = 32 << 10
"""Limit on the bytes of a form."""
MAX_PARAMETERS: Final = 48


class Parameters(NamedTuple):
    """Parameters of a query or form. A parameter without a value counts as absent (RFC 6749 section 3.1)."""

    values: Mapping[str, str]
    """First value of each parameter."""
    repeated: frozenset[str] = frozenset()
    """Parameters that occur more than once, which is invalid (RFC 6749 sections 3.1 and 3.2)."""


class UnreadableParameters(Exception):
    """A request has too many parameters. The message is one sentence."""


def read_parameters(text: str) -> Parameters:
    """Read the parameters of a query or form. Raises UnreadableParameters."""
    try:
        pairs = parse_qsl(text, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise UnreadableParameters(f"the request has more than {MAX_PARAMETERS} parameters") from None
    counts = Counter(name for name, _ in pairs)
    repeated = frozenset(name for name, count in counts.items() if count > 1)
    return Parameters(dict(reversed(pairs)), repeated)


def with_parameters(uri: str, parameters: Mapping[str, str]) -> str:
    """Add parameters to a redirect URI, without changing its query (RFC 6749 section 3.1.2)."""
    separator = "" if uri.endswith(("?", "&")) else "&" if "?" in uri else "?"
    return f"{uri}{separator}{urlencode(parameters)}"
