"""Times and sizes within which speech sessions of every engine stay."""

from __future__ import annotations

from typing import Final

import msgspec

SESSION_SECONDS: Final = 3600
"""Length of a session of a cascaded engine, that of OpenAI's."""


class SpeechBounds(msgspec.Struct, frozen=True):
    """Bounds of each session of a gateway; times in seconds."""

    look_seconds: float = 1.0
    """Time between two looks for sides that do not read, and for the end of a drain."""
    stalled_seconds: float = 10.0
    """Time for which a side may read nothing; the other side is held up meanwhile."""
    session_seconds: float = SESSION_SECONDS
    """Time after which a session of a cascaded engine ends, as its client is told at the start."""
    response_seconds: float = 900.0
    """For one response of a cascaded engine as a whole, as servers that answer drop by drop are never idle. Nobody
    listens for so long: a long answer is said in five minutes.
    """
    routed_turns: int = 16
    """Turns that wait for it to be decided who answers them."""
    routed_bytes: int = 12 << 20
    """Audio of those."""
