"""Chooses the latency tier of a speech session: by the user's words, with the rules of `POST /v1/tier`, or by name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from fairlead_gateway.conversation.turn import Choice, ConversationState, Turn
from fairlead_gateway.policy.tiers import by_speed
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog, limit_tier
from fairlead_offers.offer.offers import AUTO
from fairlead_offers.services import ToolServices

MAX_TEXT: Final = 16 << 10
"""Maximum number of characters of a turn to which the rules are applied. Of a longer turn, only the last characters
count."""
log = logging.getLogger(__name__)


def is_slow(catalog: SubjectCatalog, tier: str | None, from_tier: str | None) -> bool:
    """Whether a tier is at least as slow as `from_tier`, or, if `from_tier` is None, slower than the default tier."""
    tier_names = [entry.name for entry in by_speed(catalog.snapshot.rules.tiers)]
    if tier not in tier_names:
        return False
    if from_tier is not None:
        return from_tier in tier_names and tier_names.index(tier) >= tier_names.index(from_tier)
    default_tier = catalog.default_tier
    return tier_names.index(tier) > (tier_names.index(default_tier) if default_tier in tier_names else 0)


def words_may_decide(catalog: SubjectCatalog, named_tier: str | None, from_tier: str | None) -> bool:
    """Whether the words of a turn may select a slow tier. `named_tier`: tier that the client chose by name; then,
    words do not select a tier.
    """
    if named_tier is not None or not any(is_slow(catalog, tier, from_tier) for tier in catalog.tiers):
        return False
    selections = [tier.selection for tier in catalog.snapshot.rules.tiers]
    return any(selection.keywords or selection.commands or selection.shipped_words for selection in selections)


class UnknownTier(LookupError):
    """Name of a tier that the principal does not have. The message lists the principal's tiers."""


class SpokenTier:
    """Tier of one session. Rules choose it by the text of each turn, unless the client chose a tier by name."""

    def __init__(self, tools: ToolServices, get_catalog: Callable[[], SubjectCatalog], tier: str | None) -> None:
        """`tier`: name of a tier, AUTO for the choice by rules, or None, which means AUTO."""
        self._tools = tools
        self._catalog = get_catalog
        self._state = ConversationState()
        self._turn_id: str | None = None
        """Id of the turn in progress."""
        self._turn_count = 0
        """Number of turns so far."""
        self._text = ""
        """Text of the turn in progress."""
        self._queue_depth = 0
        self.named = None if tier in (None, AUTO) else tier
        """Tier that the client chose by name; None: the rules choose."""
        self.rule = ""
        """Name of the rule that chose the current tier."""
        self.current = self.named
        """Current tier; None stands for the principal's default tier."""

    def select(self, tier: str | None) -> None:
        """Choose a tier by name. AUTO or None: let the rules choose again. Raises UnknownTier."""
        if tier is None or tier == AUTO:
            self.named = None
            return
        tiers = self._catalog().tiers
        if tier not in tiers:
            raise UnknownTier(f"you have no tier {tier[:64]!r}; your tiers: {', '.join(tiers) or 'none'}")
        self.named = self.current = tier
        self.rule = "named"

    def set_queue_depth(self, depth: int) -> None:
        """Set the number of speakers that wait for an answer, which rules may take into account."""
        self._queue_depth = depth

    async def choose_first(self) -> None:
        """Choose the tier of the first turn, before the user has spoken."""
        if self.named is None:
            await self._apply_rules(Turn(text="", final=False, number=0, queue_depth=self._queue_depth))

    async def choose(self, turn: str, text: str, *, final: bool, continues: bool = False) -> bool:
        """Choose the tier by the text of a turn. Returns whether the tier changed. `turn`: id of the turn. `final`:
        whether the text completes the turn. `continues`: whether the text is appended to the previous text of the turn;
        otherwise it replaces that text.
        """
        previous_tier = self.current
        is_new_turn = turn != self._turn_id
        self._turn_id = turn
        self._turn_count += is_new_turn
        self._text = ((self._text if continues and not is_new_turn else "") + text)[-MAX_TEXT:]
        if self.named is None:
            await self._apply_rules(
                Turn(text=self._text, final=final, number=self._turn_count - 1, queue_depth=self._queue_depth)
            )
        return self.current != previous_tier

    async def _apply_rules(self, turn: Turn) -> None:
        def apply() -> tuple[Choice, ConversationState] | None:
            catalog = self._catalog()
            chooser = self._tools.choosers.of(catalog.snapshot.rules)
            if chooser is None or not catalog.tiers:
                return None
            choice, state = chooser.choose(turn, self._state, self._tools.choosers.clock())
            return limit_tier(choice, catalog), state

        result = await self._tools.work.do(apply)
        if result is not None and self.named is None:
            choice, self._state = result
            self.current = choice.tier
            self.rule = choice.rule


class UserText(msgspec.Struct):
    """Text of the user in one turn: a written message, or a piece of a transcript."""

    turn: str
    """Id of the turn."""
    text: str
    final: bool
    """Whether the text completes the turn."""
    continues: bool
    """Whether the text is appended to the previous text of the turn; otherwise it replaces that text."""


class UserTexts:
    """Queue of the user's texts, with a task that chooses the tier by each text. Its owner calls `aclose` at the
    end.
    """

    def __init__(self, choose: Callable[[UserText], Awaitable[None]]) -> None:
        self._choose = choose
        self._queued_texts: list[UserText] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, text: UserText) -> None:
        """Queue a text. Pieces of one turn that are waiting are joined."""
        last_text = self._queued_texts[-1] if self._queued_texts else None
        if last_text is not None and last_text.turn == text.turn and not last_text.final:
            last_text.text = last_text.text + text.text if text.continues else text.text
            last_text.final = text.final
            last_text.continues = last_text.continues and text.continues
        else:
            self._queued_texts.append(text)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._choose_tiers(), name="tier of a speech session")

    async def wait(self) -> None:
        """Wait until the tier has been chosen by all texts in the queue."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def aclose(self) -> None:
        """Cancel the task, and drop the texts in the queue."""
        self._queued_texts.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _choose_tiers(self) -> None:
        while self._queued_texts:
            text = self._queued_texts.pop(0)
            try:
                await self._choose(text)
            except Exception:
                log.exception("A speech session keeps its tier, because the rules of tiers failed")
