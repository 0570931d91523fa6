"""URLs of traces in a viewer, made from the setting `trace_url`. No I/O."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

PLACEHOLDER: Final = "{trace_id}"


def check_trace_url(template: str) -> str:
    """Validate the setting, which may be empty. Raises ValueError with a message that says what to write."""
    if not template:
        return ""
    is_printable = template.isascii() and template.isprintable() and " " not in template
    parts = urlsplit(template.replace(PLACEHOLDER, "0")) if is_printable else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{template[:200]!r} is not a URL that begins with http:// or https://")
    if PLACEHOLDER not in template:
        raise ValueError(f"{template[:200]!r} lacks the placeholder {PLACEHOLDER} for the trace ID")
    if "{" in parts.netloc:
        raise ValueError(f"the host of {template[:200]!r} contains a brace: put the placeholder after the host")
    return template


def trace_link(template: str, trace_id: str) -> str:
    """Make the URL of a trace; empty if `template` or `trace_id` is empty. `trace_id` is hexadecimal."""
    return template.replace(PLACEHOLDER, trace_id) if template and trace_id else ""
