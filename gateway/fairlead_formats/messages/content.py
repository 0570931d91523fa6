"""Parser of a tool's result: checked blocks that a format can carry, and text in place of all other blocks.

Pure module. The result comes from a server or a client and is not trusted. One image that is not base64 would make the
provider refuse the whole request, so a text that names the fault replaces such a block.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from fairlead_formats.messages.call import ModelCall, ResultLoss, json_fault, kind_of, text_of, well_formed
from fairlead_formats.messages.repeated_content import RepeatedContent, canonical_base64, json_equal
from fairlead_formats.tool_format import Action, JsonObject

MEGABYTE: Final = 1 << 20
PDF: Final = "application/pdf"
MAX_BLOCKS: Final = 1000
"""Maximum number of blocks of one result; further blocks are left out."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Text(msgspec.Struct, frozen=True):
    """A text block, or the text that replaces another block."""

    path: str
    text: str
    plain: bool = True
    """Whether the result had this text block; False for a text that replaces another block."""


class Media(msgspec.Struct, frozen=True):
    """An image, audio, or the binary content of an embedded resource; `data` is valid base64."""

    path: str
    what: Literal["image", "audio", "resource"]
    mime: str
    data: str
    uri: str = ""

    @property
    def size(self) -> int:
        """Decoded size in bytes."""
        return len(self.data) * 3 // 4

    @property
    def placeholder(self) -> str:
        where = f" {self.uri}" if self.uri else ""
        return f"[{self.what}{where}: {self.mime}, {self.size} bytes, not shown]"


Block: TypeAlias = Text | Media
Accept: TypeAlias = Callable[[Media], str | None]
"""Decides whether a format can carry a media block: None if it can, else the reason as the end of a sentence."""


class Body(msgspec.Struct, frozen=True):
    """A parsed `CallToolResult`."""

    blocks: tuple[Block, ...]
    structured: Any
    """`structuredContent`; None if absent."""
    repeated_path: str
    """JSON Pointer of the text block that repeats `structured` as JSON, as MCP advises for older clients; empty if
    there is none.
    """
    is_error: bool

    @property
    def structured_in_text(self) -> bool:
        return self.repeated_path != ""


class LossReport:
    """Collects the losses in the conversion of one result."""

    def __init__(self, call: ModelCall) -> None:
        self._call = call.id
        self.losses: list[ResultLoss] = []

    def add(self, path: str, what: str, action: Action, why: str) -> None:
        self.losses.append(ResultLoss(self._call, path, what, action, why))


def body_of(result: object, report: LossReport, accept: Accept) -> Body:
    """Parse a result. Media that `accept` refuses and blocks of unknown types become text."""
    if not isinstance(result, (dict, Mapping)):
        report.add("", "block", Action.DESCRIBED, f"the result is {kind_of(result)}, not an object")
        return Body((Text("", "[the tool sent no readable result]", plain=False),), None, "", True)
    content = result.get("content")
    if content is not None and not isinstance(content, list):
        report.add("/content", "block", Action.DROPPED, f"content is {kind_of(content)}, not a list")
        content = []
    raw_blocks = (content or [])[:MAX_BLOCKS]
    blocks = []
    for index, raw in enumerate(raw_blocks):
        block = _block(raw, f"/content/{index}", report)
        if isinstance(block, Media):
            block = _carry(block, report, accept)
        blocks.append(block)
    if len(content or []) > MAX_BLOCKS:
        report.add("/content", "block", Action.DROPPED, f"more than {MAX_BLOCKS} blocks")
    structured = result.get("structuredContent")
    if structured is None:
        return Body(tuple(blocks), None, "", result.get("isError") is True)
    return _without_repeats(blocks, raw_blocks, structured, result.get("isError") is True, report)


def _without_repeats(
    blocks: list[Block], raw: list[object], structured: Any, is_error: bool, report: LossReport
) -> Body:
    """The body without repetitions. If a text block repeats the structured content, the body names that block. Parts of
    the structured content that other blocks hold are left out.
    """
    path = next((block.path for block in blocks if _repeats(block, structured)), "")
    repeats = RepeatedContent([None if block.path == path else item for block, item in zip(blocks, raw, strict=True)])
    remaining = repeats.replace_repeats(structured)
    if repeats.only_marks(remaining) or (not path and repeats.repeats_all(structured)):
        report.add("/structuredContent", "structuredContent", Action.REWRITTEN, "the content repeats all of it")
        return Body(tuple(block for block in blocks if not path or block.path != path), None, "", is_error)
    if repeats.replaced:
        why = f"{repeats.replaced} parts that the content repeats were replaced by marks"
        report.add("/structuredContent", "structuredContent", Action.REWRITTEN, why)
    remaining = _check_structured(remaining, report)
    if remaining is None and path:
        return Body(tuple(blocks), None, "", is_error)
    if path and repeats.replaced:
        blocks = [Text(path, json_text(remaining)) if block.path == path else block for block in blocks]
    return Body(tuple(blocks), remaining, path, is_error)


def _carry(media: Media, report: LossReport, accept: Accept) -> Block:
    why = accept(media)
    if why is None:
        if media.what == "resource":
            report.add(media.path, media.what, Action.REWRITTEN, "an embedded resource became a plain file")
        return media
    report.add(media.path, media.what, Action.DESCRIBED, why)
    return Text(media.path, media.placeholder, plain=False)


def _block(raw: object, path: str, report: LossReport) -> Block:
    if not isinstance(raw, dict):
        return _unreadable(path, "block", f"a block is {kind_of(raw)}, not an object", report)
    if raw.get("annotations"):
        report.add(f"{path}/annotations", "annotations", Action.DROPPED, "the format has no place for annotations")
    kind = raw.get("type")
    if kind == "text":
        text = raw.get("text")
        if isinstance(text, str) and well_formed(text):
            return Text(path, text)
        return _unreadable(path, "text", "a text block without valid text", report)
    if kind in ("image", "audio"):
        return _media(path, "image" if kind == "image" else "audio", raw.get("mimeType"), raw.get("data"), "", report)
    if kind == "resource_link":
        return _link(path, raw, report)
    if kind == "resource":
        return _resource(path, raw.get("resource"), report)
    return _unreadable(path, "block", f"a block of the unknown type {str(kind)[:64]!r}", report)


def _unreadable(path: str, what: str, why: str, report: LossReport) -> Text:
    report.add(path, what, Action.DESCRIBED, why)
    return Text(path, f"[{why}]", plain=False)


def _media(
    path: str, what: Literal["image", "audio", "resource"], mime: object, data: object, uri: str, report: LossReport
) -> Block:
    if isinstance(data, bytes | bytearray):
        data = binascii.b2a_base64(data, newline=False).decode()
    if isinstance(data, str):
        data = canonical_base64(data)
        data += "=" * (-len(data) % 4)
    if not isinstance(data, str) or not data or not _is_base64(data):
        return _unreadable(path, what, f"{'an' if what[0] in 'aeiou' else 'a'} {what} that is not base64", report)
    return Media(path, what, (text_of(mime) or "application/octet-stream").split(";")[0].strip().lower(), data, uri)


def _is_base64(data: str) -> bool:
    try:
        binascii.a2b_base64(data.encode("ascii"), strict_mode=True)
    except (ValueError, UnicodeEncodeError):
        return False
    return True


def _link(path: str, raw: JsonObject, report: LossReport) -> Text:
    uri, name = text_of(raw.get("uri")), text_of(raw.get("title")) or text_of(raw.get("name"))
    facts = [text_of(raw.get("mimeType")), f"{raw['size']} bytes" if isinstance(raw.get("size"), int) else ""]
    details = ", ".join(fact for fact in facts if fact)
    line = f"[resource {name} <{uri}>{f' ({details})' if details else ''}]"
    description = text_of(raw.get("description"))
    report.add(path, "resource_link", Action.DESCRIBED, "the format has no links to resources: described in text")
    return Text(path, f"{line} {description}" if description else line, plain=False)


def _resource(path: str, raw: object, report: LossReport) -> Block:
    if not isinstance(raw, dict):
        return _unreadable(path, "resource", "an embedded resource without content", report)
    uri, text = text_of(raw.get("uri")), raw.get("text")
    if isinstance(text, str) and well_formed(text):
        report.add(path, "resource", Action.REWRITTEN, "an embedded text resource became text with its address")
        return Text(path, f"[resource <{uri}>]\n{text}", plain=False)
    return _media(path, "resource", raw.get("mimeType"), raw.get("blob"), uri, report)


def _check_structured(value: object, report: LossReport) -> Any:
    reason = json_fault(value)
    if reason is None:
        try:
            _encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            reason = f"cannot be written as JSON ({error})"
    if reason is not None:
        report.add("/structuredContent", "structuredContent", Action.DROPPED, f"the values {reason}")
        return None
    return value


def _repeats(block: Block, structured: object) -> bool:
    if not isinstance(block, Text) or not block.plain:
        return False
    try:
        return json_equal(_decode(block.text), structured)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def json_text(value: object) -> str:
    """Compact JSON of a value that `body_of` has checked."""
    return _encode(value).decode()


def texts(body: Body) -> list[str]:
    """All texts of a body, including the JSON of its structured content unless a text block repeats it."""
    all_texts = [block.text for block in body.blocks if isinstance(block, Text)]
    if body.structured is not None and not body.structured_in_text:
        all_texts.append(json_text(body.structured))
    return all_texts


def media(blocks: Iterable[Block]) -> list[Media]:
    """The blocks that are media."""
    return [block for block in blocks if isinstance(block, Media)]


def join_texts(body: Body, report: LossReport) -> str:
    """The whole body as one string, for formats without blocks. The text of an error begins with `Error: `."""
    parts = texts(body)
    if len(parts) > 1:
        report.add("/content", "text", Action.REWRITTEN, "several blocks became one string")
    report_structured(body, report)
    return mark_error("\n\n".join(parts), body, report)


def report_structured(body: Body, report: LossReport) -> None:
    """Report that structured content becomes text, because the format has no member for structured content."""
    if body.structured is not None:
        report.add("/structuredContent", "structuredContent", Action.REWRITTEN, "written as JSON text")


def report_repeated(body: Body, report: LossReport) -> None:
    """Report that the format carries the structured content, so that the text block which repeats it is left out."""
    if body.repeated_path:
        report.add(body.repeated_path, "text", Action.REWRITTEN, "left out: the text repeats the structured content")


def mark_error(text: str, body: Body, report: LossReport) -> str:
    """The text for formats without an error flag: the text of an error gets the prefix `Error: `, unless it begins with
    that word.
    """
    if not body.is_error:
        return text
    report.add("/isError", "isError", Action.REWRITTEN, "the format has no flag: the text states the error")
    return text if text[:5].lower() == "error" else f"Error: {text}"


def accept_types(images: Iterable[str] = (), others: Iterable[str] = (), *, max_bytes: int | None = None) -> Accept:
    """An `Accept` that accepts media of these MIME types, each up to `max_bytes` (None: of any size)."""
    types = frozenset(images) | frozenset(others)

    def accept(item: Media) -> str | None:
        if item.mime not in types:
            return f"the format cannot carry {item.mime} in a result"
        if max_bytes is not None and item.size > max_bytes:
            return f"the file has {item.size} bytes, more than the {max_bytes} that the provider takes"
        return None

    return accept


WEB_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
