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
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.context_recorder import ContextRecorder
from fairlead_gateway.context.store import ContextUnavailable
from fairlead_gateway.core.identity import Identity
from fairlead_llm.chat.calls import calls_of, name_of

MOST_LOOKED_UP: Final = 64
"""Messages of one request that are looked up, the last ones."""
UNGUESSABLE: Final = 16
"""Characters of an id at least, where nothing but ids and the conversation tells one anonymous caller from another."""
_ENTRY: Final = "turn"
_encode: Final = msgspec.msgpack.Encoder().encode
_any: Final = msgspec.json.Decoder().decode
log = logging.getLogger(__name__)


class _Turn(msgspec.Struct, frozen=True, array_like=True):
    before: list[bytes]
    """Messages of earlier rounds, which the caller has not seen, and the message itself."""
    results: list[bytes]


_turn: Final = msgspec.msgpack.Decoder(_Turn).decode


class OpenTurns:
    """Keeps mixed turns, and restores them."""

    def __init__(self, recorder: ContextRecorder) -> None:
        self._recorder = recorder

    async def keep(
        self,
        identity: Identity,
        conversation: Sequence[bytes | Raw],
        shown: Sequence[Mapping[str, Any]],
        before: Sequence[bytes],
        results: Sequence[bytes],
    ) -> None:
        """Keep a turn: `before` are its messages up to the one with the calls, `shown` those of its calls that the
        caller sees, `conversation` the messages of the caller's request.
        """
        store = self._recorder.store
        if store is None or not self._tells_apart(identity, shown):
            return
        session = _session(_said(conversation), shown)
        try:
            account = self._recorder.account(identity, session)
            await store.append(account, session, _ENTRY, _encode(_Turn([*before], [*results])))
        except ContextUnavailable as error:
            log.warning("The results of a mixed turn are not kept, and the model will ask for them again: %s", error)

    async def restored(self, identity: Identity, messages: Sequence[bytes | Raw]) -> list[bytes | Raw]:
        """The messages, each that a turn is kept for replaced by the whole turn."""
        called = [place for place, raw in enumerate(messages) if b'"tool_calls"' in bytes(raw)][-MOST_LOOKED_UP:]
        if not called or self._recorder.store is None:
            return list(messages)
        said = _said(messages)
        turns = await asyncio.gather(*(self._found(identity, said, place) for place in called))
        found = dict(zip(called, turns, strict=True))
        restored: list[bytes | Raw] = []
        behind: list[bytes] = []
        for place, raw in enumerate(messages):
            if behind and said[place].get("role") != "tool":
                restored += behind
                behind = []
            turn = found.get(place)
            if turn is None:
                restored.append(raw)
                continue
            answers = [each for each in turn.results if _any(each).get("role") == "tool"]
            behind = [each for each in turn.results if each not in answers]  # files: behind all results
            restored += [*turn.before, *answers]
        return restored + behind

    def _tells_apart(self, identity: Identity, shown: Sequence[Mapping[str, Any]]) -> bool:
        return bool(identity.owner) or all(len(str(call.get("id", ""))) >= UNGUESSABLE for call in shown)

    async def _found(self, identity: Identity, said: Sequence[Mapping[str, Any]], place: int) -> _Turn | None:
        shown = calls_of(said[place])
        store = self._recorder.store
        if said[place].get("role") != "assistant" or not shown or store is None:
            return None
        if not self._tells_apart(identity, shown):
            return None
        session = _session(said[:place], shown)
        try:
            entries = await store.entries(self._recorder.account(identity, session), session)
            return _turn(entries[-1]) if entries else None
        except (ContextUnavailable, msgspec.MsgspecError):
            return None


def _said(messages: Sequence[bytes | Raw]) -> list[dict[str, Any]]:
    """Messages, decoded; an empty one for what is none."""
    said = []
    for raw in messages:
        try:
            message = _any(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            message = None
        said.append(message if isinstance(message, dict) else {})
    return said


def _session(conversation: Sequence[Mapping[str, Any]], shown: Sequence[Mapping[str, Any]]) -> str:
    """Name of a turn: a digest of what the caller has of it. Clients write JSON anew, so no bytes are compared."""
    before = [(message.get("role"), message.get("content")) for message in conversation]
    calls = [(call.get("id"), name_of(call)) for call in shown]
    text = json.dumps([before, calls], sort_keys=True, default=str)
    return f"chat turn {hashlib.blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=24).hexdigest()}"
