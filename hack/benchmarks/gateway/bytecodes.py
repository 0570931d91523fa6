"""Counts of the interpreter's work: bytecodes, and calls of functions in Python and in C.

Compiled code runs no bytecode. Numbers can be compared only within one release of Python: 3.11 has two bytecodes for a
call, later releases one.
"""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any


@dataclass(frozen=True)
class InterpreterWork:
    """`calls` counts new frames, and continuations of coroutines. `c_calls` counts calls from Python to C, without
    constructors. `bytecodes` are by function (`folder/file function`), without those that set up a frame.
    """

    calls: int
    c_calls: int
    bytecodes: dict[str, int]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Suspend garbage collection: it would count finalizers of unrelated objects."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def count_work(run: Callable[[], Awaitable[object]], harness: str) -> InterpreterWork:
    """Count what `run` does in this thread, without functions of the file `harness`. It is run twice: for calls, then
    for bytecodes.
    """
    counts = {"call": 0, "c_call": 0}

    def note_call(stack_frame: FrameType, event: str, arg: Any) -> None:
        # for a call into C, the frame is the caller's
        if event in counts and stack_frame.f_code.co_filename not in (harness, __file__):
            counts[event] += 1

    before = sys.getprofile()
    with _no_collection():
        sys.setprofile(note_call)
        try:
            await run()
        finally:
            sys.setprofile(before)
    by_code: dict[CodeType, int] = {}

    def note_bytecode(stack_frame: FrameType, event: str, arg: Any) -> Any:
        stack_frame.f_trace_opcodes = True
        stack_frame.f_trace_lines = False
        if event == "opcode":
            by_code[stack_frame.f_code] = by_code.get(stack_frame.f_code, 0) + 1
        return note_bytecode

    traced = sys.gettrace()
    here = inspect.currentframe()
    assert here is not None
    here.f_trace_opcodes = True  # otherwise Python 3.12 does not check for them yet
    with _no_collection():
        sys.settrace(note_bytecode)
        try:
            await run()
        finally:
            sys.settrace(traced)
    bytecodes: dict[str, int] = {}
    for code, number in by_code.items():
        if code.co_filename not in (harness, __file__):
            name = f"{'/'.join(Path(code.co_filename).parts[-2:])} {code.co_qualname}"
            bytecodes[name] = bytecodes.get(name, 0) + number
    return InterpreterWork(counts["call"], counts["c_call"], bytecodes)
