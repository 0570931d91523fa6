"""Conversion of messages between Gemini's contents and the neutral form (`neutral.conversation`). Pure module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fairlead_formats.messages.call import ModelCall, items, member, text_of
from fairlead_formats.neutral.conversation import (
    CallPart,
    MediaPart,
    MessageTurn,
    Part,
    RefusalPart,
    ResultPart,
    TextPart,
    WrittenTurns,
    calls_by_id,
    match_results,
    merge_runs,
    text_of_part,
)
from fairlead_formats.neutral.media import media_notice, media_of_data, media_of_url
from fairlead_formats.neutral.members import report_extras
from fairlead_formats.neutral.message_parts import read_assistant_parts, read_results, write_results
from fairlead_formats.providers.gemini.tools import GEMINI, GeminiMessages
from fairlead_formats.wire.protocol import TranslationLosses

NAME: Final = GEMINI
FORMAT: Final = GeminiMessages()
_FILES: Final = "generativelanguage.googleapis.com/"
"""Part of the URLs of files that only the provider can open."""


def read_messages(contents: Sequence[object], losses: TranslationLosses) -> tuple[MessageTurn, ...]:
    """Read a list of contents as turns."""
    return match_results(merge_runs((_turn(content, losses) for content in contents), _are_user_turns))


def _turn(content: object, losses: TranslationLosses) -> MessageTurn:
    parts = items(member(content, "parts"))
    if member(content, "role") == "model":
        assistant_parts = read_assistant_parts(parts, FORMAT, losses, lambda part: _media(part, losses))
        return MessageTurn("assistant", tuple(assistant_parts))
    return MessageTurn("user", tuple(_user_parts(parts, losses)))


def _are_user_turns(first: MessageTurn, second: MessageTurn) -> bool:
    return first.role == second.role == "user"


def _user_parts(parts: Sequence[object], losses: TranslationLosses) -> Iterable[Part]:
    for part in parts:
        text, response = member(part, "text"), member(part, "functionResponse", "function_response")
        if isinstance(text, str):
            report_extras(part, losses, "text")
            yield TextPart(text)
        elif response is not None:
            yield from read_results({"parts": [part]}, FORMAT)
        elif (media := _media(part, losses)) is not None:
            yield media


def _media(part: object, losses: TranslationLosses) -> MediaPart | None:
    data, file = member(part, "inlineData", "inline_data"), member(part, "fileData", "file_data")
    mime = text_of(member(data or file, "mimeType", "mime_type"))
    name = text_of(member(data or file, "displayName", "display_name"))
    if data is not None:
        return media_of_data(text_of(member(data, "data")), mime, name)
    address = member(file, "fileUri", "file_uri")
    if isinstance(address, str) and _FILES not in address:
        return media_of_url(address, "image" if mime.startswith("image/") else "document", losses, mime, name)
    if file is not None:
        losses.add("file_id")
    elif member(part, "text") is None:
        losses.add("content")
    return None


def write_messages(turns: Sequence[MessageTurn], losses: TranslationLosses) -> WrittenTurns:
    """Write turns as contents. The API has no system contents, so texts of system turns are returned as
    `WrittenTurns.system`.
    """
    calls = calls_by_id(turns)
    system: list[str] = []
    contents: list[dict[str, Any]] = []
    for turn in turns:
        if turn.role == "system":
            losses.add("system_position")
            system += [part.text for part in turn.parts if isinstance(part, TextPart)]
        elif turn.role == "assistant":
            parts = _write_model_parts(turn.parts)
            contents += [{"role": "model", "parts": parts}] if parts else []
        else:
            contents += _write_user(turn.parts, calls, losses)
    return WrittenTurns(tuple(system), contents)


def _write_model_parts(parts: Sequence[Part]) -> list[dict[str, Any]]:
    model_parts: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, CallPart):
            model_parts += FORMAT.write_calls([part.call])[0]["parts"]
        elif isinstance(part, (TextPart, RefusalPart)) and part.text:
            model_parts.append({"text": part.text})
    return model_parts


def _write_user(
    parts: Sequence[Part], calls: Mapping[str, ModelCall], losses: TranslationLosses
) -> list[dict[str, Any]]:
    """Write a user's turn: one content with the results, and a second content with all other parts."""
    other_parts = [_write_part(part, losses) for part in parts if not isinstance(part, ResultPart)]
    return [*write_results(parts, calls, FORMAT), *([{"role": "user", "parts": other_parts}] if other_parts else [])]


def _write_part(part: Part, losses: TranslationLosses) -> dict[str, Any]:
    if isinstance(part, MediaPart) and part.data:
        display_name = {"displayName": part.name} if part.name else {}
        return {"inlineData": {"mimeType": part.mime, "data": part.data, **display_name}}
    if isinstance(part, MediaPart):
        if part.mime:
            return {"fileData": {"mimeType": part.mime, "fileUri": part.url}}
        part = media_notice(part, losses)
    return {"text": text_of_part(part)}
