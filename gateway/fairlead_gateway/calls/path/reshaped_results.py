"""Reshapes results for clients: errors use the clients' argument names, and only the selected part remains."""

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
    if call.part_is_selected:
        return result
    reshaped = shape.reshape_small(result)
    selection = shape.selection
    if reshaped is not None or selection is None:
        return reshaped
    keeper = call.context.keeper
    if keeper is None or keeper.selector is None:
        return Raw(mark(bytes(result), "this gateway cannot select a part of large results"))
    work = keeper.selector.select(selection, bytes(result))
    control.continue_after(work, partial(_finish, control, from_modern=from_modern), "select a part of a result")
    return None


def _finish(control: CallControl, selected_part: bytes, *, from_modern: bool) -> None:
    control.call.part_is_selected = True
    control.finish(Raw(selected_part), from_modern=from_modern)
