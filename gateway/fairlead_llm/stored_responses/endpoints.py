"""Endpoints for stored responses: `GET`, `DELETE`, `cancel` and `input_items` of `/v1/responses/{id}`.

Source: OpenAI's API reference, Responses. A response has an id of the gateway, and only its principal can access it.
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
from fairlead_llm.stored_responses.store import ResponseStore, StoredResponse
from fairlead_models.provider_requests import ProviderClient, ProviderRequest, ProviderUnavailable
from fairlead_models.providers import ProviderKeyRefused, Providers
from fairlead_web.bodies import JSON

MAX_PAGE_ITEMS: Final = 100
"""Maximum number of items on one page."""
_DEFAULT_PAGE_ITEMS: Final = 20


class ResponseEndpoints:
    """Endpoints for stored responses."""

    def __init__(self, store: ResponseStore, providers: Providers, client: ProviderClient, timeout_s: float) -> None:
        """`timeout_s` is the time limit of one request."""
        self._timeout_s = timeout_s
        self._store = store
        self._providers = providers
        self._client = client

    async def retrieve(self, request: Request) -> Response:
        """Respond with the stored response. If the provider stores it too, for example a background response, respond
        with the provider's current version.
        """
        return await self._with_stored(request, self._retrieve_stored)

    async def cancel(self, request: Request) -> Response:
        """Cancel the response at the provider, and respond with the provider's current version."""
        return await self._with_stored(request, self._cancel_stored)

    async def delete(self, request: Request) -> Response:
        """Delete the response, at the gateway and at the provider."""
        return await self._with_stored(request, self._delete_stored)

    async def input_items(self, request: Request) -> Response:
        """Respond with the input items of the response's request."""
        return await self._with_stored(request, self._list_input_items)

    async def _with_stored(
        self, request: Request, work: Callable[[Request, str, StoredResponse], Awaitable[Response]]
    ) -> Response:
        ident = request.path_params["response_id"]
        try:
            stored_response = await self._store.find(request.scope[IDENTITY], ident)
            if stored_response is None:
                message = f"you have no response {ident[:128]!r}; if you had one, it was deleted or has expired"
                raise LlmError(404, message, "not_found")
            async with asyncio.timeout(self._timeout_s):
                return await work(request, ident, stored_response)
        except TimeoutError:
            error = LlmError(504, f"the provider did not answer within {self._timeout_s:g} s", "timeout")
            return Response(error_body(error), error.status, error.headers, JSON)
        except LlmError as error:
            return Response(error_body(error), error.status, error.headers, JSON)

    async def _retrieve_stored(self, request: Request, ident: str, stored_response: StoredResponse) -> Response:
        if request.query_params.get("stream", "").lower() in ("true", "1"):
            raise LlmError(
                400,
                "stored responses cannot be streamed: omit `stream`",
                "invalid_request",
                param="stream",
            )
        if stored_response.body:
            return Response(stored_response.body, 200, None, JSON)
        return await self._ask_provider(request, "GET", stored_response, stored_response.provider_ids[-1], ident)

    async def _cancel_stored(self, request: Request, ident: str, stored_response: StoredResponse) -> Response:
        if stored_response.body:
            message = "the response is already complete: only a background response can be cancelled"
            raise LlmError(400, message, "invalid_request")
        return await self._ask_provider(
            request, "POST", stored_response, f"{stored_response.provider_ids[-1]}/cancel", ident
        )

    async def _delete_stored(self, request: Request, ident: str, stored_response: StoredResponse) -> Response:
        for provider_id in stored_response.provider_ids:
            response = await self._ask_provider(request, "DELETE", stored_response, provider_id, ident)
            if response.status_code >= 400 and response.status_code != 404:
                return response
        await self._store.forget(request.scope[IDENTITY], ident)
        return Response(encode({"id": ident, "object": "response", "deleted": True}), 200, None, JSON)

    async def _list_input_items(self, request: Request, ident: str, stored_response: StoredResponse) -> Response:
        if stored_response.provider_ids:
            return await self._ask_provider(
                request, "GET", stored_response, f"{stored_response.provider_ids[0]}/input_items", ident
            )
        return Response(encode(_page(stored_response.input_items, request)), 200, None, JSON)

    async def _ask_provider(
        self, request: Request, method: str, stored_response: StoredResponse, response_path: str, ident: str
    ) -> Response:
        """The provider's answer about its response, with the gateway's ids in place of the provider's."""
        provider = self._providers.by_name.get(stored_response.provider)
        if provider is None:
            raise LlmError(
                404, f"the provider {stored_response.provider!r} of this response is no longer configured", "not_found"
            )
        key = caller_key(request)
        try:
            self._providers.check_key(stored_response.provider, keyed=bool(key))
        except ProviderKeyRefused as error:
            raise LlmError(error.status, str(error), "provider_key") from error
        query = request.url.query
        path = f"/responses/{quote(response_path, safe='/')}" + (f"?{query}" if query else "")
        client = self._client.keyed_client(key)
        try:
            answer = await client.send(
                provider, ProviderRequest(path, b"", answer_headers=RESPONSES.answer_headers, method=method)
            )
            try:
                body = await answer.read_whole()
            finally:
                answer.close()
        except ProviderUnavailable as error:
            raise LlmError(502, f"{stored_response.provider}: {error}", "provider_unavailable") from error
        if answer.status < 400:
            body = _with_gateway_id(body, ident, stored_response)
        return Response(body, answer.status, dict(answer.headers), JSON)


def _with_gateway_id(body: bytes, ident: str, stored_response: StoredResponse) -> bytes:
    """A provider's response with the gateway's ids, which the client uses."""
    try:
        members = members_of(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LlmError(502, "the provider's answer is not a JSON object", "bad_answer") from error
    if "id" in members:
        members["id"] = Raw(encode(ident))
    if "previous_response_id" in members:
        members["previous_response_id"] = Raw(encode(stored_response.previous_id))
    return encode(members)


def _page(items: Sequence[bytes], request: Request) -> dict[str, Any]:
    """A page of items, latest first unless the query has `order=asc`. An item without an id gets one from its index."""
    query = request.query_params
    limit = query.get("limit", str(_DEFAULT_PAGE_ITEMS))
    is_plausible = limit.isascii() and limit.isdecimal() and len(limit) <= len(str(MAX_PAGE_ITEMS))
    if not is_plausible or not 1 <= int(limit) <= MAX_PAGE_ITEMS:
        raise LlmError(400, f"limit: must be from 1 to {MAX_PAGE_ITEMS}", "invalid_request", param="limit")
    items_with_ids = [item for index, raw in enumerate(items) if (item := _with_id(raw, index))]
    if query.get("order", "desc") != "asc":
        items_with_ids.reverse()
    ids = [msgspec.json.decode(item["id"]) for item in items_with_ids]
    after = query.get("after")
    start = ids.index(after) + 1 if after in ids else 0
    page = items_with_ids[start : start + int(limit)]
    page_ids = ids[start : start + int(limit)]
    edge_ids = {"first_id": page_ids[0] if page_ids else None, "last_id": page_ids[-1] if page_ids else None}
    return {"object": "list", "data": page, **edge_ids, "has_more": start + len(page) < len(items_with_ids)}


def _with_id(raw: bytes, index: int) -> dict[str, Raw]:
    """Members of an item, with an id from its `index` if it has none; empty if it is not an object."""
    try:
        members = members_of(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return members if head_of(raw).id is not None else {**members, "id": Raw(encode(f"item_{index}"))}
