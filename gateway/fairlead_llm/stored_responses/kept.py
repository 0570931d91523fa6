"""Answers of OpenAI Responses under ids of the gateway's own: what a request goes on from with `previous_response_id`.

They are in the store of kept results: bound to the principal, for a time, in Redis where replicas share it. Where the
provider keeps answers itself, the id of its own is kept here, with the results of calls that the client does not know
of; else all items of the conversation are.
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
from fairlead_formats.providers.openai_responses.own_servers import asks_approval, output_item
from fairlead_formats.providers.openai_responses.request import ResponsesRequest
from fairlead_formats.providers.openai_responses.stream import ResponsesStream
from fairlead_formats.registry import OPENAI_RESPONSES, message_format
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import WireRequest
from fairlead_gateway.calls.results.context_recorder import ContextRecorder
from fairlead_gateway.context.store import ContextUnavailable
from fairlead_gateway.core.identity import Identity
from fairlead_llm.continuation import ContinuedRequest, FinishedResponse
from fairlead_llm.loop import ToolLoop
from fairlead_llm.round_calls import RoundResults
from fairlead_mcp.sse import EventParser
from fairlead_models.providers import ModelTarget

NOT_FOUND: Final = "previous_response_not_found"
_ENTRY: Final = "response"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")
"""Ids of providers that stand in a path."""
_UNRUN: Final = "The call was not run: the answer was over before."
log = logging.getLogger(__name__)


class KeptResponse(msgspec.Struct, frozen=True, array_like=True):
    """One answer."""

    provider: str
    """Name of the provider in the configuration."""
    provider_ids: list[str]
    """Its own ids of the answers of all rounds; none where it does not keep them."""
    previous: str | None
    """Id of the answer in front of it, as the client knows it."""
    body: bytes
    """Response as the client got it; empty where the provider's own differs in its id alone."""
    asked: list[bytes]
    """Items of the request; none where the provider has them."""
    output: list[bytes]
    """Items of the answer behind them."""
    unsent_results: list[bytes]
    """Outputs of calls that the client does not know of, which go in front of the next request's input."""
    unapproved_calls: list[bytes]
    """Requests for the approval of calls that run after an `mcp_approval_response` of the client's."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(KeptResponse).decode


class KeptResponses:
    """Keeps answers, and finds them for the principal that they are of. One per gateway."""

    def __init__(self, recorder: ContextRecorder) -> None:
        self._recorder = recorder

    async def found(self, identity: Identity, ident: str) -> KeptResponse | None:
        """An answer of the principal's; None where it has none of that id, or has it no more. Raises LlmError where
        the store is out.
        """
        return await self._found(identity, _response(ident))

    async def _found(self, identity: Identity, session: str) -> KeptResponse | None:
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
        """Delete an answer."""
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
        kept = await self.found(identity, read.previous)
        if kept is None:
            raise _gone(
                f"there is no response {read.previous[:128]!r} of yours, or not any more: send the whole "
                "conversation as `input`"
            )
        there = [target for target in targets if target.provider == kept.provider]
        if kept.provider_ids and there:
            return _continued(read, kept, kept.unsent_results, kept.provider_ids[-1], there)
        if kept.provider_ids:
            raise _gone(
                f"the response {read.previous[:128]!r} is kept by the provider {kept.provider}: ask for one of "
                "its models, or send the whole conversation as `input`"
            )
        return _continued(read, kept, [*kept.asked, *kept.output], None, targets)

    async def _in_conversation(
        self, identity: Identity, caller_key: str, read: ResponsesRequest, as_it_came: ContinuedRequest
    ) -> ContinuedRequest:
        """The request with the results that its conversation, if it has one, waits for, at the provider that has it."""
        if read.conversation is None:
            return as_it_came
        kept = None
        for provider in dict.fromkeys(target.provider for target in as_it_came.targets):
            kept = await self._found(identity, _conversation(provider, caller_key, read.conversation))
            if kept is not None:
                break
        if kept is None or not (kept.unsent_results or kept.unapproved_calls):
            return as_it_came
        heads = [*map(head_of, read.client_messages)]
        asks = {str(call.get("call_id")) for call in waiting_calls(kept.output)}
        answered = {head.call_id for head in heads if head.kind.endswith("_output")}
        if asks and not asks & answered and not any(head.kind == "mcp_approval_response" for head in heads):
            return as_it_came
        there = [target for target in as_it_came.targets if target.provider == kept.provider]
        return _continued(read, kept, kept.unsent_results, None, there)

    async def run_approved(self, loop: ToolLoop) -> RoundResults | None:
        request = loop.prepared.request
        if not isinstance(request, ResponsesRequest) or not request.approved:
            return None
        calls = message_format(OPENAI_RESPONSES).parse_calls({"object": "response", "output": request.approved})
        results = await loop.run(calls, approved=True)
        request.fill(results.messages)
        return results

    async def keep(self, said: FinishedResponse) -> None:
        asked = said.asked
        written = _response_in(said.written)
        if self._recorder.store is None or not isinstance(asked, ResponsesRequest) or written is None:
            return
        ident = str(msgspec.json.decode(written["id"]))
        output = [*map(bytes, raws(written.get("output", b"[]")))]
        rounds = _Rounds(said)
        there = asked.stores and bool(rounds.provider_ids)
        as_provider = there and len(rounds.provider_ids) == 1 and not rounds.injected
        kept = KeptResponse(
            said.prepared.targets[0].provider,
            rounds.provider_ids if there else [],
            asked.previous,
            b"" if as_provider else msgspec.json.encode(written),
            [] if there else [*map(bytes, asked.client_messages)],
            [] if there else output,
            rounds.unsent_results,
            [*filter(asks_approval, output)],
        )
        await self._keep(said.identity, _response(ident), kept)
        if asked.conversation is not None:
            there_too = msgspec.structs.replace(kept, body=b"", output=output)
            await self._keep(
                said.identity, _conversation(kept.provider, said.caller_key, asked.conversation), there_too
            )

    async def _keep(self, identity: Identity, session: str, kept: KeptResponse) -> None:
        store = self._recorder.store
        if store is None:
            return
        try:
            await store.append(self._recorder.account(identity, session), session, _ENTRY, _encode(kept))
        except ContextUnavailable as error:
            log.warning("A response is not kept, and cannot be gone on from by its id: %s", error)


class _Rounds:
    """Provider's part in an answer: its rounds, as far as it speaks Responses."""

    def __init__(self, said: FinishedResponse) -> None:
        rounds, request, offer = said.rounds, said.prepared.request, said.prepared.offer
        ids: list[str] = []
        self.last: Sequence[Raw] = ()
        """Items of the last round."""
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
        theirs = first.union(request.tool_names) if self.injected else None
        results = {head_of(raw).call_id for raw in said.results}
        unseen = [head.call_id or "" for head in map(head_of, self.last) if is_hidden(head, theirs)]
        self.unsent_results = [*said.results, *(output_item(each, _UNRUN) for each in unseen if each not in results)]


def _continued(
    read: ResponsesRequest,
    kept: KeptResponse,
    before: Sequence[bytes],
    previous: str | None,
    targets: Sequence[ModelTarget],
) -> ContinuedRequest:
    body = read.continue_from(before, previous)
    found = RESPONSES.read(body)
    found.resume(read.previous, kept.unapproved_calls if kept.provider_ids else ())
    return ContinuedRequest(found, body, targets)


def _response_in(written: bytes) -> dict[str, Raw] | None:
    """Members of the response, whole or in the last event of a stream."""
    try:
        if written[:1] == b"{":
            return members_of(written)
        events = EventParser(len(written)).feed(written)
        return members_of(members_of(events[-1].data)["response"]) if events else None
    except (msgspec.MsgspecError, KeyError):
        return None


def _response(ident: str) -> str:
    """Name of an answer in the store."""
    return f"response {ident}"


def _conversation(provider: str, caller_key: str, ident: str) -> str:
    """Name of the last answer in a conversation that the provider holds in the account of a key: another one may have
    a conversation of the same id.
    """
    held = hashlib.blake2b(msgspec.json.encode((provider, caller_key, ident)), digest_size=24)
    return f"conversation {held.hexdigest()}"


def _gone(message: str) -> LlmError:
    return LlmError(400, message, NOT_FOUND, param="previous_response_id")
