"""Stores a model's turn that the client will continue with tool results, so that no tool call of the model runs twice.

If a message calls tools of both the gateway and the client, the turn is stored before the gateway's calls run, with
placeholders for results that may be lost. If the turn cannot be stored, the client receives the calls of its tools, and
the gateway does not run the calls of its own tools: after the client's results, the model decides about these again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fairlead_formats.messages.call import ModelCall
from fairlead_formats.registry import message_format
from fairlead_formats.wire.protocol import CallKey, StoredTurn
from fairlead_gateway.core.identity import Identity
from fairlead_llm.loop import RoundCalls, ToolLoop
from fairlead_llm.stored_turns import NOT_KEPT, TurnKeeping, TurnStore
from fairlead_offers.documents import encode

_RESULT_LOST: Final = (
    "The gateway ran this call, but its result was lost. The call may have had an effect: check before you repeat it."
)
_NOT_RUN: Final = "The call was not run in that turn. Repeat it if it is still needed."


class TurnKeeper:
    """Stores the turn of one request if the client does not receive all of it."""

    def __init__(self, loop: ToolLoop, turns: TurnStore, identity: Identity) -> None:
        self._loop = loop
        self._turns = turns
        self._identity = identity

    async def may_run_now(self, calls: RoundCalls, message: Sequence[bytes]) -> bool:
        """Whether the gateway's calls in a `message` run now. If the message also calls tools of the client, the
        gateway's calls run only if the turn can be stored; otherwise `turn_not_kept` is added to the losses.
        """
        loop = self._loop
        if not calls.gateway_calls or loop.tools_disabled:
            return False
        if not calls.client_calls:
            return True
        if await self._may_repeat(calls.gateway_calls):
            placeholders = _placeholders(loop, calls.gateway_calls, _RESULT_LOST)
            placeholders += _placeholders(loop, calls.dropped_calls, _NOT_RUN)
            if await self._keep(calls.client_calls, message, placeholders):
                return True
        loop.prepared_request.losses.add(NOT_KEPT)
        return False

    async def _may_repeat(self, calls: Sequence[ModelCall]) -> bool:
        """Whether losing the turn would do no harm, because its calls may be repeated."""
        keeping = self._loop.prepared_request.keeping
        return keeping is TurnKeeping.SURE or (keeping is TurnKeeping.LIKELY and await self._loop.all_repeatable(calls))

    async def keep(
        self, calls: RoundCalls, message: Sequence[bytes], results: Sequence[bytes], turn_key: CallKey | None
    ) -> None:
        """Store the turn if the client does not receive all of it. `message`: the turn's last message. `results`:
        results of the calls in `message` that the gateway ran. The turn is stored under the client's calls, or under
        `turn_key` if there are no such calls.
        """
        loop = self._loop
        keys = calls.client_calls or ([] if turn_key is None or calls.gateway_calls else [turn_key])
        if not keys or not (results or loop.earlier_messages):
            return
        if calls.client_calls and not loop.prepared_request.keeps_turns:
            loop.prepared_request.losses.add(NOT_KEPT)
            return
        if not results:  # providers refuse calls without results
            results = _placeholders(loop, calls.gateway_calls, _NOT_RUN)
        results = [*results, *_placeholders(loop, calls.dropped_calls, _NOT_RUN)]
        if not await self._keep(keys, message, results) and self._turns.enabled:
            loop.prepared_request.losses.add(NOT_KEPT)

    async def _keep(self, keys: Sequence[CallKey], message: Sequence[bytes], results: Sequence[bytes]) -> bool:
        prepared_request = self._loop.prepared_request
        turn = StoredTurn(prepared_request.wire.name, [*self._loop.earlier_messages, *message], [*results])
        return await self._turns.keep(self._identity, keys, turn)


def _placeholders(loop: ToolLoop, calls: Sequence[ModelCall], text: str) -> list[bytes]:
    """Messages with a text in place of each call's result."""
    if not calls:
        return []
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    result_messages = message_format(loop.prepared_request.wire.name).write_results([*calls], [result for _ in calls])
    return [encode(message) for message in result_messages.messages]
