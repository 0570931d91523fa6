"""Contents of Gemini, read and written. Pure module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fairlead_formats.messages.call import ModelCall
from fairlead_formats.messages.drafts import items, member, text_of
from fairlead_formats.messages.parts import SERVER_TOOL, THINKING
from fairlead_formats.registry import message_format
from fairlead_llm.between.conversation import (
    CallPart,
    MediaPart,
    MessageTurn,
    Part,
    RefusalPart,
    ResultPart,
    Role,
    TextPart,
    WrittenTurns,
    call_of,
    calls_by_id,
    linked,
    valid_call,
    words_of,
)
from fairlead_llm.between.losses import TranslationLosses
from fairlead_llm.between.media import left_out, media_of_data, media_of_url
from fairlead_llm.between.members import report_extras

NAME: Final = "gemini"
FORMAT: Final = message_format(NAME)
_FILES: Final = "generativelanguage.googleapis.com/"
"""In addresses of files that only the provider can open."""


def read_messages(contents: Sequence[object], losses: TranslationLosses) -> tuple[MessageTurn, ...]:
    """The turns of a list of contents."""
    runs: list[tuple[Role, list[Part]]] = []
    for content in contents:
        parts = items(member(content, "parts"))
        if member(content, "role") == "model":
            runs.append(("assistant", list(read_said(parts, losses))))
        elif runs and runs[-1][0] == "user":
            runs[-1][1].extend(_user(parts, losses))
        else:
            runs.append(("user", list(_user(parts, losses))))
    return linked([MessageTurn(role, tuple(parts)) for role, parts in runs])


def read_said(parts: Sequence[object], losses: TranslationLosses) -> Iterable[Part]:
    """The parts that a model said, but for its thoughts, which go to no other model."""
    calls = iter(FORMAT.parse_calls(list(parts)))
    for entry, part in zip(parts, FORMAT.parts(list(parts)), strict=False):
        for extra in part.extras:
            losses.add("thinking" if extra in ("thoughtSignature", "thought_signature") else extra)
        if part.draft is not None:
            yield CallPart(valid_call(next(calls), losses))
        elif part.what == THINKING:
            losses.add("thinking")
        elif part.what == SERVER_TOOL:
            losses.add("provider_tools")
        elif part.text:
            yield TextPart(part.text)
        elif (found := _media(entry, losses)) is not None:
            yield found


def _user(parts: Sequence[object], losses: TranslationLosses) -> Iterable[Part]:
    for part in parts:
        text, response = member(part, "text"), member(part, "functionResponse", "function_response")
        if isinstance(text, str):
            report_extras(part, losses, "text")
            yield TextPart(text)
        elif response is not None:
            yield from (ResultPart(each.id, each.name, each.result) for each in FORMAT.parse_results({"parts": [part]}))
        elif (found := _media(part, losses)) is not None:
            yield found


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
    """The turns as contents; words of the system in the middle are told apart."""
    known = calls_by_id(turns)
    system: list[str] = []
    contents: list[dict[str, Any]] = []
    for turn in turns:
        if turn.role == "system":
            losses.add("system_position")
            system += [part.text for part in turn.parts if isinstance(part, TextPart)]
        elif turn.role == "assistant":
            said = _said(turn.parts)
            contents += [{"role": "model", "parts": said}] if said else []
        else:
            contents += _asked(turn.parts, known, losses)
    return WrittenTurns(tuple(system), contents)


def _said(parts: Sequence[Part]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, CallPart):
            found += FORMAT.write_calls([part.call])[0]["parts"]
        elif isinstance(part, (TextPart, RefusalPart)) and part.text:
            found.append({"text": part.text})
    return found


def _asked(parts: Sequence[Part], known: Mapping[str, ModelCall], losses: TranslationLosses) -> list[dict[str, Any]]:
    """The results in a content of their own, all else behind it."""
    results = [part for part in parts if isinstance(part, ResultPart)]
    written = FORMAT.write_results([call_of(part, known) for part in results], [part.result for part in results])
    others = [_written_part(part, losses) for part in parts if not isinstance(part, ResultPart)]
    return [*written.messages, *([{"role": "user", "parts": others}] if others else [])]


def _written_part(part: Part, losses: TranslationLosses) -> dict[str, Any]:
    if isinstance(part, MediaPart) and part.data:
        named = {"displayName": part.name} if part.name else {}
        return {"inlineData": {"mimeType": part.mime, "data": part.data, **named}}
    if isinstance(part, MediaPart):
        if part.mime:
            return {"fileData": {"mimeType": part.mime, "fileUri": part.url}}
        part = left_out(part, losses)
    return {"text": words_of(part)}
