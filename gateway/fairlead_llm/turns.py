"""Messages in which a model called tools of ours beside the caller's: what ours gave waits until the caller comes back
with what its own gave.

The caller sees its own calls alone. It repeats their ids in its next request, and by the first of them the whole
message is found again, in the store of kept results: bound to the principal, for a time, in Redis where replicas share
it. Where it is gone, the caller's message stands as it came, and the model asks anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.context_recorder import ContextRecorder
from fairlead_gateway.context.store import ContextUnavailable
from fairlead_gateway.core.identity import Identity

MOST_LOOKED_UP: Final = 64
"""Messages of one request that are looked up, the last ones."""
_PREFIX: Final = "chat turn "
_ENTRY: Final = "turn"
log = logging.getLogger(__name__)


class _Turn(msgspec.Struct, frozen=True, array_like=True):
    message: bytes
    results: list[bytes]


class _Id(msgspec.Struct):
    id: str = ""


class _CallsOfMessage(msgspec.Struct):
    role: str = ""
    tool_calls: list[_Id] | None = None


_encode: Final = msgspec.msgpack.Encoder().encode
_turn: Final = msgspec.msgpack.Decoder(_Turn).decode
_message: Final = msgspec.json.Decoder(_CallsOfMessage).decode


class OpenTurns:
    """Keeps and restores such messages."""

    def __init__(self, recorder: ContextRecorder) -> None:
        self._recorder = recorder

    async def keep(self, identity: Identity, ids: Sequence[str], message: bytes, results: Sequence[bytes]) -> bool:
        """Keep a message under the ids of its calls that the caller runs; whether it is kept."""
        store = self._recorder.store
        if store is None or not ids or not ids[0]:
            return False
        session = _PREFIX + ids[0]
        try:
            account = self._recorder.account(identity, session)
            await store.append(account, session, _ENTRY, _encode(_Turn(message, [*results])))
        except ContextUnavailable as error:
            log.warning("The results of a mixed turn are not kept, and the model will ask for them again: %s", error)
            return False
        return True

    async def restored(self, identity: Identity, messages: Sequence[bytes | Raw]) -> list[bytes | Raw]:
        """The messages, those that are kept in place of what the caller saw of them, with our results behind."""
        called = [place for place, raw in enumerate(messages) if b'"tool_calls"' in bytes(raw)][-MOST_LOOKED_UP:]
        if not called or self._recorder.store is None:
            return list(messages)
        found = dict(
            zip(called, await asyncio.gather(*(self._found(identity, messages[n]) for n in called)), strict=True)
        )
        restored: list[bytes | Raw] = []
        for place, raw in enumerate(messages):
            turn = found.get(place)
            restored.extend([raw] if turn is None else [turn.message, *turn.results])
        return restored

    async def _found(self, identity: Identity, raw: bytes | Raw) -> _Turn | None:
        try:
            message = _message(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if message.role != "assistant" or not message.tool_calls or not message.tool_calls[0].id:
            return None
        session = _PREFIX + message.tool_calls[0].id
        store = self._recorder.store
        assert store is not None
        try:
            entries = await store.entries(self._recorder.account(identity, session), session)
            return _turn(entries[-1]) if entries else None
        except (ContextUnavailable, msgspec.MsgspecError):
            return None
