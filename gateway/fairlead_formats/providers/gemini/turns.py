"""Finds the model's calls in the contents of a Gemini request, and puts stored turns back in their place. Pure module.

A stored turn has the calls that the gateway ran, which the client did not receive. The API requires that a content with
calls is followed by one content with as many responses. Responses are matched to calls by id, or by name and order
where ids are missing.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import ModelCall, member, text_of
from fairlead_formats.messages.open_calls import OpenCalls
from fairlead_formats.providers.gemini.parts import CALL, MODEL, RESPONSE, read_parts
from fairlead_formats.wire.protocol import AnswerRange, CallKey, StoredTurn
from fairlead_formats.wire.raw_json import array, decode_object

_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_ROLES: Final = {MODEL: "assistant", "function": "tool", "": "user"}
"""Maps Gemini's roles to the roles of OpenAI's formats, which the gateway compares."""


class _FollowingPart(msgspec.Struct):
    """One part of a content that follows calls."""

    raw: bytes | Raw
    is_answer: bool
    id: str
    name: str


def answer_ranges(contents: Sequence[bytes | Raw]) -> list[AnswerRange]:
    """Ranges of adjacent contents of the model that have calls. One answer may be several contents, because some
    clients keep each event of a stream as a content.
    """
    answer_ranges = []
    start = 0
    for is_model, run in itertools.groupby(contents, _is_by_model):
        raws = list(run)
        end = start + len(raws)
        if is_model and any(b'"%s"' % name.encode() in bytes(raw) for raw in raws for name in CALL):
            calls = tuple(CallKey(ident, name) for raw in raws for ident, name in _calls(decode_object(raw)))
            answer_ranges += [AnswerRange(start, end, calls)] if calls else []
        start = end
    return answer_ranges


def _is_by_model(raw: bytes | Raw) -> bool:
    return b'"model"' in bytes(raw) and decode_object(raw).get("role") == MODEL


def role_and_text(raw: bytes | Raw) -> tuple[str, str]:
    """Role of a content, as OpenAI's formats name it, and its text without thoughts."""
    content = decode_object(raw)
    role = text_of(content.get("role"))
    texts = [text_of(part.get("text")) for part in read_parts(content) if part.get("thought") is not True]
    return _ROLES.get(role, role), "".join(texts)


def restore_turns(contents: Sequence[bytes | Raw], turns: Mapping[int, StoredTurn]) -> list[bytes | Raw]:
    """The contents, with stored turns in place of the parts that the client received. `turns`: by content index."""
    ends = {answer.start: answer.end for answer in answer_ranges(contents)}
    provider_contents: list[bytes | Raw] = []
    index = 0
    while index < len(contents):
        turn = turns.get(index)
        if turn is None:
            provider_contents.append(contents[index])
            index += 1
            continue
        end = index = ends[index]
        while end < len(contents) and _has_responses(contents[end]):
            end += 1
        response_flags = [*map(_has_responses, turn.results)]
        gateway_results = [*itertools.compress(turn.results, response_flags)]
        provider_contents += turn.messages
        provider_contents += [_merge_responses(turn.messages[-1], gateway_results, contents[index:end])]
        provider_contents += [
            result for result, has_responses in zip(turn.results, response_flags, strict=True) if not has_responses
        ]  # contents without responses have files of the results, which come after all responses
        index = end
    return provider_contents


def _calls(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    calls = [member(part, *CALL) for part in read_parts(content)]
    return [(text_of(member(call, "id")), text_of(member(call, "name"))) for call in calls if call is not None]


def _has_responses(raw: bytes | Raw) -> bool:
    """Whether a content has responses."""
    return any(b'"%s"' % name.encode() in bytes(raw) for name in RESPONSE) and any(
        member(part, *RESPONSE) is not None for part in read_parts(decode_object(raw))
    )


def _merge_responses(
    calls_content: bytes, gateway_results: Sequence[bytes], client_results: Sequence[bytes | Raw]
) -> bytes:
    """One content with the gateway's and the client's responses, in the order of the calls in `calls_content`, and then
    all other parts.
    """
    following_parts = [part for raw in (*gateway_results, *client_results) for part in _read_parts(raw)]
    calls = OpenCalls(ModelCall(ident, name, {}) for ident, name in _calls(decode_object(calls_content)))
    call_results, _ = calls.take([part for part in following_parts if part.is_answer])
    matched_ids = {id(matched_result.result) for matched_result in call_results}
    parts = [
        *(matched_result.result.raw for matched_result in call_results),
        *(part.raw for part in following_parts if id(part) not in matched_ids),
    ]
    members = _members(client_results[0]) if client_results else {"role": Raw(b'"user"')}
    return _encode({**members, "parts": Raw(array(parts))})


def _read_parts(raw: bytes | Raw) -> list[_FollowingPart]:
    parts = []
    for part in _raws(_members(raw)["parts"]):
        response = member(decode_object(part), *RESPONSE)
        id_and_name = text_of(member(response, "id")), text_of(member(response, "name"))
        parts.append(_FollowingPart(part, response is not None, *id_and_name))
    return parts
