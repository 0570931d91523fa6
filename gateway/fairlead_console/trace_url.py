"""Addresses of traces in a viewer, from the one that the installation sets. Pure module."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

PLACEHOLDER: Final = "{trace_id}"


def checked_trace_url(template: str) -> str:
    """The address, empty where there is none. Raises ValueError, whose message says what to write."""
    if not template:
        return ""
    good = template.isascii() and template.isprintable() and " " not in template
    parts = urlsplit(template.replace(PLACEHOLDER, "0")) if good else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{template[:200]!r} is not an address that begins with http:// or https://")
    if PLACEHOLDER not in template:
        raise ValueError(f"write {PLACEHOLDER} where the id of the trace belongs in {template[:200]!r}")
    if "{" in parts.netloc:
        raise ValueError(f"the host of {template[:200]!r} cannot be read")
    return template


def trace_link(template: str, trace_id: str) -> str:
    """Address of one trace; empty where there is no viewer, or no trace. `trace_id`: hexadecimal digits."""
    return template.replace(PLACEHOLDER, trace_id) if template and trace_id else ""
