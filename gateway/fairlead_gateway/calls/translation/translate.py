"""Translation of requests and results between the eras of MCP, in both directions.

Pure module. Members that belong to only one era are added or removed; all other members, including unknown ones, stay
byte for byte (MCP 2026-07-28, Basic, "Requests" and "Results"). Client and server may each be of either era, which
makes four cases.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.translation.wire import Progress
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.route import Route
from fairlead_mcp import eras, jsonrpc, progress_token, prompt_results, tool_results
from fairlead_mcp.errors import NotMcp
from fairlead_mcp.jsonrpc import UNSET, RawObject
from fairlead_mcp.messages import ResultHead, ResultMembers
from fairlead_mcp.progress_token import ProgressToken
from fairlead_mcp.server_tasks import RESULT_TYPE

CALL: Final = "tools/call"
COMPLETE: Final = b'"complete"'
_VIEW_BYTES: Final = 64 << 10
"""Size in bytes from which copying a result takes longer than making a view of it."""
INPUT_REQUIRED: Final = "input_required"
_decode_progress: Final = msgspec.json.Decoder(Progress).decode


class TranslatedResult:
    """A raw result in the client's era, and its kind: a success, a tool error, a task, or a request for input."""

    __slots__ = ("is_error", "is_task", "lacks_structured", "needs_input", "repaired_defect", "result")

    def __init__(self, result: bytes | Raw, is_error: bool, needs_input: bool = False, is_task: bool = False) -> None:
        self.result = result
        self.is_error = is_error
        self.needs_input = needs_input
        self.is_task = is_task
        """Whether the result is a task (SEP-2663)."""
        self.repaired_defect = ""
        """Defect of the server's result that was repaired, because clients would reject it; empty if there was none."""
        self.lacks_structured = False
        """Whether `structuredContent` was removed, because the client's revision does not allow its type."""


def params(
    members: RawObject,
    meta_members: RawObject | None,
    token: ProgressToken | None,
    gateway_token: bytes,
    *,
    from_modern: bool,
    to_modern: bool,
) -> bytes:
    """The params of a request in the server's era, raw JSON. Modifies `members`, the client's params.

    `meta_members` are the members of `_meta` that a modern server requires in each request, with the data that a legacy
    client sent in `initialize`. If the client sent a progress token, `gateway_token` replaces it, because tokens must
    be unique on a connection that several clients share. Raises msgspec.DecodeError if `_meta` is not an object.
    """
    if from_modern == to_modern:
        if token is not None:
            members["_meta"] = _with_token(members["_meta"], token, gateway_token)
        return jsonrpc.encode(members)
    meta = jsonrpc.decode_object(members["_meta"]) if "_meta" in members else {}
    meta = {key: value for key, value in meta.items() if not key.startswith(eras.PREFIX)}
    if to_modern and meta_members is not None:
        meta.update(meta_members)
    if token is not None:
        meta[progress_token.NAME] = Raw(gateway_token)
    if meta:
        members["_meta"] = Raw(jsonrpc.encode(meta))
    else:
        members.pop("_meta", None)
    return jsonrpc.encode(members)


def _with_token(meta: Raw, token: ProgressToken, gateway_token: bytes) -> Raw:
    meta_with_token = token.replace_in(bytes(meta), gateway_token)
    if meta_with_token is not None:
        return Raw(meta_with_token)
    return Raw(jsonrpc.encode({**jsonrpc.decode_object(meta), progress_token.NAME: Raw(gateway_token)}))


def answer(
    route: Route, request: McpRequest, raw: bytes | Raw, members: ResultMembers | None = None, *, from_modern: bool
) -> TranslatedResult:
    """Translate the server's result for a request. See `result`, also for the errors raised."""
    return result(
        raw,
        from_modern=from_modern,
        to_modern=request.modern,
        server_info=route.server_info,
        members=members,
        method=request.method if route.tool is None else CALL,
        any_structured=request.any_structured,
    )


def result(
    raw: bytes | Raw,
    *,
    from_modern: bool,
    to_modern: bool,
    server_info: bytes,
    members: ResultMembers | None = None,
    method: str = CALL,
    any_structured: bool = False,
) -> TranslatedResult:
    """Translate a result to the client's era, and repair it where the client's schema would reject it.

    `members` are the result's parsed members, or None. `any_structured` tells that a legacy client accepts structured
    content of any type. Raises NotMcp if the result is not an object, or if the result of a method other than
    `tools/call` cannot be repaired.
    """
    defect, structured_was_removed = "", False
    try:
        head: ResultHead | None = members
        if members is None:
            try:
                members = head = jsonrpc.decode_result(raw)
            except msgspec.ValidationError as error:
                defect = jsonrpc.excerpt(str(error).encode())
        if method != CALL:
            raw, defect = _read_result(method, raw, from_modern=from_modern)
        elif members is not None and members.content is UNSET and _is_complete(members, from_modern=from_modern):
            defect = "the result has no content"
        if defect and method == CALL:
            any_structured |= to_modern
            raw, structured_was_removed = tool_results.repair(
                raw, from_modern=from_modern, any_structured=any_structured
            )
        if head is None or defect:
            head = jsonrpc.decode_result_head(raw)
        outcome = _for_era(raw, head, from_modern=from_modern, to_modern=to_modern, server_info=server_info)
    except jsonrpc.UNREADABLE as error:
        raise NotMcp(f"the server sent an invalid result ({error})") from error
    if defect:
        # 2026-07-28 allows structured content of any type, so for a modern server this is not a defect
        outcome.repaired_defect = "" if from_modern and defect.endswith("`$.structuredContent`") else defect
        outcome.lacks_structured = structured_was_removed
    return outcome


def _read_result(method: str, raw: bytes | Raw, *, from_modern: bool) -> tuple[bytes | Raw, str]:
    """The repaired result of a method other than `tools/call`, and the defect that was repaired, or ""."""
    repaired, defect = tool_results.mend_head(raw)
    if _is_complete(jsonrpc.decode_result_head(repaired), from_modern=from_modern):
        repaired, content_error = prompt_results.conform(method, repaired)
        defect = defect or content_error
    return repaired, defect


def _is_complete(head: ResultHead, *, from_modern: bool) -> bool:
    """Whether a result completes its call; a modern server's result may also ask for input, or be a task."""
    return not from_modern or head.result_type in (UNSET, "complete")


def _for_era(
    raw: bytes | Raw, head: ResultHead, *, from_modern: bool, to_modern: bool, server_info: bytes
) -> TranslatedResult:
    if to_modern:
        if from_modern and head.result_type is not UNSET:
            kind = head.result_type
            return TranslatedResult(raw, head.is_error, kind == INPUT_REQUIRED, kind == RESULT_TYPE)
        if head.result_type is UNSET and head.meta is UNSET:
            return TranslatedResult(_with_envelope(bytes(raw), server_info), head.is_error)
        return TranslatedResult(_to_modern(raw, server_info), head.is_error)
    if not from_modern:
        return TranslatedResult(raw, head.is_error)
    if head.result_type not in (UNSET, "complete"):
        raise NotMcp(f"the tool asks for more input ({head.result_type}), which this client's protocol revision lacks")
    return TranslatedResult(_to_legacy(raw), head.is_error)


def with_meta(raw: bytes | Raw, name: str, value: bytes) -> bytes:
    """A result with a member added to its `_meta`; all other members stay byte for byte."""
    members = jsonrpc.decode_object(raw)
    members["_meta"] = Raw(jsonrpc.encode({**_meta(members), name: Raw(value)}))
    return jsonrpc.encode(members)


def _with_envelope(raw: bytes, server_info: bytes) -> bytes:
    """Add `resultType` and `_meta` to a result that has neither, without parsing it (the common case)."""
    name = eras.META_SERVER_INFO.encode()
    if len(raw) > _VIEW_BYTES:
        comma = b"," if b'"' in raw else b""
        suffix = b'%b"resultType":"complete","_meta":{"%b":%b}}' % (comma, name, server_info)
        return b"".join((memoryview(raw)[: raw.rindex(b"}")], suffix))
    body = raw.rstrip()[:-1]
    comma = b"" if body.strip() == b"{" else b","
    return b'%b%b"resultType":"complete","_meta":{"%b":%b}}' % (body, comma, name, server_info)


def _to_modern(raw: bytes | Raw, server_info: bytes) -> bytes:
    members = jsonrpc.decode_object(raw)
    members["resultType"] = Raw(COMPLETE)
    meta = _meta(members)
    meta.setdefault(eras.META_SERVER_INFO, Raw(server_info))
    members["_meta"] = Raw(jsonrpc.encode(meta))
    return jsonrpc.encode(members)


def _to_legacy(raw: bytes | Raw) -> bytes:
    members = jsonrpc.decode_object(raw)
    for name in eras.MODERN_ONLY_RESULT_MEMBERS:
        members.pop(name, None)
    if "_meta" in members:
        meta = {key: value for key, value in _meta(members).items() if not key.startswith(eras.PREFIX)}
        if meta:
            members["_meta"] = Raw(jsonrpc.encode(meta))
        else:
            del members["_meta"]
    return jsonrpc.encode(members)


def _meta(members: RawObject) -> RawObject:
    try:
        return jsonrpc.decode_object(members["_meta"]) if "_meta" in members else {}
    except jsonrpc.UNREADABLE as error:
        raise NotMcp("the _meta of the tool's result is not an object") from error


def progress(message_params: Raw, *, gateway_token: bytes, client_token: bytes) -> bytes | None:
    """`notifications/progress` with the client's token; None if the progress belongs to another call."""
    try:
        if bytes(_decode_progress(message_params).token) != gateway_token:
            return None
        params = jsonrpc.with_member(message_params, progress_token.NAME, client_token)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return jsonrpc.notification("notifications/progress", params)
