"""A client's request to a server, as the stages of its path see it; `calls.path.call` executes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from msgspec import Raw

from fairlead_gateway.calls.path.attempts import AttemptOwner, Attempts
from fairlead_gateway.calls.path.context import CallContext
from fairlead_gateway.calls.questions.message_relay import MessageRelay
from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.request import Exchange, McpRequest
from fairlead_gateway.core.route import Route
from fairlead_mcp.messages import ResultMembers
from fairlead_tools.refusal import Refusal

NOT_REPEATED: Final = -1
"""`ClientCall.repeats` of a call that does not repeat another one."""
T = TypeVar("T")


class ClientCall(AttemptOwner):
    """A client's request to a server: its route, the values that checks before sending have set, and its `attempts`."""

    __slots__ = (
        "attempts",
        "context",
        "continued",
        "denied",
        "dialogs",
        "exchange",
        "level",
        "limit",
        "param_lines",
        "refusal",
        "repeats",
        "request",
        "rounds",
        "route",
        "selected",
        "waited",
    )

    def __init__(
        self, context: CallContext, exchange: Exchange, route: Route, request: McpRequest, param_lines: bytes
    ) -> None:
        self.context = context
        self.exchange = exchange
        self.route = route
        self.request = request
        self.attempts = Attempts(self, context, route, context.clock())
        self.param_lines = param_lines
        """`Mcp-Param-*` headers, as lines of an HTTP head."""
        self.level: str | None = None
        """Lowest severity of log messages that the client asked for; None for no log messages."""
        self.continued = False
        """Whether the request continues a call that was answered with `input_required` (SEP-2322)."""
        self.rounds = 0
        """Number of times that a modern server has asked this legacy client for input (`input_required`)."""
        self.repeats = NOT_REPEATED
        """How often a repeated call was sent again because the user had not finished a page; NOT_REPEATED if the client
        does not repeat a call.
        """
        self.dialogs = 0
        """How often a modern client was asked to open pages before it repeated the call."""
        self.selected = False
        """Whether the part of the result that clients get is selected."""
        self.waited = False
        """Whether the call has waited for its user to sign in."""
        self.refusal = ""
        """Message of the gateway's refusal, as sent to the client; empty if the call was not refused."""
        self.denied = ""
        """Name of the policy that forbids the arguments; empty if none does."""
        self.limit = ""
        """Name of the limit on calls that refused the call; empty if none did."""

    @property
    def identity(self) -> Identity:
        return self.exchange.identity

    @property
    def done(self) -> bool:
        """Whether the call was answered or abandoned."""
        return self.attempts.done

    @property
    def own_session(self) -> bytes | None:
        """Id of the client's session, if its signature was verified; an unverified id may belong to another client."""
        request = self.request
        return request.session if request.opened is not None else None

    def capabilities(self) -> bytes | None:
        """Client capabilities as normalized raw JSON, or None."""
        raise NotImplementedError

    def send(self) -> None:
        """Send the call to its server, or send it again. Raises nothing."""
        raise NotImplementedError

    def continue_after(self, work: Coroutine[Any, Any, T], then: Callable[[T], None], name: str) -> None:
        """Run the coroutine in a task, then call `then` with its value."""
        task = asyncio.get_running_loop().create_task(self._await_then(work, then), name=name)
        self.attempts.pending = task
        self.context.keep_task(task)

    async def _await_then(self, work: Coroutine[Any, Any, T], then: Callable[[T], None]) -> None:
        try:
            outcome = await work
            self.attempts.pending = None
            then(outcome)
        except asyncio.CancelledError:
            self.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # the edge of the task; `give_up` logs all but errors of the wire
            self.reject_answer(error)

    def cancel(self) -> None:
        """Cancel the call; no-op once it is answered."""
        raise NotImplementedError

    def finish(self, result: Raw, members: ResultMembers | None = None, *, from_modern: bool) -> None:
        """Answer the client with a server's result. Raises ANSWER_ERRORS if the result is invalid.

        `members` are the result's parsed members, or None; `from_modern` tells the era of the server.
        """
        raise NotImplementedError

    def answer_with_questions(self, questions: bytes, error_type: str = "") -> None:
        """Answer a modern client with `questions`, an `input_required` result; `error_type` is the code that is
        recorded. Raises ANSWER_ERRORS.
        """
        raise NotImplementedError

    def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal: a tool call gets it as a result, which the model reads, other requests as an error."""
        raise NotImplementedError

    def open_relay(self) -> MessageRelay:
        """The call's message relay, created on first use: most servers send no messages during a call."""
        raise NotImplementedError

    def answer_with_error(self, error_type: str, rejection: Rejection) -> None:
        """Answer with a JSON-RPC error; `error_type` is the code that is recorded."""
        raise NotImplementedError

    def reject_answer(self, error: Exception) -> None:
        """Fail the call because the server's answer is invalid."""
        raise NotImplementedError
