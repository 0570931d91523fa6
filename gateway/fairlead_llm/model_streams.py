"""Streamed answers of models to requests that the gateway itself makes, in Chat Completions format for any provider."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_formats.providers.openai_chat.format import CHAT
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import BadAnswer, BadRequest, BadStream, ModelRound, WireFormat, WireStream
from fairlead_llm.preparation import provider_format
from fairlead_llm.stream_documents import document_events
from fairlead_llm.streaming import MAX_EVENT, check_event
from fairlead_mcp.errors import TooLarge
from fairlead_models.errors import closed_error
from fairlead_models.model_breakers import ModelAttempt, ModelBreakers, ModelClosed
from fairlead_models.next_model import asks_next
from fairlead_models.provider_requests import ProviderAnswer, ProviderClient, ProviderRequest, ProviderUnavailable
from fairlead_models.providers import ModelTarget, ProviderKeyRefused, Providers, UnknownModel

_OK: Final = 200


class ModelStreams:
    """Sends the gateway's own requests to models. The HTTP client is shared, so its owner closes it."""

    def __init__(self, providers: Callable[[], Providers], client: ProviderClient, breakers: ModelBreakers) -> None:
        """`providers` returns the providers of the current configuration."""
        self._providers = providers
        self._client = client
        self._breakers = breakers

    async def stream(self, model_name: str, body: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """The streamed answer to a request, as server-sent events. `model_name` names a model or a route; the
        models of a route are tried in order until one begins to answer. Raises LlmError.
        """
        providers = self._providers()
        try:
            _, targets = providers.targets(model_name)
        except (UnknownModel, ProviderKeyRefused) as error:
            raise LlmError(404, str(error), "model_not_found") from error
        failure = LlmError(502, f"no provider of {model_name!r} is available", "provider_unavailable")
        for target in targets:
            try:
                attempt = self._breakers.attempt(target)
            except ModelClosed as closed_model:
                failure = closed_error(closed_model, {})
                continue
            try:
                async with contextlib.aclosing(self._answer(providers, target, attempt, body)) as pieces:
                    async for piece in pieces:
                        yield piece
            except _NotBegun as error:
                failure = error.why
                if not error.ask_next:
                    raise failure from error
                continue
            return
        raise failure

    async def _answer(
        self, providers: Providers, target: ModelTarget, attempt: ModelAttempt, body: Mapping[str, Any]
    ) -> AsyncGenerator[bytes, None]:
        """The answer of one model. Raises _NotBegun if the model does not begin to answer, and LlmError after that."""
        provider = providers.by_name[target.provider]
        wire = provider_format(CHAT, provider)
        try:
            chat_body = {**body, "model": target.model}
            request = wire.read(msgspec.json.encode(chat_body))
            model_round = ModelRound(
                target.model,
                (),
                (),
                requests_usage=provider.stream_usage,
                sends_forced_choice=True,
                forbids_calls=False,
            )
            path = wire.path(target.model, stream=True)
            answer = await self._client.send(provider, ProviderRequest(path, request.body(model_round)))
        except BadRequest as error:
            attempt.abandon()
            raise _NotBegun(LlmError(400, str(error), "invalid_request"), ask_next=True) from error
        except ProviderUnavailable as error:
            attempt.record_failure(error)
            failure = LlmError(502, f"{target.provider}: {error}", "provider_unavailable")
            raise _NotBegun(failure, ask_next=True) from error
        except BaseException:
            attempt.abandon()
            raise
        try:
            attempt.record_answer(answer.status, answer.retry_after)
            if answer.status != _OK:
                message = f"{target.provider} answered with status {answer.status}"
                refusal = LlmError(answer.status, message, "provider_refused")
                raise _NotBegun(refusal, ask_next=asks_next(answer.status))
            async with contextlib.aclosing(
                self._events(answer, target.provider, attempt, wire, wire.stream(request, None))
            ) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            answer.close()

    async def _events(
        self, answer: ProviderAnswer, provider: str, attempt: ModelAttempt, wire: WireFormat, stream: WireStream
    ) -> AsyncGenerator[bytes, None]:
        try:
            async for event_data in _received_events(answer, wire):
                out = b"".join(map(stream.feed, event_data))
                if out:
                    yield out
                if stream.done:
                    break
            if not stream.ended:
                raise BadStream("the model's stream ended before its final event")
            yield stream.end_round() + stream.finish({})
        except (BadAnswer, BadStream, TooLarge, ProviderUnavailable) as error:
            attempt.record_failure(error)
            raise LlmError(502, f"{provider}: {error}", "bad_answer") from error
        except (GeneratorExit, asyncio.CancelledError):
            attempt.abandon()
            raise
        attempt.record_success()


async def _received_events(answer: ProviderAnswer, wire: WireFormat) -> AsyncIterator[Sequence[bytes]]:
    """Yield data of the events of an answer. Raises BadAnswer, BadStream, ProviderUnavailable, TooLarge."""
    if not answer.streams:
        yield document_events(await answer.read_whole(), answer.content_type, wire)
        return
    parser = wire.event_parser(MAX_EVENT)
    async for piece in answer.pieces():
        yield [check_event(event.data) for event in parser.feed(piece)]


class _NotBegun(Exception):
    """The model did not begin to answer. `ask_next`: whether the next model of the route may be tried."""

    def __init__(self, why: LlmError, *, ask_next: bool) -> None:
        super().__init__(str(why))
        self.why = why
        self.ask_next = ask_next
