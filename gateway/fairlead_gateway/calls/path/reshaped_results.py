"""Reshapes the result of a call for clients: errors use the clients' argument names, and only the selected part is
kept.
"""

from __future__ import annotations

from functools import partial

from msgspec import Raw

from fairlead_gateway.calls.path.client_call import CallControl
from fairlead_gateway.core.call_shape import CallShape
from fairlead_tools.selection import mark


def reshape(control: CallControl, shape: CallShape, result: Raw, *, from_modern: bool) -> Raw | None:
    """Reshape a result. Returns the same object if nothing changes. Returns None if the part of a large result is
    selected in another process; `control.finish` is called with it later.
    """
    call = control.call
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
    control.continue_after(work, partial(_finish, control, from_modern=from_modern), "select a part of a result")
    return None


def _finish(control: CallControl, selected: bytes, *, from_modern: bool) -> None:
    control.call.selected = True
    control.finish(Raw(selected), from_modern=from_modern)
