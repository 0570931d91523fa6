"""Conversion of messages between OpenAI Responses items and the neutral form (`neutral.conversation`). Pure module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fairlead_formats.messages.base import SERVER_TOOL, THINKING
from fairlead_formats.messages.call import ModelCall, items, member, substitute_id, text_of
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
    valid_call,
)
from fairlead_formats.neutral.media import data_url, is_pdf, media_notice, media_of_data, media_of_url, text_or_media
from fairlead_formats.neutral.members import kind_of_part, report_extras
from fairlead_formats.neutral.message_parts import read_results, write_results
from fairlead_formats.providers.openai_responses.items import OUTPUT, REFERENCE
from fairlead_formats.providers.openai_responses.message_items import CUSTOM_OUTPUT
from fairlead_formats.providers.openai_responses.tools import ResponsesMessages
from fairlead_formats.wire.protocol import BadRequest, TranslationLosses

FORMAT: Final = ResponsesMessages()
_MAX_CALL_ID: Final = 64
"""Maximum number of characters of a call id that the API accepts."""


def read_messages(entries: Sequence[object], losses: TranslationLosses) -> tuple[MessageTurn, ...]:
    """Read items as turns, where adjacent items of the same role form one turn. Raises BadRequest."""
    runs = merge_runs((_turn(item, losses) for item in entries), _have_same_role)
    return match_results([turn for turn in runs if turn.parts])


def _have_same_role(first: MessageTurn, second: MessageTurn) -> bool:
    return first.role == second.role != "system"


def _turn(item: object, losses: TranslationLosses) -> MessageTurn:
    kind, role = kind_of_part(item), text_of(member(item, "role"))
    if kind == REFERENCE:
        ident = text_of(member(item, "id"))[:128]
        why = (
            f"input: item_reference {ident!r} names no item that the gateway has (never stored, expired, deleted, or "
            "another caller's), and this provider has no stored items; send the full item, or send `store: false` with "
            '`include: ["reasoning.encrypted_content"]`, so that your client sends full items'
        )
        raise BadRequest(why, "input")
    if kind in (OUTPUT, CUSTOM_OUTPUT):
        return MessageTurn("user", read_results(item, FORMAT))
    if kind in ("", "message") and role != "assistant":
        parts = tuple(_content(member(item, "content"), losses))
        return MessageTurn("system" if role in ("system", "developer") else "user", parts)
    if kind in ("", "message"):
        return MessageTurn("assistant", tuple(_content(member(item, "content"), losses)))
    return MessageTurn("assistant", tuple(_read_model_item(item, losses)))


def _content(content: object, losses: TranslationLosses) -> Iterable[Part]:
    if isinstance(content, str):
        yield TextPart(content)
    for part in items(content):
        kind = kind_of_part(part)
        if kind in ("input_text", "output_text", "text"):
            report_extras(part, losses, "text")
            yield TextPart(text_of(member(part, "text")))
        elif kind == "refusal":
            yield RefusalPart(text_of(member(part, "refusal")))
        else:
            media = _media(kind, part, losses)
            if media is not None:
                yield media


def _media(kind: str, part: object, losses: TranslationLosses) -> MediaPart | None:
    if kind == "input_image":
        if member(part, "detail") not in (None, "auto"):
            losses.add("image_detail")
        return media_of_url(member(part, "image_url"), "image", losses)
    if kind == "input_file":
        address = member(part, "file_data", "file_url")
        return media_of_url(address, "document", losses, name=text_of(member(part, "filename")))
    if kind == "input_audio":
        audio = member(part, "input_audio")
        mime = "audio/mpeg" if member(audio, "format") == "mp3" else "audio/wav"
        return media_of_data(text_of(member(audio, "data")), mime)
    losses.add(kind or "content")
    return None


def _read_model_item(item: object, losses: TranslationLosses) -> Iterable[Part]:
    calls = iter(FORMAT.parse_calls(item))
    for part in FORMAT.parts(item):
        if part.draft is not None:
            yield CallPart(valid_call(next(calls), losses))
        elif part.what == THINKING:
            losses.add("thinking")
        else:
            losses.add("provider_tools" if part.what == SERVER_TOOL else kind_of_part(item) or "content")


def write_messages(turns: Sequence[MessageTurn], losses: TranslationLosses) -> WrittenTurns:
    """Write turns as items."""
    calls = calls_by_id(turns)
    provider_items: list[dict[str, Any]] = []
    for turn in turns:
        if turn.role == "assistant":
            provider_items += _write_assistant(turn.parts)
        else:
            provider_items += _write_user(turn, calls, losses)
    for item in provider_items:
        if len(item.get("call_id", "")) > _MAX_CALL_ID:
            item["call_id"] = substitute_id(item["call_id"])
    return WrittenTurns((), provider_items)


def _write_assistant(parts: Sequence[Part]) -> Iterable[dict[str, Any]]:
    for part in parts:
        if isinstance(part, CallPart):
            yield from FORMAT.write_calls([part.call])
        elif isinstance(part, TextPart) and part.text:
            yield from FORMAT.write_calls([], None, part.text)
        elif isinstance(part, RefusalPart):
            content = [{"type": "refusal", "refusal": part.text}]
            yield {"type": "message", "role": "assistant", "content": content}


def _write_user(turn: MessageTurn, calls: Mapping[str, ModelCall], losses: TranslationLosses) -> list[dict[str, Any]]:
    content = [_write_part(part, losses) for part in turn.parts if not isinstance(part, ResultPart)]
    message = {"type": "message", "role": turn.role, "content": content}
    return [*write_results(turn.parts, calls, FORMAT), *([message] if content else [])]


def _write_part(part: Part, losses: TranslationLosses) -> dict[str, Any]:
    if isinstance(part, MediaPart):
        part = text_or_media(part)
    if isinstance(part, MediaPart):
        if part.what == "image":
            return {"type": "input_image", "image_url": data_url(part), "detail": "auto"}
        if part.what == "document" and is_pdf(part):
            address = {"file_url": part.url} if part.url else {"file_data": data_url(part)}
            file_name = {} if part.url else {"filename": part.name or "file.pdf"}
            return {"type": "input_file", **file_name, **address}
        part = media_notice(part, losses)
    return {"type": "input_text", "text": text_of_part(part)}
