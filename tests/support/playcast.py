"""All engines over which a session is played."""

from __future__ import annotations

from liveworld import NEW, OLD
from playcascaded import CascadedPlay
from playengines import PlayEngine
from playlive import LivePlay
from playrealtime import RealtimePlay


def engines() -> list[PlayEngine]:
    """All engines, created for each test."""
    return [
        RealtimePlay(),
        LivePlay("Gemini 3.8 Live", NEW, hears_first=True),
        LivePlay("Gemini 2.5 Live", OLD, hears_first=False),
        CascadedPlay(),
    ]
