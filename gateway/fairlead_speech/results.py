"""Parts of a tool's result that cannot be spoken. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MOST_BYTES: Final = 12 << 20
"""Bytes of such parts in one event, as base64 and text."""
_MEDIA: Final = frozenset({"image", "audio", "resource", "resource_link"})


def unspoken(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Images, audio, files and links of an MCP result, as they are; those beyond MOST_BYTES are left out."""
    content = result.get("content")
    found: list[dict[str, Any]] = []
    room = MOST_BYTES
    for part in content if isinstance(content, list) else []:
        if not isinstance(part, dict) or part.get("type") not in _MEDIA:
            continue
        room -= _size(part)
        if room >= 0:
            found.append(part)
    return found


def _size(part: Mapping[str, Any]) -> int:
    resource = part.get("resource")
    texts = [*part.values(), *(resource.values() if isinstance(resource, dict) else ())]
    return sum(len(each) for each in texts if isinstance(each, str)) + 256
