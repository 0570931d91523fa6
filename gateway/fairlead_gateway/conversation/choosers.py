"""The compiled rules of choice, and the key that signs states."""

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
    """Compiles the rules of choice for each new rules document."""

    def __init__(self, key: bytes = b"", clock: Callable[[], float] = time.time) -> None:
        """`key` signs states; replicas share it. `clock`: seconds of the wall clock."""
        self.sealer = Sealer(key or secrets.token_bytes(32))
        self.clock = clock
        self._rules: Rules | None = None
        self._chooser: Chooser | None = None

    def of(self, rules: Rules) -> Chooser | None:
        """None where there is no tier to choose from."""
        if not rules.tiers:
            return None
        if self._chooser is None or self._rules is None or self._rules.tiers != rules.tiers:
            # only here: see `turn`
            from fairlead_gateway.conversation.choose import Chooser

            self._chooser = Chooser(rules.tiers)  # 0.3 s for the shipped words: not again where only a policy changed
        self._rules = rules  # the same object next time, which compares at once
        return self._chooser
