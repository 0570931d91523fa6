"""Compiles documents in a separate process with limits on time and memory, so that a hostile document harms nothing
else.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from fairlead_mcp.limited_process import ProcessLimits, WorkFailed, run_limited
from fairlead_openapi.compiling.compile import CompileOptions, compile_document
from fairlead_openapi.compiling.reading import MAX_DOCUMENT_BYTES, DocumentRefused
from fairlead_openapi.compiling.report import CompiledDocument, CompiledTool

LIMITS: Final = ProcessLimits(memory=1 << 30, seconds=60, max_answer=64 << 20)
_LENGTH_BYTES: Final = 4
_DECODE_BATCH: Final = 50
"""Number of tools that are decoded before other tasks may run. Each tool has up to 320 KiB."""


class _CompilationOutcome(msgspec.Struct, frozen=True):
    """Answer of the process: the result, or why there is none."""

    compiled: CompiledDocument | None = None
    refusal: str = ""


async def compile_in_worker(data: bytes, options: CompileOptions, limits: ProcessLimits = LIMITS) -> CompiledDocument:
    """Compile a document in a child process. Raises DocumentRefused, also where the limits are exceeded."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise DocumentRefused(f"the document has more than {MAX_DOCUMENT_BYTES >> 20} MiB")
    head = msgspec.json.encode(options)
    parts = (len(head).to_bytes(_LENGTH_BYTES, "big"), head, data)
    try:
        answer = await run_limited(__name__, parts, limits)
    except WorkFailed as error:
        raise DocumentRefused(f"the compilation of the document {error}") from error
    return await _decode(answer)


async def _decode(answer: bytes) -> CompiledDocument:
    """Decode an answer, and let other tasks of the event loop run in between. Raises DocumentRefused."""
    first, *lines = answer.split(b"\n")
    outcome = msgspec.json.decode(first, type=_CompilationOutcome)
    if outcome.compiled is None:
        raise DocumentRefused(outcome.refusal)
    decode = msgspec.json.Decoder(CompiledTool).decode
    tools: list[CompiledTool] = []
    for start in range(0, len(lines), _DECODE_BATCH):
        tools += map(decode, lines[start : start + _DECODE_BATCH])
        await asyncio.sleep(0)
    return msgspec.structs.replace(outcome.compiled, tools=tuple(tools))


def work(encoded: bytes) -> bytes:
    """Compile in this process. The input is the length of the options, the options, and the document; the output is a
    line for the outcome without tools, and one for each tool.
    """
    start = _LENGTH_BYTES + int.from_bytes(encoded[:_LENGTH_BYTES], "big")
    options = msgspec.json.decode(encoded[_LENGTH_BYTES:start], type=CompileOptions)
    try:
        compiled = compile_document(encoded[start:], options)
    except DocumentRefused as error:
        return msgspec.json.encode(_CompilationOutcome(refusal=str(error)))
    outcome = _CompilationOutcome(compiled=msgspec.structs.replace(compiled, tools=()))
    return b"\n".join(map(msgspec.json.encode, (outcome, *compiled.tools)))
