"""Compiles the documents of one API in a process of its own, and prints what it took as JSON.

python measured_compilation.py fairlead|fastmcp FILE…
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Tool: TypeAlias = dict[str, Any]
Measured: TypeAlias = tuple[list[Tool], dict[str, Any]]


def by_fairlead(file: Path) -> Measured:
    """Tools of a document, and counts of its operations."""
    import msgspec

    from fairlead_openapi.compiling.compile import CompileOptions, compile_document
    from fairlead_openapi.compiling.reading import DocumentRefused

    try:
        compiled = compile_document(file.read_bytes(), CompileOptions())
    except DocumentRefused as error:
        return [], {"refused": [str(error)]}
    kinds: Counter[str] = Counter()
    for report in compiled.reports:
        kinds.update({loss.kind for loss in report.losses})
        if report.left_out:
            kinds[f"left out: {report.left_out[:60]}"] += 1
    bodies = {tool.name for tool in compiled.tools if tool.operation.body is not None}
    structured = [r for r in compiled.reports if r.tool in bodies or r.left_out]
    lossless = [r for r in structured if r.outcome == "made"]
    with_text = [r for r in structured if any(loss.kind == "media-type" for loss in r.losses)]
    counts = {
        **compiled.counts(),
        "structured results": sum(tool.operation.structured for tool in compiled.tools),
        "with bodies": len(structured) - len(with_text),
        "bodies without loss": len(lossless),
        "causes": dict(kinds),
    }
    return [msgspec.json.decode(tool.definition) for tool in compiled.tools], counts


def by_fastmcp(file: Path) -> Measured:
    """Tools of a document as FastMCP's provider makes them."""
    import asyncio

    import httpx2
    import yaml
    from fastmcp import FastMCP

    text = file.read_text()
    document = json.loads(text) if file.suffix == ".json" else yaml.load(text, yaml.CSafeLoader)

    async def listed() -> list[Tool]:
        async with httpx2.AsyncClient(base_url="https://example.com") as client:
            server = FastMCP.from_openapi(document, client)
            tools = await server.list_tools()
            return [tool.to_mcp_tool().model_dump(by_alias=True, exclude_none=True) for tool in tools]

    return asyncio.run(listed()), {}


MAKERS: dict[str, Callable[[Path], Measured]] = {"fairlead": by_fairlead, "fastmcp": by_fastmcp}


def _most_mb() -> float:
    """Peak memory of this process since its program began, in MB; `ru_maxrss` would include the parent process's before
    the fork.
    """
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def main() -> None:
    """Print one object: tools of each document, seconds of processor time, MB at most, counts and errors."""
    maker, *files = sys.argv[1:]
    tools: list[list[Tool]] = []
    total: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    errors, refused, slowest = [], [], 0.0
    for file in map(Path, files):
        start = time.process_time()
        try:
            made, counts = MAKERS[maker](file)
        except Exception as error:  # noqa: BLE001  # any error is a crash, which is counted
            errors.append(f"{file.name}: {type(error).__name__}: {str(error)[:200]}")
            continue
        slowest = max(slowest, time.process_time() - start)
        tools.append(made)
        refused += counts.pop("refused", [])
        causes.update(counts.pop("causes", {}))
        total.update(counts)
    result = {
        "tools": tools,
        "seconds": slowest,
        "mb": _most_mb(),
        "counts": dict(total),
        "causes": dict(causes),
        "refused": refused,
        "errors": errors,
    }
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main()
