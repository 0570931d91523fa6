"""Conversion of messages between Bedrock Converse and the neutral form (`neutral.conversation`). Pure module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fairlead_formats.messages.call import ModelCall, items, member, text_of
from fairlead_formats.messages.content import PDF, WEB_IMAGES
from fairlead_formats.neutral.conversation import (
    CallPart,
    MediaPart,
    MessageTurn,
    Part,
    RefusalPart,
    TextPart,
    WrittenTurns,
    calls_by_id,
    match_results,
    text_of_part,
)
from fairlead_formats.neutral.media import media_notice, media_of_data, text_or_media
from fairlead_formats.neutral.members import report_extras
from fairlead_formats.neutral.message_parts import read_assistant_parts, read_results, write_results
from fairlead_formats.providers.bedrock.tools import BedrockMessages, document_name
from fairlead_formats.wire.protocol import TranslationLosses

FORMAT: Final = BedrockMessages()
_DOCUMENTS: Final[Mapping[str, str]] = {
    "pdf": PDF,
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
}
"""Maps the API's names of document formats to media types."""
_FORMATS: Final = {mime: name for name, mime in _DOCUMENTS.items()}
_SEE_DOCUMENT: Final = "(see the document)"
"""Text added to a message that has only documents, because the API refuses a message without text."""


def read_messages(messages: Sequence[object], losses: TranslationLosses) -> tuple[MessageTurn, ...]:
    """Read a list of messages as turns."""
    turns: list[MessageTurn] = []
    for message in messages:
        blocks = items(member(message, "content"))
        role = text_of(member(message, "role"))
        if role == "assistant":
            parts = read_assistant_parts(blocks, FORMAT, losses, lambda block: _report_unknown(block, losses))
            turns.append(MessageTurn("assistant", tuple(parts)))
        else:
            turns.append(MessageTurn("system" if role == "system" else "user", tuple(_user_parts(blocks, losses))))
    return match_results(turns)


def _report_unknown(block: object, losses: TranslationLosses) -> None:
    if member(block, "text") is None:
        losses.update(block if isinstance(block, dict) else ("content",))


def _user_parts(blocks: Sequence[object], losses: TranslationLosses) -> Iterable[Part]:
    for block in blocks:
        text, result, image, document = (member(block, name) for name in ("text", "toolResult", "image", "document"))
        if isinstance(text, str):
            yield from [TextPart(text)] if text != _SEE_DOCUMENT else []
        elif result is not None:
            report_extras(result, losses, "toolUseId", "content", "status")
            yield from read_results({"content": [block]}, FORMAT)
        elif image is not None or document is not None:
            report_extras(image or document, losses, "format", "source", "name")
            yield from _media(image, document, losses)
        else:
            _report_unknown(block, losses)


def _media(image: object, document: object, losses: TranslationLosses) -> Iterable[Part]:
    source = member(image or document, "source")
    data, kind = member(source, "bytes"), text_of(member(image or document, "format"))
    name = text_of(member(document, "name"))
    if isinstance(data, str):
        mime = f"image/{kind}" if image is not None else _DOCUMENTS.get(kind, "application/octet-stream")
        yield media_of_data(data, mime, f"{name}.{kind}" if name else "")  # the API takes names without extension
    elif document is not None and (text := member(source, "text")) is not None:
        yield TextPart(f"[{name}]\n{text_of(text)}" if name else text_of(text))
    else:
        losses.add("s3Location" if member(source, "s3Location") is not None else "content")


def write_messages(turns: Sequence[MessageTurn], losses: TranslationLosses) -> WrittenTurns:
    """Write turns as messages that alternate between user and assistant, with results at the beginning of a message.

    The API has no system messages, so texts of system turns are returned as `WrittenTurns.system`.
    """
    calls = calls_by_id(turns)
    system: list[str] = []
    messages: list[dict[str, Any]] = []
    names: set[str] = set()
    for turn in turns:
        if turn.role == "system":
            losses.add("system_position")
            system += [part.text for part in turn.parts if isinstance(part, TextPart)]
            continue
        blocks = (
            _assistant_blocks(turn.parts)
            if turn.role == "assistant"
            else _user_blocks(turn.parts, calls, names, losses)
        )
        if blocks and messages and messages[-1]["role"] == turn.role:
            messages[-1]["content"] += blocks
        elif blocks:
            messages.append({"role": turn.role, "content": blocks})
    for message in messages:
        message["content"].sort(key=lambda block: "toolResult" not in block)
    if messages and messages[-1]["role"] == "assistant":
        _strip_end(messages[-1]["content"])
    return WrittenTurns(tuple(system), messages)


def _strip_end(blocks: list[dict[str, Any]]) -> None:
    """Strip white space from the end of a final assistant message, which Claude refuses."""
    if "text" in blocks[-1]:
        blocks[-1] = {"text": blocks[-1]["text"].rstrip()}


def _assistant_blocks(parts: Sequence[Part]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, CallPart):
            blocks += FORMAT.write_calls([part.call])[0]["content"]
        elif isinstance(part, (TextPart, RefusalPart)) and part.text.strip():
            blocks.append({"text": part.text})
    return blocks


def _user_blocks(
    parts: Sequence[Part], calls: Mapping[str, ModelCall], names: set[str], losses: TranslationLosses
) -> list[dict[str, Any]]:
    """Blocks of a user's turn. `names`: document names written so far; each must be unique in a request."""
    blocks = [block for message in write_results(parts, calls, FORMAT)[:1] for block in message["content"]]
    for part in parts:
        if isinstance(part, MediaPart):
            blocks.append(_write_media(part, names, losses))
        elif isinstance(part, (TextPart, RefusalPart)) and part.text.strip():
            blocks.append({"text": part.text})
    if any("document" in block for block in blocks) and not any("text" in block for block in blocks):
        blocks.append({"text": _SEE_DOCUMENT})
    return blocks


def _write_media(part: MediaPart, names: set[str], losses: TranslationLosses) -> dict[str, Any]:
    content_part: Part = text_or_media(part)
    if isinstance(content_part, MediaPart):
        source = {"bytes": content_part.data}
        if content_part.data and content_part.mime in WEB_IMAGES:
            return {"image": {"format": content_part.mime.removeprefix("image/"), "source": source}}
        if content_part.data and content_part.mime in _FORMATS:
            name = _make_unique(
                document_name(content_part.name.rpartition(".")[0] or content_part.name, len(names) + 1), names
            )
            return {"document": {"format": _FORMATS[content_part.mime], "name": name, "source": source}}
        content_part = media_notice(content_part, losses)
    return {"text": text_of_part(content_part)}


def _make_unique(name: str, names: set[str]) -> str:
    while name in names:
        name = f"{name[:190]} ({len(names) + 1})"
    names.add(name)
    return name
