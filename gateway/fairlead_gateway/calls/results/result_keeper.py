"""Stores results for later retrieval, and shortens those that have too many tokens for the client.

A result is stored if the call was made through `execute_tool`, or if the result has more tokens than the tool, the
policies or the request allow. A client gets only a part of a result with too many tokens, and reads the rest by
`read_result`, `retrieve_context` or `resources/read`. A `Shortener` chooses the part; the original is stored.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.results.context_recorder import META_CONTEXT, ContextRecorder, new_entry
from fairlead_gateway.calls.translation import translate
from fairlead_gateway.calls.translation.translate import TranslatedResult
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.long_results import LongResult, ResultSelector, Shortener, ShownResult
from fairlead_gateway.core.meta_tools import READ_RESULT, RETRIEVE_CONTEXT
from fairlead_gateway.core.request import McpRequest
from fairlead_gateway.core.route import Route
from fairlead_gateway.result_stores.store import ContextUnavailable
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_mcp import jsonrpc
from fairlead_search.token_estimate import BYTES_PER_TOKEN
from fairlead_tools import refusals
from fairlead_tools.refusal import META_ERROR, RESULT_TOO_LARGE, Refusal

LINKS_SINCE: Final = "2025-06-18"
"""First revision of MCP with resource links in results."""
_SELECTORS: Final = "path | range | grep | query"
"""Arguments that select a part of a stored result, as text for the model."""


class _StoredOriginal(NamedTuple):
    """Stored original of a shortened result."""

    id: str
    reader: str
    """Tool call that reads more of the result, as text for the model."""
    unstored_reason: str
    """Why the result could not be stored; empty if it is stored."""


class ResultKeeper:
    """Stores and shortens the results of one gateway's calls."""

    def __init__(
        self,
        recorder: ContextRecorder,
        shortener: Shortener,
        metrics: MetricsRegistry,
        selector: ResultSelector | None = None,
    ) -> None:
        self.recorder = recorder
        self.selector = selector
        """Selects parts of large results; None where large results stay whole."""
        self._shortener = shortener
        self._metrics = metrics

    def prepare(
        self, identity: Identity, request: McpRequest, route: Route, max_tokens: int | None, outcome: TranslatedResult
    ) -> Coroutine[Any, Any, bytes | Raw] | None:
        """Coroutine that stores or shortens a result; None for most results, which are sent unchanged."""
        recording = request.context_session is not None
        if outcome.needs_input or outcome.is_task:
            return None
        if route.task is not None and max_tokens is not None:
            return self.shorten_task_result(identity, request, route, max_tokens, bytes(outcome.result))
        if not recording and (max_tokens is None or surely_fits(outcome.result, max_tokens)):
            return None
        return self.present(identity, request, route, max_tokens, outcome.result)

    async def present(
        self, identity: Identity, request: McpRequest, route: Route, max_tokens: int | None, result: bytes | Raw
    ) -> bytes | Raw:
        """The result for the client: shortened to `max_tokens`, and naming its context session and entry if the request
        asks for recording.

        Refusals of the gateway are returned unchanged.
        """
        try:
            members = jsonrpc.decode_object(result)
            meta = jsonrpc.decode_object(members["_meta"]) if "_meta" in members else {}
        except jsonrpc.UNREADABLE:
            return result
        if META_ERROR in meta:
            return result
        if request.context_session is not None:
            return await self._record(
                identity, request, route, max_tokens, result, request.context_session, members, meta
            )
        assert max_tokens is not None, "a result that is not recorded has a bound"
        shortened = await self._shortener.shorten(LongResult(bytes(result), max_tokens))
        if shortened.result is None and not shortened.unfit:
            return result
        ident = new_entry(self.recorder.session(identity, None))
        unstored_reason = await self._store(identity, request, route, ident, result)
        original = _StoredOriginal(ident, f"{READ_RESULT}(id, {_SELECTORS})", unstored_reason)
        return await self._shorten(request, route, max_tokens, result, original)

    async def shorten_task_result(
        self, identity: Identity, request: McpRequest, route: Route, max_tokens: int, answer: bytes
    ) -> bytes | Raw:
        """Shorten the result of a task to `max_tokens`, where `answer` has one.

        `answer` is the answer to a request about the task, or the params of a task notification.
        """
        try:
            members = jsonrpc.decode_object(answer)
        except jsonrpc.UNREADABLE:
            return answer
        result = members.get("result")
        if result is None or surely_fits(result, max_tokens):
            return answer
        members["result"] = Raw(bytes(await self.present(identity, request, route, max_tokens, result)))
        return jsonrpc.encode(members)

    async def _record(
        self,
        identity: Identity,
        request: McpRequest,
        route: Route,
        max_tokens: int | None,
        result: bytes | Raw,
        session: str,
        members: jsonrpc.RawObject,
        meta: jsonrpc.RawObject,
    ) -> bytes:
        """Store a result, and add the id of the stored entry to it. `members` are the members of the result, `meta` the
        members of its `_meta`.
        """
        ident = new_entry(session)
        unstored_reason = await self._store(identity, request, route, ident, result)
        self._metrics.count_stored_result(is_stored=not unstored_reason)
        context: dict[str, object] = {"sessionId": session, "recorded": not unstored_reason}
        if unstored_reason:
            context["reason"] = unstored_reason
            sentence = f"This result was not stored for retrieve_context: {unstored_reason}. session_id: {session}"
        else:
            context["entryId"] = ident
            sentence = f"Stored as entry_id {ident} of session_id {session} (retrieve_context)."
        if max_tokens is not None and not surely_fits(result, max_tokens):
            original = _StoredOriginal(ident, f"{RETRIEVE_CONTEXT}(entry_id, {_SELECTORS})", unstored_reason)
            members = jsonrpc.decode_object(await self._shorten(request, route, max_tokens, result, original))
            meta = jsonrpc.decode_object(members["_meta"]) if "_meta" in members else {}
        content = members.get("content")
        if content is not None and bytes(content)[:1] == b"[":
            blocks = msgspec.json.decode(content, type=list[Raw])
            note = Raw(jsonrpc.encode({"type": "text", "text": sentence}))
            members["content"] = Raw(jsonrpc.encode([*blocks, note]))
        members["_meta"] = Raw(jsonrpc.encode({**meta, META_CONTEXT: context}))
        return jsonrpc.encode(members)

    async def _store(
        self, identity: Identity, request: McpRequest, route: Route, ident: str, result: bytes | Raw
    ) -> str:
        """Store a result under `ident`. Returns "", or the reason why the result cannot be stored."""
        exposed_name = None if route.tool is None else route.tool.exposed_name
        arguments = request.params.get("arguments", b"{}")
        try:
            await self.recorder.append(
                identity, ident, exposed_name or route.name, route, bytes(arguments), bytes(result)
            )
        except ContextUnavailable as error:
            return str(error)
        return ""

    async def _shorten(
        self, request: McpRequest, route: Route, max_tokens: int, result: bytes | Raw, original: _StoredOriginal
    ) -> bytes | Raw:
        long_result = LongResult(
            bytes(result),
            max_tokens,
            original.id,
            f"read on with {original.reader}",
            original.unstored_reason,
            _declares_output(route),
            supports_links=_supports_links(request),
        )
        shortened = await self._shortener.shorten(long_result)
        if shortened.result is None and not shortened.unfit:
            return result
        self._metrics.count_shortening(
            is_stored=not original.unstored_reason, tokens=shortened.tokens, shown_tokens=shortened.shown_tokens
        )
        if shortened.result is not None and not self._violates_schema(route, shortened):
            return shortened.result
        if original.unstored_reason:
            sentence = f"The result is lost, as it could not be stored: {original.unstored_reason}"
        else:
            sentence = f"The result is stored as {original.id}: {long_result.reader}"
        refusal = Refusal(
            RESULT_TOO_LARGE,
            f"The call was made. Its result has about {shortened.tokens:,} tokens, at most {max_tokens:,} are allowed, "
            f"and no part of it would match the tool's outputSchema. {sentence}",
        )
        return translate.result(
            refusals.result(refusal), from_modern=False, to_modern=request.modern, server_info=route.server_info
        ).result

    def _violates_schema(self, route: Route, shortened: ShownResult) -> bool:
        """Whether a shortened result does not match the tool's `outputSchema`."""
        check = route.check
        return check is not None and check.declares_output and check.result(shortened.result or b"") is not None


def _declares_output(route: Route) -> bool:
    return route.tool is not None and b'"outputSchema"' in route.tool.definition


def _supports_links(request: McpRequest) -> bool:
    return request.modern or (request.legacy_session is not None and request.legacy_session.version >= LINKS_SINCE)


def surely_fits(result: bytes | Raw, tokens: int) -> bool:
    """Whether a result is so small that it has at most `tokens` tokens. If False, the tokens have to be counted."""
    if len(result) > tokens * BYTES_PER_TOKEN:
        return False
    raw = bytes(result)
    return b'"image"' not in raw and b'"audio"' not in raw and b'"blob"' not in raw
