"""Bodies of `multipart/form-data` (RFC 7578). No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from fairlead_mcp.http.target import checked_value

_ESCAPES: Final = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})
"""Characters that would end a name in `Content-Disposition`, with the escapes that browsers use (HTML, "Multipart form
data").
"""


class FormPart(NamedTuple):
    """One part of a body."""

    name: str
    data: bytes
    content_type: str = ""
    """Empty: the part is text."""
    filename: str = ""
    """File name of the part; empty if it is not a file."""


def multipart(parts: Sequence[FormPart]) -> tuple[str, bytes]:
    """Make the `Content-Type` and the body. Raises InvalidTarget for a media type with control characters."""
    boundary = _boundary(parts)
    pieces = []
    for part in parts:
        pieces.append(b"--%b\r\n%b\r\n\r\n%b\r\n" % (boundary, _head(part), part.data))
    pieces.append(b"--%b--\r\n" % boundary)
    return f"multipart/form-data; boundary={boundary.decode()}", b"".join(pieces)


def _head(part: FormPart) -> bytes:
    lines = f'Content-Disposition: form-data; name="{part.name.translate(_ESCAPES)}"'
    if part.filename:
        lines += f'; filename="{part.filename.translate(_ESCAPES)}"'
    head = lines.encode("utf-8", "replace")
    if part.content_type:
        head += b"\r\nContent-Type: " + checked_value("Content-Type", part.content_type)
    return head


def _boundary(parts: Sequence[FormPart]) -> bytes:
    """A delimiter that no part contains. It depends only on the parts, so that a repeated request is identical; the
    caller who chooses a part cannot predict it.
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(b"%d:" % len(part.data))
        digest.update(part.data)
    while True:
        boundary = b"fairlead-" + digest.hexdigest()[:32].encode()
        if not any(boundary in part.data for part in parts):
            return boundary
        digest.update(boundary)
