"""Mixed turns: messages in which a model called tools of ours beside the caller's.

The caller sees its own calls alone, and comes back with their results. Results of ours wait for it in the store of
kept results: bound to the principal, for a time, in Redis where replicas share it. A turn is found by the conversation
in front of it and the calls that the caller saw. Where it is gone, the caller's message stands as it came, and the
model asks anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.context_recorder import ContextRecorder
from fairlead_gateway.context.store import ContextUnavailable
from fairlead_gateway.core.identity import Identity
from fairlead_llm.wire import CallPlace, KeptTurn, ShownCall, WireFormat

MOST_LOOKED_UP: Final = 64
"""Messages of one request that are looked up, the last ones."""
UNGUESSABLE: Final = 16
"""Characters of an id at least, where nothing but ids and the conversation tells one anonymous caller from another."""
_ENTRY: Final = "turn"
_NOT_SAID: Final = frozenset({"system", "developer", "tool"})
"""Roles that formats have in other places, and whose texts do not tell conversations apart."""
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(KeptTurn).decode
log = logging.getLogger(__name__)


class OpenTurns:
    """Keeps mixed turns, and restores them."""

    def __init__(self, recorder: ContextRecorder) -> None:
        self._recorder = recorder

    async def keep(
        self,
        identity: Identity,
        wire: WireFormat,
        conversation: Sequence[bytes | Raw],
        shown: Sequence[ShownCall],
        turn: KeptTurn,
    ) -> None:
        """Keep a turn: `shown` are those of its calls that the caller sees, `conversation` the messages of the caller's
        request.
        """
        store = self._recorder.store
        if store is None or not _tells_apart(identity, shown):
            return
        session = _session(wire, conversation, shown)
        try:
            account = self._recorder.account(identity, session)
            await store.append(account, session, _ENTRY, _encode(turn))
        except ContextUnavailable as error:
            log.warning("The results of a mixed turn are not kept, and the model will ask for them again: %s", error)

    async def restored(
        self, identity: Identity, wire: WireFormat, messages: Sequence[bytes | Raw]
    ) -> Sequence[bytes | Raw]:
        """The messages, each that a turn is kept for replaced by the whole turn."""
        places = wire.places(messages)[-MOST_LOOKED_UP:] if self._recorder.store is not None else ()
        if not places:
            return messages
        found = await asyncio.gather(*(self._found(identity, wire, messages, place) for place in places))
        turns = {place.start: turn for place, turn in zip(places, found, strict=True) if turn is not None}
        return wire.restored(messages, turns) if turns else messages

    async def _found(
        self, identity: Identity, wire: WireFormat, messages: Sequence[bytes | Raw], place: CallPlace
    ) -> KeptTurn | None:
        store = self._recorder.store
        if store is None or not _tells_apart(identity, place.calls):
            return None
        session = _session(wire, messages[: place.start], place.calls)
        try:
            entries = await store.entries(self._recorder.account(identity, session), session)
            turn = _decode(entries[-1]) if entries else None
        except (ContextUnavailable, msgspec.MsgspecError):
            return None
        return turn if turn is not None and turn.format == wire.name else None


def _tells_apart(identity: Identity, shown: Sequence[ShownCall]) -> bool:
    return bool(identity.owner) or all(len(call.id) >= UNGUESSABLE for call in shown)


def _session(wire: WireFormat, conversation: Sequence[bytes | Raw], shown: Sequence[ShownCall]) -> str:
    """Name of a turn: a digest of what the caller has of it, in any wire format."""
    said = [pair for pair in map(wire.said, conversation) if pair[0] not in _NOT_SAID and pair[1]]
    calls = [(call.id, call.name) for call in shown]
    text = json.dumps([said, calls], default=str)
    return f"turn {hashlib.blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=24).hexdigest()}"
