"""Operations of the interpreter that a piece of work takes: a measure that no load of the machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def operations(work: Callable[[], object]) -> int:
    """Bytecode instructions that the work runs, those of built-in functions apart."""
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # else CPython 3.12 tells none, whatever trace() says
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
