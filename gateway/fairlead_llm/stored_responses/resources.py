"""Requests about answers that are kept: `GET`, `DELETE`, `cancel` and `input_items` of `/v1/responses/{id}`.

Source: OpenAI's API reference, Responses. An answer is found by the gateway's own id, and for its principal alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Raw
from starlette.requests import Request
from starlette.responses import Response

from fairlead_formats.providers.openai_chat.errors import error_body
from fairlead_formats.providers.openai_responses.format import RESPONSES
from fairlead_formats.providers.openai_responses.items import encode, head_of, members_of
from fairlead_formats.wire.errors import LlmError
from fairlead_gateway.core.identity import IDENTITY
from fairlead_llm.llm_endpoint import caller_key
from fairlead_llm.stored_responses.kept import KeptResponse, KeptResponses
from fairlead_models.providers import ProviderKeyRefused, Providers
from fairlead_models.upstream import ProviderClient, ProviderUnavailable
from fairlead_web.bodies import JSON

MOST_LISTED: Final = 100
"""Items of one page."""
_LISTED: Final = 20


class StoredResponses:
    """Endpoints for answers that are kept. One per gateway."""

    def __init__(self, kept: KeptResponses, providers: Providers, client: ProviderClient, timeout_s: float) -> None:
        """`timeout_s` bounds one request."""
        self._timeout_s = timeout_s
        self._kept = kept
        self._providers = providers
        self._client = client

    async def retrieve(self, request: Request) -> Response:
        """The answer, as it was said; from the provider where that has it, as of one in the background."""
        return await self._for(request, self._retrieved)

    async def cancel(self, request: Request) -> Response:
        """The answer, which the provider was told to end."""
        return await self._for(request, self._cancelled)

    async def delete(self, request: Request) -> Response:
        """Delete the answer, here and at the provider."""
        return await self._for(request, self._deleted)

    async def input_items(self, request: Request) -> Response:
        """Items of the request that it answered."""
        return await self._for(request, self._input_items)

    async def _for(
        self, request: Request, work: Callable[[Request, str, KeptResponse], Awaitable[Response]]
    ) -> Response:
        ident = request.path_params["response_id"]
        try:
            kept = await self._kept.found(request.scope[IDENTITY], ident)
            if kept is None:
                raise LlmError(404, f"there is no response {ident[:128]!r} of yours, or not any more", "not_found")
            async with asyncio.timeout(self._timeout_s):
                return await work(request, ident, kept)
        except TimeoutError:
            error = LlmError(504, "the time for this request is over", "timeout")
            return Response(error_body(error), error.status, error.headers, JSON)
        except LlmError as error:
            return Response(error_body(error), error.status, error.headers, JSON)

    async def _retrieved(self, request: Request, ident: str, kept: KeptResponse) -> Response:
        if request.query_params.get("stream", "").lower() in ("true", "1"):
            raise LlmError(
                400,
                "stream: a response that is kept is not streamed; ask without it",
                "invalid_request",
                param="stream",
            )
        if kept.body:
            return Response(kept.body, 200, None, JSON)
        return await self._asked(request, "GET", kept, kept.provider_ids[-1], ident)

    async def _cancelled(self, request: Request, ident: str, kept: KeptResponse) -> Response:
        if kept.body:
            raise LlmError(400, "the response is over: only one in the background can be cancelled", "invalid_request")
        return await self._asked(request, "POST", kept, f"{kept.provider_ids[-1]}/cancel", ident)

    async def _deleted(self, request: Request, ident: str, kept: KeptResponse) -> Response:
        for each in kept.provider_ids:
            found = await self._asked(request, "DELETE", kept, each, ident)
            if found.status_code >= 400 and found.status_code != 404:
                return found
        await self._kept.forget(request.scope[IDENTITY], ident)
        return Response(encode({"id": ident, "object": "response", "deleted": True}), 200, None, JSON)

    async def _input_items(self, request: Request, ident: str, kept: KeptResponse) -> Response:
        if kept.provider_ids:
            return await self._asked(request, "GET", kept, f"{kept.provider_ids[0]}/input_items", ident)
        return Response(encode(_page(kept.asked, request)), 200, None, JSON)

    async def _asked(self, request: Request, method: str, kept: KeptResponse, what: str, ident: str) -> Response:
        """The provider's answer, with our ids in place of its own."""
        provider = self._providers.by_name.get(kept.provider)
        if provider is None:
            raise LlmError(
                404, f"the provider {kept.provider} of this response is not configured any more", "not_found"
            )
        key = caller_key(request)
        try:
            self._providers.check_key(kept.provider, keyed=bool(key))
        except ProviderKeyRefused as error:
            raise LlmError(error.status, str(error), "provider_key") from error
        query = request.url.query
        path = f"/responses/{quote(what, safe='/')}" + (f"?{query}" if query else "")
        client = self._client.of_caller(key)
        try:
            answer = await client.send(provider, path, b"", {}, RESPONSES.answer_headers, method)
            try:
                body = await answer.whole()
            finally:
                answer.close()
        except ProviderUnavailable as error:
            raise LlmError(502, f"{kept.provider}: {error}", "provider_unavailable") from error
        if answer.status < 400:
            body = _renamed(body, ident, kept)
        return Response(body, answer.status, dict(answer.headers), JSON)


def _renamed(body: bytes, ident: str, kept: KeptResponse) -> bytes:
    """A provider's response under the id that the client knows."""
    try:
        members = members_of(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LlmError(502, "the provider's answer is no JSON object", "bad_answer") from error
    if "id" in members:
        members["id"] = Raw(encode(ident))
    if "previous_response_id" in members:
        members["previous_response_id"] = Raw(encode(kept.previous))
    return encode(members)


def _page(items: Sequence[bytes], request: Request) -> dict[str, Any]:
    """A page of items, each with an id by its place where it came without one; the last one first by default."""
    query = request.query_params
    given = query.get("limit", str(_LISTED))
    short = given.isascii() and given.isdecimal() and len(given) <= len(str(MOST_LISTED))
    if not short or not 1 <= int(given) <= MOST_LISTED:
        raise LlmError(400, f"limit: from 1 to {MOST_LISTED}", "invalid_request", param="limit")
    listed = [item for place, raw in enumerate(items) if (item := _with_id(raw, place))]
    if query.get("order", "desc") != "asc":
        listed.reverse()
    ids = [msgspec.json.decode(each["id"]) for each in listed]
    after = query.get("after")
    start = ids.index(after) + 1 if after in ids else 0
    page = listed[start : start + int(given)]
    shown = ids[start : start + int(given)]
    ends = {"first_id": shown[0] if shown else None, "last_id": shown[-1] if shown else None}
    return {"object": "list", "data": page, **ends, "has_more": start + len(page) < len(listed)}


def _with_id(raw: bytes, place: int) -> dict[str, Raw]:
    """Members of an item, with an id by its place where it has none that is a text; none of what is no object."""
    try:
        members = members_of(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return members if head_of(raw).id is not None else {**members, "id": Raw(encode(f"item_{place}"))}
