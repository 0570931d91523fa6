"""Informs the board of `fairlead up` of the servers at which the terminal's user has to sign in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from fairlead_api.meta import ServerKey
from fairlead_cli.up.board import Board
from fairlead_gateway.core.identity import ANONYMOUS, Identity
from fairlead_gateway.identity.persons import person_of
from fairlead_gateway.identity.request_authentication import Identities
from fairlead_gateway.sign_in.required_sign_ins import RequiredSignIns

CHECK_SECONDS: Final = 0.5
"""Seconds between two checks. The state is polled, because another process may end an account."""
_ONLY_LOCAL: Final = "possible with --host 127.0.0.1, or as the holder of an API key (fairlead keys)"


def user_of(identities: Identities) -> Identity:
    """Identity of the terminal's user as a caller of the gateway."""
    return identities.recall(None) or ANONYMOUS


async def show_wanted_sign_ins(
    identities: Identities,
    required_sign_ins: RequiredSignIns,
    board: Board,
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Inform the board, until cancelled, of the servers at which the user has to sign in."""
    user = user_of(identities)
    no_person = _ONLY_LOCAL if identities.open and not person_of(user) else ""
    while True:
        servers: Collection[ServerKey] = await required_sign_ins.of(user)
        board.set_sign_ins(servers, no_person)
        await pause(CHECK_SECONDS)
