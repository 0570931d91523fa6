"""Store of OpenAI Responses under ids of the gateway, which requests continue with `previous_response_id`.

Responses are in the store of kept results: bound to the principal, for a time, in Redis where replicas share it. Where
the provider stores responses itself, the entry has its id and the results of calls that the client does not know of;
else it has all items of the conversation.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.openai_responses.answer import ResponsesAnswer
from fairlead_formats.providers.openai_responses.format import RESPONSES
from fairlead_formats.providers.openai_responses.items import head_of, is_hidden, members_of, raws, waiting_calls
from fairlead_formats.providers.openai_responses.own_servers import is_approval_request, output_item
from fairlead_formats.providers.openai_responses.request import ResponsesRequest
from fairlead_formats.providers.openai_responses.stream import ResponsesStream
from fairlead_formats.registry import OPENAI_RESPONSES, message_format
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import WireRequest
from fairlead_gateway.calls.results.context_recorder import ContextRecorder
from fairlead_gateway.context.store import ContextUnavailable
from fairlead_gateway.core.identity import Identity
from fairlead_llm.continuation import ContinuedRequest, FinishedResponse
from fairlead_llm.loop import RoundResults, ToolLoop
from fairlead_mcp.sse import EventParser
from fairlead_models.providers import ModelTarget

NOT_FOUND: Final = "previous_response_not_found"
_ENTRY: Final = "response"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")
"""Response ids of providers that can be part of a path."""
_UNRUN: Final = "The call was not run: the answer was over before."
log = logging.getLogger(__name__)


class StoredResponse(msgspec.Struct, frozen=True, array_like=True):
    """One response."""

    provider: str
    """Name of the provider in the configuration."""
    provider_ids: list[str]
    """The provider's ids of the answers of all rounds; empty where it does not store them."""
    previous: str | None
    """The gateway's id of the response before this one."""
    body: bytes
    """The response as the client got it; empty where the provider's differs in its id alone."""
    input_items: list[bytes]
    """Input items of the request; empty where the provider has them."""
    output: list[bytes]
    """Output items of the answer; empty where the provider has them."""
    unsent_results: list[bytes]
    """Outputs of calls that the client does not know of; they go before the next request's input."""
    unapproved_calls: list[bytes]
    """Items `mcp_approval_request`: calls that run after an `mcp_approval_response` of the client."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(StoredResponse).decode


class ResponseStore:
    """Stores responses, each for its principal. One per gateway."""

    def __init__(self, recorder: ContextRecorder) -> None:
        self._recorder = recorder

    async def find(self, identity: Identity, ident: str) -> StoredResponse | None:
        """A response of the principal; None where it has none of that id, or it has expired. Raises LlmError where the
        store cannot be reached.
        """
        return await self._find(identity, _response(ident))

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
        """Delete a response. Raises LlmError where the store cannot be reached."""
        store, session = self._recorder.store, _response(ident)
        try:
            if store is not None:
                await store.delete(self._recorder.account(identity, session), session)
        except ContextUnavailable as error:
            raise LlmError(503, f"the response cannot be deleted: {error}", "store_unavailable") from error

    async def resolve(
        self, identity: Identity, caller_key: str, read: WireRequest, body: bytes, targets: Sequence[ModelTarget]
    ) -> ContinuedRequest:
        as_it_came = ContinuedRequest(read, body, targets)
        if not isinstance(read, ResponsesRequest):
            return as_it_came
        if read.previous is None:
            return await self._in_conversation(identity, caller_key, read, as_it_came)
        stored = await self.find(identity, read.previous)
        if stored is None:
            raise _not_found(
                f"there is no response {read.previous[:128]!r} of yours, or not any more: send the whole "
                "conversation as `input`"
            )
        there = [target for target in targets if target.provider == stored.provider]
        if stored.provider_ids and there:
            return _continue(read, stored, stored.unsent_results, stored.provider_ids[-1], there)
        if stored.provider_ids:
            raise _not_found(
                f"the response {read.previous[:128]!r} is kept by the provider {stored.provider}: ask for one of "
                "its models, or send the whole conversation as `input`"
            )
        return _continue(read, stored, [*stored.input_items, *stored.output], None, targets)

    async def _in_conversation(
        self, identity: Identity, caller_key: str, read: ResponsesRequest, as_it_came: ContinuedRequest
    ) -> ContinuedRequest:
        """The request with the results that its `conversation` waits for, and the provider that has it as target."""
        if read.conversation is None:
            return as_it_came
        stored = None
        for provider in dict.fromkeys(target.provider for target in as_it_came.targets):
            stored = await self._find(identity, _conversation(provider, caller_key, read.conversation))
            if stored is not None:
                break
        if stored is None or not (stored.unsent_results or stored.unapproved_calls):
            return as_it_came
        heads = [*map(head_of, read.client_messages)]
        asks = {str(call.get("call_id")) for call in waiting_calls(stored.output)}
        answered = {head.call_id for head in heads if head.kind.endswith("_output")}
        if asks and not asks & answered and not any(head.kind == "mcp_approval_response" for head in heads):
            return as_it_came
        there = [target for target in as_it_came.targets if target.provider == stored.provider]
        return _continue(read, stored, stored.unsent_results, None, there)

    async def run_approved(self, loop: ToolLoop) -> RoundResults | None:
        request = loop.prepared.request
        if not isinstance(request, ResponsesRequest) or not request.approved:
            return None
        calls = message_format(OPENAI_RESPONSES).parse_calls({"object": "response", "output": request.approved})
        results = await loop.run(calls, approved=True)
        request.fill(results.messages)
        return results

    async def keep(self, finished: FinishedResponse) -> None:
        request = finished.client_request
        written = _response_in(finished.written)
        if self._recorder.store is None or not isinstance(request, ResponsesRequest) or written is None:
            return
        ident = str(msgspec.json.decode(written["id"]))
        output = [*map(bytes, raws(written.get("output", b"[]")))]
        rounds = _Rounds(finished)
        there = request.stores and bool(rounds.provider_ids)
        as_provider = there and len(rounds.provider_ids) == 1 and not rounds.injected
        stored = StoredResponse(
            finished.prepared.targets[0].provider,
            rounds.provider_ids if there else [],
            request.previous,
            b"" if as_provider else msgspec.json.encode(written),
            [] if there else [*map(bytes, request.client_messages)],
            [] if there else output,
            rounds.unsent_results,
            [*filter(is_approval_request, output)],
        )
        await self._keep(finished.identity, _response(ident), stored)
        if request.conversation is not None:
            there_too = msgspec.structs.replace(stored, body=b"", output=output)
            await self._keep(
                finished.identity, _conversation(stored.provider, finished.caller_key, request.conversation), there_too
            )

    async def _keep(self, identity: Identity, session: str, stored: StoredResponse) -> None:
        store = self._recorder.store
        if store is None:
            return
        try:
            await store.append(self._recorder.account(identity, session), session, _ENTRY, _encode(stored))
        except ContextUnavailable as error:
            log.warning("A response cannot be stored, and requests cannot continue it by its id: %s", error)


class _Rounds:
    """Rounds of a finished response that the provider answered in the Responses format."""

    def __init__(self, finished: FinishedResponse) -> None:
        rounds, request, offer = finished.rounds, finished.prepared.request, finished.prepared.offer
        ids: list[str] = []
        self.last: Sequence[Raw] = ()
        """Output items of the last round."""
        if isinstance(rounds, ResponsesStream):
            ids = rounds.provider_ids
            self.last = rounds.items
        elif isinstance(rounds, Sequence):
            answers = [each for each in rounds if isinstance(each, ResponsesAnswer)]
            ids = [each.provider_id for each in answers]
            self.last = answers[-1].items if answers else ()
        self.provider_ids = [each for each in ids if _ID.fullmatch(each)]
        first = offer.client_run if offer is not None else frozenset()
        self.injected = offer is not None and bool(offer.definitions)
        client_tools = first.union(request.tool_names) if self.injected else None
        results = {head_of(raw).call_id for raw in finished.results}
        unseen = [head.call_id or "" for head in map(head_of, self.last) if is_hidden(head, client_tools)]
        self.unsent_results = [
            *finished.results,
            *(output_item(each, _UNRUN) for each in unseen if each not in results),
        ]


def _continue(
    read: ResponsesRequest,
    stored: StoredResponse,
    before: Sequence[bytes],
    previous: str | None,
    targets: Sequence[ModelTarget],
) -> ContinuedRequest:
    body = read.continue_from(before, previous)
    request = RESPONSES.read(body)
    request.resume(read.previous, stored.unapproved_calls if stored.provider_ids else ())
    return ContinuedRequest(request, body, targets)


def _response_in(written: bytes) -> dict[str, Raw] | None:
    """Members of the response, from a whole body or the last event of a stream."""
    try:
        if written[:1] == b"{":
            return members_of(written)
        events = EventParser(len(written)).feed(written)
        return members_of(members_of(events[-1].data)["response"]) if events else None
    except (msgspec.MsgspecError, KeyError):
        return None


def _response(ident: str) -> str:
    """Name of a response in the store."""
    return f"response {ident}"


def _conversation(provider: str, caller_key: str, ident: str) -> str:
    """Name in the store of the last response of a conversation, which belongs to the account of a key at a provider:
    another account may have a conversation of the same id.
    """
    held = hashlib.blake2b(msgspec.json.encode((provider, caller_key, ident)), digest_size=24)
    return f"conversation {held.hexdigest()}"


def _not_found(message: str) -> LlmError:
    return LlmError(400, message, NOT_FOUND, param="previous_response_id")
