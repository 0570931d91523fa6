"""Tier of a spoken conversation: by the rules of `POST /v1/tier` over what the user says, or by command."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from fairlead_gateway.conversation.turn import Choice, ConversationState, Turn
from fairlead_gateway.policy.tiers import by_speed
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog, attainable
from fairlead_offers.offer.offers import AUTO
from fairlead_offers.services import ToolServices

MAX_TEXT: Final = 16 << 10
"""Characters of a turn that the rules read, from its end."""
log = logging.getLogger(__name__)


def is_slow(catalog: SubjectCatalog, tier: str | None, from_tier: str | None) -> bool:
    """Whether a tier is at least as slow as `from_tier`; None: slower than the default tier."""
    order = [each.name for each in by_speed(catalog.snapshot.rules.tiers)]
    if tier not in order:
        return False
    if from_tier is not None:
        return from_tier in order and order.index(tier) >= order.index(from_tier)
    default = catalog.default_tier
    return order.index(tier) > (order.index(default) if default in order else 0)


def decided_by_words(catalog: SubjectCatalog, named: str | None, from_tier: str | None) -> bool:
    """Whether the words of a turn may move it to a slow tier. `named`: tier that the client chose by name."""
    if named is not None or not any(is_slow(catalog, tier, from_tier) for tier in catalog.tiers):
        return False
    selections = [tier.selection for tier in catalog.snapshot.rules.tiers]
    return any(each.keywords or each.commands or each.shipped_words for each in selections)


class UnknownTier(LookupError):
    """The principal has no such tier; the message names those that it has."""


class SpokenTier:
    """Tier of one session: chosen by rules over the text of each turn, unless the client named one."""

    def __init__(self, tools: ToolServices, get_catalog: Callable[[], SubjectCatalog], wanted: str | None) -> None:
        """`wanted`: a tier, or AUTO; None: AUTO where the installation has tiers."""
        self._tools = tools
        self._catalog = get_catalog
        self._state = ConversationState()
        self._turn: str | None = None
        self._turns = 0
        self._text = ""
        self._queue_depth = 0
        self.named = None if wanted in (None, AUTO) else wanted
        """Tier that the client named; None: the rules choose."""
        self.rule = ""
        """Name of the rule that chose the tier."""
        self.current = self.named
        """Tier now; None: the principal's default."""

    def select(self, tier: str | None) -> None:
        """Name the tier from now on; AUTO or None: the rules choose again. Raises UnknownTier."""
        if tier is None or tier == AUTO:
            self.named = None
            return
        tiers = self._catalog().tiers
        if tier not in tiers:
            raise UnknownTier(f"there is no tier {tier[:64]!r}; there are {', '.join(tiers) or 'none'}")
        self.named = self.current = tier
        self.rule = "named"

    def set_queue_depth(self, depth: int) -> None:
        """Set the number of speakers that wait for an answer, which the rules read."""
        self._queue_depth = depth

    async def choose_first(self) -> None:
        """Choose the tier of the first turn, before the user has spoken."""
        if self.named is None:
            await self._apply_rules(Turn(text="", final=False, number=0, queue_depth=self._queue_depth))

    async def choose(self, turn: str, text: str, *, final: bool, continues: bool = False) -> bool:
        """Choose the tier by the text of a turn; True where it changed. `turn`: id of the turn. `continues`: the text
        follows the one before it, of the same turn.
        """
        before = self.current
        new_turn = turn != self._turn
        self._turn = turn
        self._turns += new_turn
        self._text = ((self._text if continues and not new_turn else "") + text)[-MAX_TEXT:]
        if self.named is None:
            await self._apply_rules(
                Turn(text=self._text, final=final, number=self._turns - 1, queue_depth=self._queue_depth)
            )
        return self.current != before

    async def _apply_rules(self, turn: Turn) -> None:
        def apply() -> tuple[Choice, ConversationState] | None:
            catalog = self._catalog()
            chooser = self._tools.choosers.of(catalog.snapshot.rules)
            if chooser is None or not catalog.tiers:
                return None
            choice, state = chooser.choose(turn, self._state, self._tools.choosers.clock())
            return attainable(choice, catalog), state

        applied = await self._tools.work.do(apply)
        if applied is not None and self.named is None:
            choice, self._state = applied
            self.current = choice.tier
            self.rule = choice.rule


class UserText(msgspec.Struct):
    """Text of the user in one turn: written, or a piece of a transcript."""

    turn: str
    """Id of the turn."""
    text: str
    final: bool
    continues: bool
    """Whether the text follows the one before it, of the same turn."""


class UserTexts:
    """Queue of texts by which a task of its own chooses the tier, one after the other. `aclose` it."""

    def __init__(self, choose: Callable[[UserText], Awaitable[None]]) -> None:
        self._choose = choose
        self._waiting: list[UserText] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, text: UserText) -> None:
        """Queue a text. Pieces of one turn that wait are joined."""
        last = self._waiting[-1] if self._waiting else None
        if last is not None and last.turn == text.turn and not last.final:
            last.text = last.text + text.text if text.continues else text.text
            last.final = text.final
            last.continues = last.continues and text.continues
        else:
            self._waiting.append(text)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._choose_tiers(), name="tier of a speech session")

    async def wait(self) -> None:
        """Wait until the queue is empty, and its last text is done."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def aclose(self) -> None:
        """Cancel the task, and drop the texts that wait."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _choose_tiers(self) -> None:
        while self._waiting:
            text = self._waiting.pop(0)
            try:
                await self._choose(text)
            except Exception:
                log.exception("The tier of a speech session could not be chosen")
