"""Call of a modern client to a legacy server that asks the client something during the call.

A legacy server sends its questions (requests such as `elicitation/create`) while the call is open. A modern client gets
them as an `input_required` result, and sends the answers in a further request (SEP-2322). One call at the server thus
takes several requests of the client, the last of which is answered with the server's result.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Final

from msgspec import UNSET, Raw

from fairlead_gateway.calls.path.attempts import AttemptOwner, Attempts
from fairlead_gateway.calls.path.client_call import CallControl, upstream_request
from fairlead_gateway.calls.path.context import CallContext
from fairlead_gateway.calls.questions.input_required import Bridge
from fairlead_gateway.calls.questions.message_relay import CANCELLED, MessageRelay, cancelled_id, supports_request
from fairlead_gateway.calls.translation.errors import ANSWER_ERRORS
from fairlead_gateway.core.client_peer import AnswerServer, ClientPeer
from fairlead_gateway.core.identity import ANONYMOUS, Identity
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.upstream_request import UpstreamRequest
from fairlead_gateway.reports.outcomes import outcome_of_result
from fairlead_mcp import jsonrpc, url_elicitation
from fairlead_mcp.errors import Timeout
from fairlead_mcp.messages import Message, ResultMembers

MAX_QUESTIONS: Final = 64
"""Limit on the unanswered questions of one call."""


class BridgedCall(AttemptOwner):
    """One call at a legacy server, continued over several requests of its modern client.

    The client's first request starts the call; each request is answered with the server's questions or with the
    outcome. `call_key` (principal, server, method, name) has to be equal in all these requests: a request with another
    key cannot continue the call.
    """

    __slots__ = (
        "_agent",
        "_bridge",
        "_control",
        "_flushing",
        "_identity",
        "_next_number",
        "_progress_token",
        "_relay",
        "attempts",
        "call_key",
        "error",
        "questions",
        "result",
    )

    def __init__(
        self,
        context: CallContext,
        route: Route,
        agent: str,
        call_key: object,
        started: float,
        client: ClientPeer,
    ) -> None:
        self.attempts = Attempts(self, context, route, started)
        self.attempts.client = client
        self.call_key = call_key
        self.questions: dict[str, tuple[Message, AnswerServer]] = {}
        """Unanswered questions of the server, by their key in `inputRequests`."""
        self.result: Raw | None = None
        """Result of the call, stored until the client's next request."""
        self.error: Exception | None = None
        """Error of the call, stored until the client's next request."""
        self._agent = agent
        self._identity = ANONYMOUS
        """Caller of the client's latest request, whose token is the newest."""
        self._bridge: Bridge[BridgedCall] = context.bridge
        self._control: CallControl | None = None
        """Client's request that is to be answered; None until the client sends its next request."""
        self._relay: MessageRelay | None = None
        """Relay to the client of `_control`."""
        self._progress_token = b""
        """Progress token sent to the server; empty before the call was sent."""
        self._next_number = itertools.count(1).__next__
        """Number of the next question, which makes its key unique."""
        self._flushing = False
        """Whether `_flush` is scheduled."""

    @property
    def agent(self) -> str:
        return self._agent

    @property
    def identity(self) -> Identity:
        return self._identity

    @property
    def deadline(self) -> float:
        return self.attempts.deadline

    @property
    def done(self) -> bool:
        return self.attempts.done

    @property
    def size(self) -> int:
        """Bytes stored for the client: the result of a call that has ended, otherwise the params of its questions."""
        if self.done:
            return 0 if self.result is None else len(self.result)
        return sum(len(message.params) for message, _ in self.questions.values() if isinstance(message.params, Raw))

    def attach(self, control: CallControl, relay: MessageRelay) -> None:
        """Answer a request of the client, by its `control`, with the outcome or with questions, once there are any.

        The first request starts the call.
        """
        self._control = control
        call = control.call
        self._identity = call.identity
        credentials = self.attempts.route.binding.credentials
        if credentials is not None:
            credentials.note(call.identity)
        self._relay = relay
        if not self._progress_token:
            self.attempts.span = call.attempts.span
            self.attempts.begin()
        elif self.done:
            self._deliver()
        else:
            relay.follow(self._progress_token)
            self._flush_soon()

    def cancel(self) -> None:
        """Cancel the call at the server; no-op once the call has ended."""
        if not self.done:
            self.attempts.stop()
            self._end()

    def take_answers(self, responses: dict[str, Raw]) -> None:
        """Send the client's answers to the server. Questions without an answer are part of the next result again."""
        for key, response in responses.items():
            question = self.questions.pop(key, None)
            if question is not None:
                message, answer = question
                answer(jsonrpc.result(_id_of(message), response))

    def as_result(self, state: str) -> bytes:
        """The questions as an `input_required` result with `state` as its `requestState`."""
        questions = {key: _question(message) for key, (message, _) in self.questions.items()}
        return jsonrpc.encode({"resultType": "input_required", "inputRequests": questions, "requestState": state})

    # AttemptOwner

    def build_request(self, modern: bool) -> UpstreamRequest | None:
        assert self._control is not None
        call = self._control.call
        attempts = self.attempts
        outgoing = upstream_request(call, attempts, call.request.params, attempts.client, modern=modern)
        self._progress_token = outgoing.id
        if self._relay is not None:
            self._relay.follow(outgoing.id)
        return outgoing

    def relay(self, message: Message) -> bool:
        if message.method == CANCELLED and isinstance(message.params, Raw):
            cancelled_request = cancelled_id(message.params)
            self.questions = {
                key: question
                for key, question in self.questions.items()
                if bytes(_id_of(question[0])) != cancelled_request
            }
            return False
        return self._relay is not None and self._relay.notify(message)

    def ask(self, message: Message, answer: AnswerServer) -> None:
        """Store a question of the server for the next `input_required` result."""
        if not supports_request(self.attempts.client, message) or len(self.questions) >= MAX_QUESTIONS:
            client = self.attempts.client
            answer(url_elicitation.refuse(message, None if client is None else client.features))
            return
        self.attempts.idempotent = False  # a retry would ask the client the same question twice
        self.questions[f"q{self._next_number()}"] = message, answer
        self._bridge.enforce_bounds()
        self._flush_soon()

    @property
    def congested(self) -> bool:
        return self._control is not None and self._control.congested

    def when_writable(self, resume: Callable[[], None]) -> None:
        if self._control is None:
            resume()
        else:
            self._control.when_writable(resume)

    def accept_result(self, result: Raw, members: ResultMembers | None) -> None:
        self.attempts.measure(outcome_of_result(result))
        self.result = result
        self._end()

    def give_up(self, error: Exception) -> None:
        self.error = error
        self._end()

    # Internals

    def _flush_soon(self) -> None:
        """Answer with the questions in the next iteration of the event loop, so that several share one result."""
        if self.questions and not self._flushing and self._control is not None:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        control = self._control
        if control is None or self.done or not self.questions:
            return
        self._control = self._relay = None
        try:
            control.answer_with_questions(self._bridge.park(self))
        except ANSWER_ERRORS as error:
            control.reject_answer(error)
            self.cancel()  # the client did not receive the `requestState` that continues the call

    def _end(self) -> None:
        attempts = self.attempts
        if attempts.done:
            return
        attempts.release()
        if attempts.client is not None:
            self._bridge.release(attempts.client)
        self._bridge.enforce_bounds()
        if self._control is not None:
            self._deliver()

    def _deliver(self) -> None:
        control, self._control, self._relay = self._control, None, None
        if control is None or control.call.done:
            return
        if self.error is not None:
            control.give_up(self.error)
        elif self.result is not None:
            try:
                control.finish(self.result, from_modern=False)
            except ANSWER_ERRORS as error:
                control.reject_answer(error)
        else:
            control.give_up(
                Timeout("the call was abandoned: the client did not answer the tool's question in time", sent=True)
            )


def _id_of(message: Message) -> Raw:
    assert isinstance(message.id, Raw)
    return message.id


def _question(message: Message) -> dict[str, object]:
    """The server's request as a value of `inputRequests`, for a client of 2026-07-28."""
    question: dict[str, object] = {"method": message.method}
    elicitation = url_elicitation.read_request(message.method, message.params)
    if elicitation is not None:
        question["params"] = Raw(elicitation.modern_params())
    elif message.params is not UNSET:
        question["params"] = message.params
    return question
