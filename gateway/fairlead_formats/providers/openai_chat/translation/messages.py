"""Conversion of messages between Chat Completions and the neutral form (`neutral.conversation`). Pure module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fairlead_formats.messages.base import THINKING
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
    system_text,
    text_of_part,
    valid_call,
)
from fairlead_formats.neutral.media import data_url, is_pdf, media_notice, media_of_data, media_of_url, text_or_media
from fairlead_formats.neutral.members import kind_of_part, report_extras
from fairlead_formats.neutral.message_parts import read_results, write_results
from fairlead_formats.providers.openai_chat.tools import ChatMessages
from fairlead_formats.wire.protocol import TranslationLosses

FORMAT: Final = ChatMessages()
_AUDIO_TYPES: Final = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_AUDIO_FORMATS: Final = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def read_messages(messages: Sequence[object], losses: TranslationLosses) -> tuple[MessageTurn, ...]:
    """Read a list of messages as turns."""
    return match_results(merge_runs((_turn(message, losses) for message in messages), _are_result_turns))


def _turn(message: object, losses: TranslationLosses) -> MessageTurn:
    role = text_of(member(message, "role"))
    if role == "assistant":
        return MessageTurn("assistant", tuple(_assistant_parts(message, losses)))
    if role in ("tool", "function"):
        report_extras(message, losses, "role", "content", "tool_call_id", "name")
        return MessageTurn("user", read_results(message, FORMAT))
    is_system = role in ("system", "developer")
    if not is_system:
        report_extras(message, losses, "role", "content")
    return MessageTurn("system" if is_system else "user", tuple(_content(member(message, "content"), losses)))


def _are_result_turns(first: MessageTurn, second: MessageTurn) -> bool:
    return all(turn.parts and isinstance(turn.parts[0], ResultPart) for turn in (first, second))


def _content(content: object, losses: TranslationLosses) -> Iterable[Part]:
    if isinstance(content, str):
        yield TextPart(content)
    for part in items(content):
        kind = kind_of_part(part)
        if kind == "text":
            report_extras(part, losses, "text")
            yield TextPart(text_of(member(part, "text")))
        elif kind == "refusal":
            yield RefusalPart(text_of(member(part, "refusal")))
        else:
            media = _media(kind, part, losses)
            if media is not None:
                yield media


def _media(kind: str, part: object, losses: TranslationLosses) -> MediaPart | None:
    if kind == "image_url":
        image = member(part, "image_url")
        if member(image, "detail") not in (None, "auto"):
            losses.add("image_detail")
        return media_of_url(member(image, "url") if isinstance(image, dict) else image, "image", losses)
    if kind == "input_audio":
        audio = member(part, "input_audio")
        mime = _AUDIO_TYPES.get(text_of(member(audio, "format")), "audio/wav")
        return media_of_data(text_of(member(audio, "data")), mime)
    if kind == "file":
        file = member(part, "file")
        return media_of_url(member(file, "file_data"), "document", losses, name=text_of(member(file, "filename")))
    losses.add(kind or "content")
    return None


def _assistant_parts(message: object, losses: TranslationLosses) -> Iterable[Part]:
    yield from _content(member(message, "content"), losses)
    refusal = member(message, "refusal")
    if isinstance(refusal, str) and refusal:
        yield RefusalPart(refusal)
    for part in FORMAT.parts(message):
        if part.what == THINKING:
            losses.add("thinking")
        elif part.draft is not None:
            for extra in part.extras:
                losses.add(extra)
    report_extras(
        message,
        losses,
        "role",
        "content",
        "refusal",
        "tool_calls",
        "function_call",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "thinking_blocks",
    )
    yield from (CallPart(valid_call(call, losses)) for call in FORMAT.parse_calls(message))


def write_messages(turns: Sequence[MessageTurn], losses: TranslationLosses) -> WrittenTurns:
    """Write turns as messages, including system turns."""
    calls = calls_by_id(turns)
    messages: list[dict[str, Any]] = []
    for turn in turns:
        if turn.role == "system":
            text = system_text(turn)
            messages += [{"role": "system", "content": text}] if text else []
        elif turn.role == "assistant":
            messages += _write_assistant(turn.parts)
        else:
            messages += _write_user(turn.parts, calls, losses)
    return WrittenTurns((), messages)


def _write_assistant(parts: Sequence[Part]) -> list[dict[str, Any]]:
    texts = [part.text for part in parts if isinstance(part, TextPart) and part.text]
    refusals = [part.text for part in parts if isinstance(part, RefusalPart) and part.text]
    calls = [part.call for part in parts if isinstance(part, CallPart)]
    text = "\n\n".join(texts)
    messages = FORMAT.write_calls(calls, None, text)
    if refusals:
        message: dict[str, Any] = messages[0] if messages else {"role": "assistant"}
        content = [{"type": "text", "text": text}] if text else []
        message["content"] = [*content, *({"type": "refusal", "refusal": refusal} for refusal in refusals)]
        return [message]
    return messages


def _write_user(
    parts: Sequence[Part], calls: Mapping[str, ModelCall], losses: TranslationLosses
) -> list[dict[str, Any]]:
    messages = write_results(parts, calls, FORMAT)
    content = [_write_part(part, losses) for part in parts if not isinstance(part, ResultPart)]
    if len(content) == 1 and content[0]["type"] == "text":
        messages.append({"role": "user", "content": content[0]["text"]})
    elif content:
        messages.append({"role": "user", "content": content})
    return messages


def _write_part(part: Part, losses: TranslationLosses) -> dict[str, Any]:
    if isinstance(part, MediaPart):
        part = text_or_media(part)
    if isinstance(part, MediaPart):
        if part.what == "image":
            return {"type": "image_url", "image_url": {"url": data_url(part)}}
        if part.what == "audio" and part.mime in _AUDIO_FORMATS:
            return {"type": "input_audio", "input_audio": {"data": part.data, "format": _AUDIO_FORMATS[part.mime]}}
        if part.what == "document" and part.data and is_pdf(part):
            file = {"filename": part.name or "file.pdf", "file_data": data_url(part)}
            return {"type": "file", "file": file}
        part = media_notice(part, losses)
    return {"type": "text", "text": text_of_part(part)}
