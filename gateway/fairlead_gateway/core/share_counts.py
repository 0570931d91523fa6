"""Counters of requests and resources that were refused or dropped at a limit per agent or per gateway. Pure module."""

from __future__ import annotations

from typing import Literal, get_args

Bound = Literal["agent", "gateway"]
"""Limit that was reached: the limit of one agent, or the limit of the gateway."""
Outcome = Literal[Bound, "gave_way"]
Kind = Literal[
    "calls_awaiting_input",
    "connections",
    "event_streams",
    "log_levels",
    "model_requests",
    "resumable_streams",
    "server_sessions",
    "speech_sessions",
    "speech_setups",
    "start_waits",
    "streams",
    "watched_bytes",
    "work",
]
"""Kind of resource that is limited."""


class ShareCounts:
    """Counters of one gateway since its start, by kind of resource and outcome.

    Outcomes: refused at the limit of one `agent` or of the `gateway`, or dropped to make room for another agent
    (`gave_way`). Each counter begins at 0, so that rates include the first increase.
    """

    def __init__(self) -> None:
        kinds: tuple[Kind, ...] = get_args(Kind)
        outcomes: tuple[Outcome, ...] = ("agent", "gateway", "gave_way")
        self.outcomes: dict[tuple[Kind, Outcome], int] = {(kind, each): 0 for kind in kinds for each in outcomes}

    def count(self, kind: Kind, outcome: Outcome, times: int = 1) -> None:
        """Add `times` to a counter."""
        self.outcomes[kind, outcome] += times
