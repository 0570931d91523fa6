"""A `tools/call` from one era of MCP to the other, in both directions.

Pure module. What belongs to an era is put in or taken out; everything else, unknown members included, stays byte
for byte (MCP 2026-07-28, Basic, "Requests" and "Results"; the four cases are client era x server era).
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
INPUT_REQUIRED: Final = "input_required"
_decode_progress: Final = msgspec.json.Decoder(Progress).decode


class TranslatedResult:
    """A result for the client's era, raw, and whether it says that the tool failed, or asks the client for more."""

    __slots__ = ("is_error", "is_task", "left_out", "mended", "needs_input", "result")

    def __init__(self, result: bytes | Raw, is_error: bool, needs_input: bool = False, is_task: bool = False) -> None:
        self.result = result
        self.is_error = is_error
        self.needs_input = needs_input
        self.is_task = is_task
        """Whether it is a task that goes on in place of a result (SEP-2663)."""
        self.mended = ""
        """Why clients would have refused it as its server sent it; empty for a result that they take."""
        self.left_out = False
        """Whether its `structuredContent` was left out, which is not as the client's revision has it."""


def params(
    members: RawObject,
    declared: RawObject | None,
    token: ProgressToken | None,
    ours: bytes,
    *,
    from_modern: bool,
    to_modern: bool,
) -> bytes:
    """The params of a request as the server shall get them; `members` is used up.

    `declared` are members of `_meta` that a modern server gets with each request, and a legacy client said earlier. The
    progress token `ours` takes the place of the client's `token`, if it has one: it must be unique on a connection that
    several clients share. Raises msgspec.DecodeError when `_meta` is not an object.
    """
    if from_modern == to_modern:
        if token is not None:
            members["_meta"] = _with_token(members["_meta"], token, ours)
        return jsonrpc.encode(members)
    meta = jsonrpc.decode_object(members["_meta"]) if "_meta" in members else {}
    meta = {key: value for key, value in meta.items() if not key.startswith(eras.PREFIX)}
    if to_modern and declared is not None:
        meta.update(declared)
    if token is not None:
        meta[progress_token.NAME] = Raw(ours)
    if meta:
        members["_meta"] = Raw(jsonrpc.encode(meta))
    else:
        members.pop("_meta", None)
    return jsonrpc.encode(members)


def _with_token(meta: Raw, token: ProgressToken, ours: bytes) -> Raw:
    replaced = token.replace_in(bytes(meta), ours)
    if replaced is not None:
        return Raw(replaced)
    return Raw(jsonrpc.encode({**jsonrpc.decode_object(meta), progress_token.NAME: Raw(ours)}))


def answer(
    route: Route, request: McpRequest, raw: bytes | Raw, members: ResultMembers | None = None, *, from_modern: bool
) -> TranslatedResult:
    """The answer of a request's server, as of `result`."""
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
    """A result as the client shall get it, mended where the client's schema refuses it; `members` are its own, where
    they were read already. `any_structured`: a legacy client takes structured content of any type. Raises NotMcp for
    what is not an object, and for what cannot be mended of another `method` than `tools/call`.
    """
    why, left_out = "", False
    try:
        head: ResultHead | None = members
        if members is None:
            try:
                members = head = jsonrpc.decode_result(raw)
            except msgspec.ValidationError as error:
                why = jsonrpc.excerpt(str(error).encode())
        if method != CALL:
            raw, why = _read_result(method, raw, from_modern=from_modern)
        elif members is not None and members.content is UNSET and _is_complete(members, from_modern=from_modern):
            why = "it has no content"
        if why and method == CALL:
            any_structured |= to_modern
            raw, left_out = tool_results.repair(raw, from_modern=from_modern, any_structured=any_structured)
        if head is None or why:
            head = jsonrpc.decode_result_head(raw)
        outcome = _for_era(raw, head, from_modern=from_modern, to_modern=to_modern, server_info=server_info)
    except jsonrpc.UNREADABLE as error:
        raise NotMcp(f"the server sent something else than a tool's result ({error})") from error
    if why:
        # the structured content of a server of 2026-07-28 is of any type by right
        outcome.mended = "" if from_modern and why.endswith("`$.structuredContent`") else why
        outcome.left_out = left_out
    return outcome


def _read_result(method: str, raw: bytes | Raw, *, from_modern: bool) -> tuple[bytes | Raw, str]:
    """The result of another method than `tools/call`, and why it had to be mended; empty where it had not."""
    made, why = tool_results.mend_head(raw)
    if _is_complete(jsonrpc.decode_result_head(made), from_modern=from_modern):
        made, also = prompt_results.conform(method, made)
        why = why or also
    return made, why


def _is_complete(head: ResultHead, *, from_modern: bool) -> bool:
    """Whether a result is the last of its call, and no request for more input."""
    return not from_modern or head.result_type in (UNSET, "complete")


def _for_era(
    raw: bytes | Raw, seen: ResultHead, *, from_modern: bool, to_modern: bool, server_info: bytes
) -> TranslatedResult:
    if to_modern:
        if from_modern and seen.result_type is not UNSET:
            kind = seen.result_type
            return TranslatedResult(raw, seen.is_error, kind == INPUT_REQUIRED, kind == RESULT_TYPE)
        if seen.result_type is UNSET and seen.meta is UNSET:
            return TranslatedResult(_with_envelope(bytes(raw), server_info), seen.is_error)
        return TranslatedResult(_made_modern(raw, server_info), seen.is_error)
    if not from_modern:
        return TranslatedResult(raw, seen.is_error)
    if seen.result_type not in (UNSET, "complete"):
        raise NotMcp(f"the tool asks for more input ({seen.result_type}), which this client's protocol revision lacks")
    return TranslatedResult(_made_legacy(raw), seen.is_error)


def with_meta(raw: bytes | Raw, name: str, value: bytes) -> bytes:
    """A result with one more member in its `_meta`; everything else stays byte for byte."""
    members = jsonrpc.decode_object(raw)
    members["_meta"] = Raw(jsonrpc.encode({**_meta(members), name: Raw(value)}))
    return jsonrpc.encode(members)


def _with_envelope(raw: bytes, server_info: bytes) -> bytes:
    """The common case: a result with neither member, so that nothing has to be decoded."""
    body = raw.rstrip()[:-1]
    comma = b"" if body.strip() == b"{" else b","
    name = eras.META_SERVER_INFO.encode()
    return b'%b%b"resultType":"complete","_meta":{"%b":%b}}' % (body, comma, name, server_info)


def _made_modern(raw: bytes | Raw, server_info: bytes) -> bytes:
    members = jsonrpc.decode_object(raw)
    members["resultType"] = Raw(COMPLETE)
    meta = _meta(members)
    meta.setdefault(eras.META_SERVER_INFO, Raw(server_info))
    members["_meta"] = Raw(jsonrpc.encode(meta))
    return jsonrpc.encode(members)


def _made_legacy(raw: bytes | Raw) -> bytes:
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


def progress(message_params: Raw, *, ours: bytes, clients: bytes) -> bytes | None:
    """`notifications/progress` for the client, with its own token; None where the progress is not of this call."""
    try:
        if bytes(_decode_progress(message_params).token) != ours:
            return None
        renamed = jsonrpc.with_member(message_params, progress_token.NAME, clients)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return jsonrpc.notification("notifications/progress", renamed)
