"""Counts of what was refused, or gave way, because its agent had its share or because nothing was left. Pure module."""

from __future__ import annotations

from typing import Literal, get_args

Bound = Literal["agent", "gateway"]
"""Bound that was reached: the share of one agent, or that of all together."""
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
"""Kind of thing that agents hold."""


class ShareCounts:
    """Counts of one gateway since its start, by kind and by what happened: refused at the bound `agent` or `gateway`,
    or dropped in favor of another agent (`gave_way`). Each begins at 0, so that rates see its first increase.
    """

    def __init__(self) -> None:
        kinds: tuple[Kind, ...] = get_args(Kind)
        outcomes: tuple[Outcome, ...] = ("agent", "gateway", "gave_way")
        self.outcomes: dict[tuple[Kind, Outcome], int] = {(kind, each): 0 for kind in kinds for each in outcomes}

    def count(self, kind: Kind, outcome: Outcome, times: int = 1) -> None:
        """Count refusals, or what gave way."""
        self.outcomes[kind, outcome] += times
