"""Choice of a latency tier by the texts of a conversation, for requests with the tier `auto`.

`POST /v1/tier` has the same rules. Each request of a model API has the whole conversation, so the gateway stores no
state of conversations: the rules evaluate the last turns again for each request, and every replica chooses the same
tier. The times of turns are not known, so rules that depend on time (a cooldown, a rapid exchange) have no effect.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw

from fairlead_formats.wire.protocol import WireFormat
from fairlead_gateway.conversation.turn import COMMAND_TURNS, Choice, ConversationState, Turn
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog, limit_tier
from fairlead_offers.services import ToolServices

if TYPE_CHECKING:
    from fairlead_gateway.conversation.choose import Chooser

AUTO: Final = "auto"
MAX_TEXT: Final = 16 << 10
"""Maximum number of characters of a turn that the rules read. Of a longer turn, they read the end."""
MAX_TURNS: Final = 4096
"""Maximum number of remembered turns; the least recently used turn is forgotten first."""
_SECONDS_BETWEEN_TURNS: Final = 1e6
"""Assumed seconds between two turns, so long that no rule about time applies."""
_IGNORED_ROLES: Final = frozenset({"system", "developer", "tool"})
"""Roles that digests ignore: formats place them differently, and conversations share their texts."""


class ChosenTier(msgspec.Struct, frozen=True):
    """Tier that the rules chose for a request."""

    name: str
    rule: str
    """Name of a rule in `conversation.choose`, or `policy`."""
    changed_in: bytes = b""
    """Digest of the conversation if this request adds a turn whose tier differs from the tier of the previous turn;
    otherwise empty.
    """


class TierChanges:
    """Turns in which conversations changed their tier, so that a repeated request is counted once."""

    def __init__(self) -> None:
        self._counted_turns: OrderedDict[tuple[str, bytes, str], None] = OrderedDict()

    def is_new(self, principal: str, choice: ChosenTier) -> bool:
        """Whether the choice changes the tier in a turn of the principal that was not seen before."""
        if not choice.changed_in:
            return False
        key = principal, choice.changed_in, choice.name
        is_new_turn = key not in self._counted_turns
        self._counted_turns[key] = None
        self._counted_turns.move_to_end(key)
        if len(self._counted_turns) > MAX_TURNS:
            self._counted_turns.popitem(last=False)
        return is_new_turn


def choose_tier(
    tools: ToolServices, catalog: SubjectCatalog, wire: WireFormat, messages: Sequence[bytes | Raw]
) -> ChosenTier | None:
    """The tier of a conversation; None if there are no tiers to choose from. Call it in the worker thread, because the
    first choice compiles the rules.
    """
    chooser = tools.choosers.of(catalog.snapshot.rules)
    if chooser is None or not catalog.tiers:
        return None
    texts = _last_texts(wire, messages, COMMAND_TURNS + 1)
    new_choice = limit_tier(_replay(chooser, texts[-COMMAND_TURNS:], len(texts)), catalog)
    adds_turn = len(texts) > 1 and wire.role_and_text(messages[-1]) == ("user", texts[-1])
    previous_choice = limit_tier(_replay(chooser, texts[:-1], len(texts) - 1), catalog) if adds_turn else new_choice
    if new_choice.tier == previous_choice.tier:
        return ChosenTier(new_choice.tier, new_choice.rule)
    return ChosenTier(
        new_choice.tier, new_choice.rule, ConversationDigest(wire).digest_up_to(messages, len(messages)).digest()
    )


def _last_texts(wire: WireFormat, messages: Sequence[bytes | Raw], count: int) -> list[str]:
    """The user's last `count` texts, in order."""
    texts: list[str] = []
    for message in reversed(messages):
        role, text = wire.role_and_text(message)
        if role == "user" and text:
            texts.append(text)
            if len(texts) == count:
                break
    return texts[::-1]


def _replay(chooser: Chooser, texts: Sequence[str], turns: int) -> Choice:
    """The choice for the last turn. `turns` is the number of that turn, from 1."""
    state = ConversationState()
    choice, _ = chooser.choose(Turn(), state, 0.0)
    for index, text in enumerate(texts):
        turn = Turn(text=text[-MAX_TEXT:], number=turns - len(texts) + index)
        choice, state = chooser.choose(turn, state, index * _SECONDS_BETWEEN_TURNS)
    return choice


class ConversationDigest:
    """Incremental digest of a conversation's roles and texts, which reads each message once."""

    def __init__(self, wire: WireFormat) -> None:
        self._wire = wire
        self._read_count = 0
        self._digest = hashlib.blake2b(digest_size=24)

    def digest_up_to(self, messages: Sequence[bytes | Raw], end: int) -> hashlib.blake2b:
        """The digest of the messages before `end`, which must not decrease from call to call."""
        for message in messages[self._read_count : end]:
            role, text = self._wire.role_and_text(message)
            if role not in _IGNORED_ROLES and text:
                self._digest.update(json.dumps([role, text]).encode())
        self._read_count = max(self._read_count, end)
        return self._digest.copy()
