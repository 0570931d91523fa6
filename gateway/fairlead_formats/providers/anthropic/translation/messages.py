"""Conversion of messages between Anthropic Messages and the neutral form (`neutral.conversation`). Pure module."""

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
from fairlead_formats.neutral.media import media_notice, media_of_data, media_of_url, text_or_media
from fairlead_formats.neutral.members import kind_of_part, report_extras
from fairlead_formats.neutral.message_parts import read_assistant_parts, read_results, write_results
from fairlead_formats.providers.anthropic.tools import ANTHROPIC, AnthropicMessages
from fairlead_formats.wire.protocol import TranslationLosses

NAME: Final = ANTHROPIC
FORMAT: Final = AnthropicMessages()


def read_messages(messages: Sequence[object], losses: TranslationLosses) -> tuple[MessageTurn, ...]:
    """Read a list of messages as turns."""
    turns: list[MessageTurn] = []
    for message in messages:
        role, content = text_of(member(message, "role")), member(message, "content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else items(content)
        if role == "assistant":
            assistant_parts = read_assistant_parts(blocks, FORMAT, losses, lambda block: _report_unknown(block, losses))
            turns.append(MessageTurn("assistant", tuple(assistant_parts)))
        else:
            parts = tuple(_user_parts(blocks, losses))
            turns.append(MessageTurn("system" if role == "system" else "user", parts))
    return match_results(turns)


def _report_unknown(block: object, losses: TranslationLosses) -> None:
    if kind_of_part(block) != "text":
        losses.add(kind_of_part(block) or "content")


def _user_parts(blocks: Sequence[object], losses: TranslationLosses) -> Iterable[Part]:
    for block in blocks:
        kind = kind_of_part(block)
        if kind == "text":
            report_extras(block, losses, "text")
            yield TextPart(text_of(member(block, "text")))
        elif kind == "tool_result":
            report_extras(block, losses, "tool_use_id", "content", "is_error")
            yield from read_results({"content": [block]}, FORMAT)
        elif kind in ("image", "document"):
            report_extras(block, losses, "source", "title")
            media = _media(kind, block, losses)
            if media is not None:
                yield media
        else:
            losses.add(kind or "content")


def _media(kind: str, block: object, losses: TranslationLosses) -> Part | None:
    source, title = member(block, "source"), text_of(member(block, "title"))
    form, data = member(source, "type"), text_of(member(source, "data"))
    if form == "base64":
        return media_of_data(data, text_of(member(source, "media_type")), title)
    if form == "url":
        mime = PDF if kind == "document" else ""
        return media_of_url(member(source, "url"), "document" if mime else "image", losses, mime, title)
    if form == "text":
        return TextPart(f"[{title}]\n{data}" if title else data)
    losses.add("file_id" if form == "file" else kind)
    return None


def write_messages(turns: Sequence[MessageTurn], losses: TranslationLosses) -> WrittenTurns:
    """Write turns as messages that alternate between user and assistant, with results at the beginning of a message.

    The API has no system messages, so texts of system turns are returned as `WrittenTurns.system`.
    """
    calls = calls_by_id(turns)
    system: list[str] = []
    messages: list[dict[str, Any]] = []
    for turn in turns:
        if turn.role == "system":
            losses.add("system_position")
            system += [part.text for part in turn.parts if isinstance(part, TextPart)]
            continue
        blocks = _write_assistant(turn.parts) if turn.role == "assistant" else _write_user(turn.parts, calls, losses)
        if blocks and messages and messages[-1]["role"] == turn.role:
            messages[-1]["content"] += blocks
        elif blocks:
            messages.append({"role": turn.role, "content": blocks})
    for message in messages:
        message["content"].sort(key=lambda block: block["type"] != "tool_result")
    if messages and messages[-1]["role"] == "assistant":
        _strip_end(messages[-1]["content"])
    return WrittenTurns(tuple(system), [message for message in messages if message["content"]])


def _strip_end(blocks: list[dict[str, Any]]) -> None:
    """Strip white space from the end of a final assistant message, which the API refuses."""
    if blocks[-1]["type"] == "text":
        blocks[-1] = {"type": "text", "text": blocks[-1]["text"].rstrip()}


def _write_assistant(parts: Sequence[Part]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, CallPart):
            blocks += FORMAT.write_calls([part.call])[0]["content"]
        elif isinstance(part, (TextPart, RefusalPart)) and part.text.strip():
            blocks.append({"type": "text", "text": part.text})
    return blocks


def _write_user(
    parts: Sequence[Part], calls: Mapping[str, ModelCall], losses: TranslationLosses
) -> list[dict[str, Any]]:
    blocks = [block for message in write_results(parts, calls, FORMAT)[:1] for block in message["content"]]
    for part in parts:
        if isinstance(part, MediaPart):
            blocks.append(_write_media(part, losses))
        elif isinstance(part, (TextPart, RefusalPart)) and part.text.strip():
            blocks.append({"type": "text", "text": part.text})
    return blocks


def _write_media(part: MediaPart, losses: TranslationLosses) -> dict[str, Any]:
    content_part: Part = text_or_media(part)
    if isinstance(content_part, MediaPart):
        source = (
            {"type": "url", "url": content_part.url}
            if content_part.url
            else {"type": "base64", "media_type": content_part.mime, "data": content_part.data}
        )
        if content_part.what == "image" and (content_part.url or content_part.mime in WEB_IMAGES):
            return {"type": "image", "source": source}
        if content_part.what == "document" and (content_part.url or content_part.mime == PDF):
            title = {"title": content_part.name} if content_part.name else {}
            return {"type": "document", "source": source, **title}
        content_part = media_notice(content_part, losses)
    return {"type": "text", "text": text_of_part(content_part)}
