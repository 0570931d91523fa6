"""Checks of values that MCP's schema allows but for which a client's parser rejects the whole list. No I/O."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final

_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
_PLAIN_URI: Final = re.compile(r"(?!https?:|wss?:|ftp:|file:)[a-z][a-z0-9+.-]*://[a-z0-9._~-]+(?:/[A-Za-z0-9._~/-]*)?")


def wrong_uri(uri: str) -> str:
    """Explain why the Python SDK 1.x, whose parser follows the WHATWG URL standard, refuses a URI; empty if it accepts
    the URI."""
    if _PLAIN_URI.fullmatch(uri):
        return ""
    from pydantic_core import Url, ValidationError  # imported here, because it takes 5 MB and few servers need it

    try:
        Url(uri)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        return str(problem.get("ctx", {}).get("error", problem["msg"]))
    return ""


def is_date_time(text: str) -> bool:
    """Whether a text is a time with a UTC offset, as TypeScript SDKs require of `lastModified` (RFC 3339, 5.6)."""
    if not _DATE_TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(re.sub(r"\.\d+", "", text))
    except ValueError:
        return False
    return True


def blank_member(value: dict[str, Any]) -> str:
    """Return the path of a blank `name` or `uriTemplate` of a resource or template, or of a blank name of a prompt's
    argument, because the Java SDK refuses them; empty if there is none. `value` must be valid by MCP's schema.
    """
    if "uri" in value or "uriTemplate" in value:
        return next((member for member in ("name", "uriTemplate") if not value.get(member, "x").strip()), "")
    names = (argument["name"] for argument in value.get("arguments", ()))
    return next((f"arguments[{number}].name" for number, name in enumerate(names) if not name.strip()), "")
