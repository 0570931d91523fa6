"""Streamed response: relays the provider's events of every round as they arrive, and runs tools between rounds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from fairlead_formats.wire.call_ids import ProviderCallIds
from fairlead_formats.wire.errors import LlmError, refused_key_error, reports_refused_key
from fairlead_formats.wire.protocol import BadAnswer, BadStream, FinishedCall
from fairlead_llm.continuation import Continuations, FinishedResponse
from fairlead_llm.loop import NO_RESULTS, ToolLoop, running_call
from fairlead_llm.preparation import ModelRequest
from fairlead_llm.services import ModelServices
from fairlead_llm.stream_documents import ReceivedStream, read_document
from fairlead_llm.turn_keeping import TurnKeeper
from fairlead_mcp.errors import TooLarge
from fairlead_mcp.read_bounds import LONG_BYTES, explain_excess, is_long
from fairlead_models.errors import llm_error
from fairlead_models.provider_requests import ProviderUnavailable
from fairlead_models.request_record import CLIENT_CLOSED
from fairlead_offers.problems import INTERNAL, Problem

KEEP_ALIVE_S: Final = 10.0
"""Seconds without output after which an event that clients ignore is sent, so that proxies keep the stream open."""
MAX_EVENT: Final = 8 << 20
_HEADERS: Final = {"cache-control": "no-cache", "x-accel-buffering": "no"}
log = logging.getLogger(__name__)


def check_event(data: bytes) -> bytes:
    """Return the data of an event. Raises BadStream if decoding them would take too much time or memory."""
    reason = explain_excess(data) if is_long(data) else None
    if reason is not None:
        raise BadStream(f"an event of the provider's answer holds {reason}")
    return data


class StreamedAnswer(Response):
    """Response to a request with `stream`."""

    def __init__(
        self,
        client_request: ModelRequest,
        loop: ToolLoop,
        received_stream: ReceivedStream,
        services: ModelServices,
        continuations: Continuations | None = None,
        finished_calls: Sequence[FinishedCall] = (),
    ) -> None:
        """`finished_calls`: tool calls that the client approved and that ran before the first round."""
        answer = received_stream.answer
        super().__init__(
            None, 200, {**answer.headers, **loop.headers, **_HEADERS}, loop.prepared_request.wire.stream_type
        )
        del self.headers["content-length"]
        self._loop = loop
        self._answer = answer
        self._document_events = received_stream.events
        self._work = services.tools.work
        self._keeper = TurnKeeper(loop, services.turns, client_request.identity)
        self._client_request = client_request
        self._identity = client_request.identity
        self._continuations = continuations
        self._results: Sequence[bytes] = ()
        """Results of the last round's calls."""
        self._stream = loop.prepared_request.wire.stream(loop.prepared_request.request, loop.client_tools)
        self._early_events = (
            self._stream.show_results(finished_calls) if finished_calls and loop.prepared_request.shows_calls else b""
        )
        self._written_at = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write the stream to its end. If the client disconnects, cancel the provider's answer and running tools."""
        self._send = send
        writer = asyncio.ensure_future(self._write_stream())
        disconnection = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            # a client that does not read blocks the last write and stays connected, so the wait needs a limit
            limit_s = self._loop.seconds_left() + self._loop.end_of_stream_s
            await asyncio.wait({writer, disconnection}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if writer.done():
                writer.result()
        except Exception:
            self._loop.record.end(INTERNAL)
            raise
        finally:
            disconnection.cancel()
            writer.cancel()
            await asyncio.wait({writer, disconnection})
            self._answer.close()
            self._loop.record.end(CLIENT_CLOSED)  # no effect if the record has ended

    async def _write_stream(self) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        keep_alive = asyncio.ensure_future(self._keep_alive())
        try:
            last_events = await self._write_until_end()
        finally:
            keep_alive.cancel()
        with contextlib.suppress(TimeoutError):  # a client that does not read must not hold resources
            async with asyncio.timeout(self._loop.end_of_stream_s):
                await self._write(last_events)
                self._loop.record.end(self._loop.outcome)  # no effect if the record has ended
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write_until_end(self) -> bytes:
        """Write the stream except for its last events, and return the last events."""
        try:
            await self._write(self._early_events)
            async with asyncio.timeout(self._loop.seconds_left()):
                await self._run_rounds()
            last_events = self._stream.finish({"fairlead": self._loop.report()})
            await self._keep(last_events)
        except TimeoutError:
            return self._end_with_error(self._loop.timeout_error())
        except BadStream as error:
            return self._end_with_error(
                LlmError(502, f"{self._loop.target.provider}: {error}", "bad_answer"), error.error
            )
        except (ProviderUnavailable, TooLarge) as error:
            return self._end_with_error(LlmError(502, f"{self._loop.target.provider}: {error}", "provider_unavailable"))
        except Problem as problem:
            return self._end_with_error(llm_error(problem))
        except LlmError as error:
            return self._end_with_error(error)
        return last_events

    async def _run_rounds(self) -> None:
        """Relay all rounds. Raises BadStream, LlmError, Problem, ProviderUnavailable, TooLarge."""
        loop, stream = self._loop, self._stream
        prepared_request = loop.prepared_request
        while True:
            try:
                await self._relay_round()
            except (BadStream, ProviderUnavailable, TooLarge) as error:
                if (
                    not isinstance(error, BadStream) or error.error is None
                ):  # otherwise the provider reports an error, which the request may have caused
                    loop.fail_round(error)
                raise
            if loop.should_repeat(stream.malformed_call):
                await self._next_round()
                continue
            calls, results = await loop.split_calls(stream.message), NO_RESULTS
            if calls.inner_calls:
                await self._write(stream.unwrap(calls.inner_calls))
            if await self._keeper.may_run_now(calls, stream.request_messages):
                if prepared_request.shows_calls:
                    await self._write(stream.show_running([*map(running_call, calls.gateway_calls)]))
                results = await loop.run(calls.gateway_calls)
                self._results = results.messages
                if prepared_request.shows_calls:
                    await self._write(stream.show_results(results.finished_calls))
            if calls.client_calls or not results.messages:
                await self._keeper.keep(calls, stream.request_messages, results.messages, stream.turn_key)
                return
            loop.append_results(stream.request_messages, results.messages)
            self._results = ()
            await self._next_round()

    async def _next_round(self) -> None:
        """Begin the next round. Raises BadStream, LlmError, ProviderUnavailable."""
        self._stream.next_round()
        self._answer.close()
        self._answer = await self._loop.next_answer()
        if self._answer.status == 401:
            raise refused_key_error()
        if self._answer.status != 200:
            provider_error = self._loop.prepared_request.wire.error_in(await self._answer.read_whole())
            raise BadStream(f"the provider answered {self._answer.status} in a later round", provider_error)
        self._document_events = None
        if not self._answer.streams:
            try:
                self._document_events = await read_document(self._answer, self._loop, self._work)
            except BadAnswer as error:
                self._loop.fail_round(error)
                raise BadStream(str(error)) from error

    async def _keep(self, last_events: bytes) -> None:
        if self._continuations is None:
            return
        loop, client_request = self._loop, self._client_request
        finished_response = FinishedResponse(
            client_request.identity,
            client_request.caller_key,
            client_request.wire_request,
            loop.prepared_request,
            self._stream,
            last_events,
            self._results,
        )
        await self._continuations.keep(finished_response)

    async def _relay_round(self) -> None:
        """Relay one answer of the model to its end. Raises BadStream, ProviderUnavailable, TooLarge."""
        ids = (
            None
            if self._loop.client_tools is None
            else ProviderCallIds(keepable=self._loop.prepared_request.keeps_turns)
        )
        if self._document_events is not None:
            await self._relay(*self._translate(self._document_events, ids))
        else:
            parser, size = self._loop.prepared_request.wire.event_parser(MAX_EVENT), 0
            async for piece in self._answer.pieces():
                size += len(piece)
                self._loop.long |= size > LONG_BYTES
                await self._relay(*self._translate([check_event(event.data) for event in parser.feed(piece)], ids))
                if self._stream.done:  # some providers keep the connection open after the last event
                    break
        if not self._stream.ended:
            raise BadStream("the provider's stream ended before its final event")
        await self._write(self._stream.end_round())
        self._loop.finish_round(self._stream.usage)

    def _translate(self, event_data: Sequence[bytes], ids: ProviderCallIds | None) -> tuple[bytes, BadStream | None]:
        """The client's bytes for events of the provider, and the error that ends the answer after these bytes. A
        function of its own, because variables of the calling coroutine would stay in memory while the client does not
        read.
        """
        self._loop.record.add_answer_tokens(len(event_data))
        out: list[bytes] = []
        try:
            out += (self._stream.feed(data if ids is None else ids.replace(data)) for data in event_data)
        except BadStream as error:
            return b"".join(out), error
        return b"".join(out), None

    async def _relay(self, body: bytes, error: BadStream | None) -> None:
        """Write translated events, then raise the error that follows them, if any."""
        if body:
            self._loop.record.record_first_token()
        await self._write(body)
        if error is not None:
            raise error

    async def _write(self, out: bytes) -> None:
        if out:
            self._written_at = time.monotonic()
            await self._send({"type": "http.response.body", "body": out, "more_body": True})

    async def _keep_alive(self) -> None:
        while True:
            silence_s = time.monotonic() - self._written_at
            if silence_s >= KEEP_ALIVE_S:
                await self._write(self._stream.keep_alive())
            await asyncio.sleep(KEEP_ALIVE_S - silence_s if silence_s < KEEP_ALIVE_S else KEEP_ALIVE_S)

    def _end_with_error(self, error: LlmError, raw: bytes | None = None) -> bytes:
        """Close the provider's answer, record the error, and return the error event that ends the stream."""
        self._answer.close()
        if raw is not None and reports_refused_key(raw):
            error, raw = refused_key_error(), None
        code = error.code if raw is None else "an error of the provider"  # its text may quote a prompt
        self._loop.record.end(error.code)
        log.info("The streamed answer of provider %s ended early: %s", self._loop.target.provider, code)
        return self._stream.write_error(error, raw)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
