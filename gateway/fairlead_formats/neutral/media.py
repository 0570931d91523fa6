"""Images, documents and audio of a message, as base64 or URL. Pure module."""

from __future__ import annotations

import binascii
import mimetypes
from typing import Literal
from urllib.parse import urlsplit

from fairlead_formats.messages.content import PDF
from fairlead_formats.messages.repeated_content import canonical_base64
from fairlead_formats.neutral.conversation import MediaPart, TextPart
from fairlead_formats.wire.protocol import TranslationLosses


def media_of_url(
    url: object, what: Literal["image", "document"], losses: TranslationLosses, mime: str = "", name: str = ""
) -> MediaPart | None:
    """The file of a `data:`, `http:` or `https:` URL; None for another value, which is reported as lost."""
    if not isinstance(url, str):
        losses.add("file_id")
        return None
    if url.startswith("data:"):
        head, _, data = url[5:].partition(",")
        if not head.endswith(";base64"):
            losses.add("file_data")
            return None
        return media_of_data(data, head.split(";")[0], name)
    parts = urlsplit(url) if len(url) <= 8192 else None
    if parts is None or parts.scheme not in ("http", "https"):
        losses.add("file_id")
        return None
    mime = mime or mimetypes.guess_type(parts.path)[0] or ""
    return MediaPart(what, mime, url=url, name=name)


def media_of_data(data: str, mime: str, name: str = "") -> MediaPart:
    """A file from base64. Google's clients write the URL-safe alphabet, which other APIs refuse, so `data` is converted
    to the standard alphabet.
    """
    data = canonical_base64(data)
    data += "=" * (-len(data) % 4)
    mime = mime.strip().lower() or "application/octet-stream"
    return MediaPart(_media_kind(mime), mime, data=data, name=name)


def _media_kind(mime: str) -> Literal["image", "document", "audio"]:
    kind = mime.partition("/")[0]
    return "image" if kind == "image" else "audio" if kind == "audio" else "document"


def data_url(part: MediaPart) -> str:
    """The URL of a file, or a `data:` URL with its content."""
    return part.url or f"data:{part.mime};base64,{part.data}"


def media_notice(part: MediaPart, losses: TranslationLosses) -> TextPart:
    """A text that tells the model about a file that its API does not accept. The file is reported as lost."""
    losses.add(part.what if part.data or part.what == "audio" else f"{part.what}_url")
    location = f" <{part.url[:2048]}>" if part.url else ""
    return TextPart(f"[{part.what} {part.name or part.mime}{location}, which this model's API does not accept]")


def text_or_media(part: MediaPart) -> MediaPart | TextPart:
    """The file, or its text if it is a plain text document."""
    if part.what != "document" or not part.data or not part.mime.startswith("text/"):
        return part
    try:
        text = binascii.a2b_base64(part.data).decode()
    except ValueError:
        return part
    return TextPart(f"[{part.name}]\n{text}" if part.name else text)


def is_pdf(part: MediaPart) -> bool:
    """Whether a document is a PDF, or may be one because it has a URL without a type."""
    return part.mime == PDF or (bool(part.url) and not part.mime)
