"""Values that MCP's schema allows and a client's parser refuses, and with them the whole list. Pure module."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final

_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
_PLAIN_URI: Final = re.compile(r"(?!https?:|wss?:|ftp:|file:)[a-z][a-z0-9+.-]*://[a-z0-9._~-]+(?:/[A-Za-z0-9._~/-]*)?")


def wrong_uri(uri: str) -> str:
    """Why the Python SDK 1.x cannot read a URI (WHATWG URL, by that SDK's own parser); empty where it can."""
    if _PLAIN_URI.fullmatch(uri):
        return ""
    from pydantic_core import Url, ValidationError  # takes 5 MB of a process, and most servers list no such URI

    try:
        Url(uri)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        return str(problem.get("ctx", {}).get("error", problem["msg"]))
    return ""


def is_date_time(text: str) -> bool:
    """Whether a text is a time with its offset, as the TypeScript SDKs want `lastModified` (RFC 3339, section 5.6)."""
    if not _DATE_TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(re.sub(r"\.\d+", "", text))
    except ValueError:
        return False
    return True


def blank_name(value: dict[str, Any]) -> str:
    """Path of a name without a character that shows, which the Java SDK refuses in resources, templates and arguments
    of prompts; empty without any. `value` fits the schema of one of these.
    """
    if "uri" in value or "uriTemplate" in value:
        return next((member for member in ("name", "uriTemplate") if not value.get(member, "x").strip()), "")
    names = (argument["name"] for argument in value.get("arguments", ()))
    return next((f"arguments[{number}].name" for number, name in enumerate(names) if not name.strip()), "")
