"""Media types that more than one API of models has. Pure module."""

from __future__ import annotations

from typing import Final

EVENT_STREAM: Final = "text/event-stream"
JSON: Final = "application/json"
