"""Store of OpenAI Responses under ids of the gateway, for requests that continue a response (`previous_response_id`) or
refer to one of its items (`item_reference`). The id of an item contains the id of its response.

Responses are in the store in which the gateway keeps tool results: bound to the principal, for a limited time, in Redis
if replicas share it. If the provider stores a response, the entry has the provider's id and the results of calls that
the client did not receive. Otherwise the entry has all items of the conversation.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.openai_responses.answer import ResponsesAnswer
from fairlead_formats.providers.openai_responses.items import (
    head_of,
    is_hidden,
    members_of,
    raws,
    response_id_of,
    waiting_calls,
)
from fairlead_formats.providers.openai_responses.mcp_tools import is_approval_request, output_item
from fairlead_formats.providers.openai_responses.request import ResponsesRequest
from fairlead_formats.providers.openai_responses.stream import ResponsesStream
from fairlead_formats.registry import OPENAI_RESPONSES, message_format
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import WireRequest
from fairlead_gateway.calls.results.context_recorder import ContextRecorder
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.result_stores.store import ContextUnavailable
from fairlead_llm.continuation import ContinuedRequest, FinishedResponse
from fairlead_llm.loop import RoundResults, ToolLoop
from fairlead_mcp.sse import EventParser
from fairlead_models.providers import ModelTarget

NOT_FOUND: Final = "previous_response_not_found"
_ENTRY: Final = "response"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")
"""Response ids of providers that can be used in a path."""
MAX_REFERENCED_RESPONSES: Final = 256
"""Maximum number of responses to whose items one request can refer. If there are more, only the last are looked up."""
_MAX_CONCURRENT_LOOKUPS: Final = 32
"""Number of responses that one request looks up at the same time."""
_NOT_RUN_OUTPUT: Final = "The call was not run, because the response ended before."
log = logging.getLogger(__name__)


class StoredResponse(msgspec.Struct, frozen=True, array_like=True):
    """One stored response."""

    provider: str
    """Name of the provider in the configuration."""
    provider_ids: list[str]
    """The provider's ids of the answers of all rounds; empty if the provider does not store them."""
    previous_id: str | None
    """The gateway's id of the previous response."""
    body: bytes
    """The client's response; empty if the provider's response differs only in its id."""
    input_items: list[bytes]
    """Input items of the request; empty if the provider stores them."""
    output: list[bytes]
    """Output items of the answer; empty if the provider stores them."""
    unsent_results: list[bytes]
    """Outputs of calls that the client did not receive. They precede the next request's input."""
    unapproved_calls: list[bytes]
    """Items `mcp_approval_request` of calls that run after the client approves them (`mcp_approval_response`)."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(StoredResponse).decode


class ResponseStore:
    """Stores responses, each only for its principal. Each gateway has one instance."""

    def __init__(self, recorder: ContextRecorder) -> None:
        self._recorder = recorder

    async def find(self, identity: Identity, ident: str) -> StoredResponse | None:
        """A response of the principal; None if the principal has none with that id, or it has expired. Raises LlmError
        if the store cannot be reached.
        """
        return await self._find(identity, _response_session(ident))

    async def _find(self, identity: Identity, session: str) -> StoredResponse | None:
        store = self._recorder.store
        if store is None:
            return None
        try:
            entries = await store.entries(self._recorder.account(identity, session), session)
            return _decode(entries[-1]) if entries else None
        except ContextUnavailable as error:
            raise LlmError(503, f"the response cannot be looked up: {error}", "store_unavailable") from error
        except msgspec.MsgspecError:
            return None

    async def forget(self, identity: Identity, ident: str) -> None:
        """Delete a response. Raises LlmError if the store cannot be reached."""
        store, session = self._recorder.store, _response_session(ident)
        try:
            if store is not None:
                await store.delete(self._recorder.account(identity, session), session)
        except ContextUnavailable as error:
            raise LlmError(503, f"the response cannot be deleted: {error}", "store_unavailable") from error

    async def resolve(
        self,
        identity: Identity,
        caller_key: str,
        wire_request: WireRequest,
        body: bytes,
        targets: Sequence[ModelTarget],
    ) -> ContinuedRequest:
        if not isinstance(wire_request, ResponsesRequest):
            return ContinuedRequest(wire_request, body, targets)
        items = await self._referenced_items(identity, wire_request) if wire_request.references else {}
        if items:
            body = wire_request.resolve(items)
            wire_request = type(wire_request)(body)
        same_request = ContinuedRequest(wire_request, body, targets)
        if wire_request.previous_id is None:
            return await self._in_conversation(identity, caller_key, wire_request, same_request)
        stored_response = await self.find(identity, wire_request.previous_id)
        if stored_response is None:
            raise _not_found(
                f"you have no response {wire_request.previous_id[:128]!r}; if you had one, it was deleted or has "
                "expired: send the whole conversation as `input`"
            )
        provider_targets = [target for target in targets if target.provider == stored_response.provider]
        if stored_response.provider_ids and provider_targets:
            return _continue(
                wire_request,
                stored_response,
                stored_response.unsent_results,
                stored_response.provider_ids[-1],
                provider_targets,
            )
        if stored_response.provider_ids:
            raise _not_found(
                f"response {wire_request.previous_id[:128]!r} is stored by the provider {stored_response.provider!r}: "
                "use one of its models, or send the whole conversation as `input`"
            )
        return _continue(
            wire_request, stored_response, [*stored_response.input_items, *stored_response.output], None, targets
        )

    async def _referenced_items(self, identity: Identity, wire_request: ResponsesRequest) -> dict[str, bytes]:
        """Items of the principal's stored responses to which a request refers, by their ids. Empty for a request in a
        `conversation`, whose items the provider has. Raises LlmError if the store cannot be reached.
        """
        if wire_request.conversation is not None:
            return {}
        idents = [
            *dict.fromkeys(
                ident for reference in wire_request.references if (ident := response_id_of(reference)) is not None
            )
        ]
        last_ids = idents[-MAX_REFERENCED_RESPONSES:]
        outputs: list[Sequence[bytes]] = []
        for start in range(0, len(last_ids), _MAX_CONCURRENT_LOOKUPS):
            lookups = (self.find(identity, ident) for ident in last_ids[start : start + _MAX_CONCURRENT_LOOKUPS])
            outputs += [
                _output_of(stored_response)
                for stored_response in await asyncio.gather(*lookups)
                if stored_response is not None
            ]
        return {ident: item for output in outputs for item in output if (ident := head_of(item).id) is not None}

    async def _in_conversation(
        self, identity: Identity, caller_key: str, wire_request: ResponsesRequest, same_request: ContinuedRequest
    ) -> ContinuedRequest:
        """The request with the tool results that its `conversation` lacks. Its targets are only models of the provider
        that has the conversation.
        """
        if wire_request.conversation is None:
            return same_request
        stored_response = None
        for provider in dict.fromkeys(target.provider for target in same_request.targets):
            stored_response = await self._find(
                identity, _conversation_session(provider, caller_key, wire_request.conversation)
            )
            if stored_response is not None:
                break
        if stored_response is None or not (stored_response.unsent_results or stored_response.unapproved_calls):
            return same_request
        heads = [*map(head_of, wire_request.client_messages)]
        waiting_ids = {str(call.get("call_id")) for call in waiting_calls(stored_response.output)}
        answered_ids = {head.call_id for head in heads if head.kind.endswith("_output")}
        if (
            waiting_ids
            and not waiting_ids & answered_ids
            and not any(head.kind == "mcp_approval_response" for head in heads)
        ):
            return same_request
        provider_targets = [target for target in same_request.targets if target.provider == stored_response.provider]
        return _continue(wire_request, stored_response, stored_response.unsent_results, None, provider_targets)

    async def run_approved(self, loop: ToolLoop) -> RoundResults | None:
        request = loop.prepared_request.request
        if not isinstance(request, ResponsesRequest) or not request.approved_calls:
            return None
        calls = message_format(OPENAI_RESPONSES).parse_calls({"object": "response", "output": request.approved_calls})
        results = await loop.run(calls, approved=True)
        request.fill(results.messages)
        return results

    async def keep(self, response: FinishedResponse) -> None:
        request = response.client_request
        members = _response_in(response.client_output)
        if self._recorder.store is None or not isinstance(request, ResponsesRequest) or members is None:
            return
        if not request.gateway_stores:
            return
        ident = str(msgspec.json.decode(members["id"]))
        output = [*map(bytes, raws(members.get("output", b"[]")))]
        rounds = _Rounds(response)
        is_at_provider = request.provider_stores and bool(rounds.provider_ids)
        equals_provider_response = is_at_provider and len(rounds.provider_ids) == 1 and not rounds.has_injected_tools
        stored_response = StoredResponse(
            response.prepared_request.targets[0].provider,
            rounds.provider_ids if is_at_provider else [],
            request.previous_id,
            b"" if equals_provider_response else msgspec.json.encode(members),
            [] if is_at_provider else [*map(bytes, request.client_messages)],
            [] if is_at_provider else output,
            rounds.unsent_results,
            [*filter(is_approval_request, output)],
        )
        await self._keep(response.identity, _response_session(ident), stored_response)
        if request.conversation is not None:
            without_body = msgspec.structs.replace(stored_response, body=b"", output=output)
            await self._keep(
                response.identity,
                _conversation_session(stored_response.provider, response.caller_key, request.conversation),
                without_body,
            )

    async def _keep(self, identity: Identity, session: str, stored_response: StoredResponse) -> None:
        store = self._recorder.store
        if store is None:
            return
        try:
            await store.append(self._recorder.account(identity, session), session, _ENTRY, _encode(stored_response))
        except ContextUnavailable as error:
            log.warning("A response was not stored, so requests cannot continue it by its id: %s", error)


class _Rounds:
    """Rounds of a finished response. Only rounds that a provider answered in Responses format are read."""

    def __init__(self, response: FinishedResponse) -> None:
        rounds, request, offer = response.rounds, response.prepared_request.request, response.prepared_request.offer
        ids: list[str] = []
        self.last_items: Sequence[Raw] = ()
        """Output items of the last round."""
        if isinstance(rounds, ResponsesStream):
            ids = rounds.provider_ids
            self.last_items = rounds.items
        elif isinstance(rounds, Sequence):
            answers = [answer for answer in rounds if isinstance(answer, ResponsesAnswer)]
            ids = [answer.provider_id for answer in answers]
            self.last_items = answers[-1].items if answers else ()
        self.provider_ids = [ident for ident in ids if _ID.fullmatch(ident)]
        client_run = offer.client_run if offer is not None else frozenset()
        self.has_injected_tools = offer is not None and bool(offer.definitions)
        client_tools = client_run.union(request.tool_names) if self.has_injected_tools else None
        results = {head_of(raw).call_id for raw in response.results}
        hidden_ids = [head.call_id or "" for head in map(head_of, self.last_items) if is_hidden(head, client_tools)]
        self.unsent_results = [
            *response.results,
            *(output_item(hidden_id, _NOT_RUN_OUTPUT) for hidden_id in hidden_ids if hidden_id not in results),
        ]


def _continue(
    wire_request: ResponsesRequest,
    stored_response: StoredResponse,
    earlier_items: Sequence[bytes],
    previous_id: str | None,
    targets: Sequence[ModelTarget],
) -> ContinuedRequest:
    body = wire_request.continue_from(earlier_items, previous_id)
    request = type(wire_request)(body)
    request.resume(wire_request.previous_id, stored_response.unapproved_calls if stored_response.provider_ids else ())
    return ContinuedRequest(request, body, targets)


def _output_of(stored_response: StoredResponse) -> Sequence[bytes]:
    """Output items of a stored response as the client received them; empty if only the provider has them."""
    if stored_response.output or not stored_response.body:
        return stored_response.output
    return [*map(bytes, raws(members_of(stored_response.body).get("output", b"[]")))]


def _response_in(client_output: bytes) -> dict[str, Raw] | None:
    """Members of the response, from a whole body or from the last event of a stream."""
    try:
        if client_output[:1] == b"{":
            return members_of(client_output)
        events = EventParser(len(client_output)).feed(client_output)
        return members_of(members_of(events[-1].data)["response"]) if events else None
    except (msgspec.MsgspecError, KeyError):
        return None


def _response_session(ident: str) -> str:
    """Name of a response's session in the store."""
    return f"response {ident}"


def _conversation_session(provider: str, caller_key: str, ident: str) -> str:
    """Name in the store for a conversation's last response. A conversation belongs to the account of an API key, and
    another account may have a conversation with the same id.
    """
    digest = hashlib.blake2b(msgspec.json.encode((provider, caller_key, ident)), digest_size=24)
    return f"conversation {digest.hexdigest()}"


def _not_found(message: str) -> LlmError:
    return LlmError(400, message, NOT_FOUND, param="previous_response_id")
