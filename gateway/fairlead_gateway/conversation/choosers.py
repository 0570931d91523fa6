"""Caches the `Chooser` of the current rules document, and signs conversation states."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from fairlead_api.documents.rules import Rules
from fairlead_gateway.conversation.token import Sealer

if TYPE_CHECKING:
    from fairlead_gateway.conversation.choose import Chooser


class Choosers:
    """Compiles a new `Chooser` when the tiers of the rules document change."""

    def __init__(self, key: bytes = b"", clock: Callable[[], float] = time.time) -> None:
        """`key` signs conversation states, and is shared by replicas. `clock` returns seconds since the epoch."""
        self.sealer = Sealer(key or secrets.token_bytes(32))
        self.clock = clock
        self._rules: Rules | None = None
        self._chooser: Chooser | None = None

    def of(self, rules: Rules) -> Chooser | None:
        """The chooser for a rules document; None if the document has no tiers."""
        if not rules.tiers:
            return None
        if self._chooser is None or self._rules is None or self._rules.tiers != rules.tiers:
            # imported here because most gateways never choose a tier, and RE2 takes 2 MB
            from fairlead_gateway.conversation.choose import Chooser

            self._chooser = Chooser(rules.tiers)  # takes 0.3 s, and is therefore not repeated if only policies changed
        self._rules = rules  # the next call usually has the same object, whose comparison takes no time
        return self._chooser
