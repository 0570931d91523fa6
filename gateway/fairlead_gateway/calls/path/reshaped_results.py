"""Reshapes the result of a call for clients: errors use the clients' argument names, and only the selected part is
kept.
"""

from __future__ import annotations

from functools import partial

from msgspec import Raw

from fairlead_gateway.calls.path.client_call import ClientCall
from fairlead_gateway.core.call_shape import CallShape
from fairlead_tools.selection import mark


def reshape(call: ClientCall, shape: CallShape, result: Raw, *, from_modern: bool) -> Raw | None:
    """Reshape a result. Returns the same object if nothing changes. Returns None if the part of a large result is
    selected in another process; `call.finish` is called with it later.
    """
    if call.selected:
        return result
    shown = shape.show_small(result)
    selection = shape.selection
    if shown is not None or selection is None:
        return shown
    keeper = call.context.keeper
    if keeper is None or keeper.selector is None:
        return Raw(mark(bytes(result), "this gateway cannot select a part of large results"))
    work = keeper.selector.select(selection, bytes(result))
    call.continue_after(work, partial(_finish, call, from_modern=from_modern), "select a part of a result")
    return None


def _finish(call: ClientCall, selected: bytes, *, from_modern: bool) -> None:
    call.selected = True
    call.finish(Raw(selected), from_modern=from_modern)
