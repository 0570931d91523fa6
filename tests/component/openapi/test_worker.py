"""Compilation in a process of its own has the same result, and ends at its limits."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest
import yaml

from fairlead_openapi.compiling.compile import CompileOptions, compile_document
from fairlead_openapi.compiling.reading import MAX_DOCUMENT_BYTES, DocumentRefused
from fairlead_openapi.compiling.worker import LIMITS, compile_in_worker
from openapidocuments import document, get
from waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.timeout(120)
SOURCE = msgspec.json.encode(document({"/x": get(), "/y": get(operationId="other")}))


def children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()}


async def test_a_worker_compiles_as_the_process_itself_does() -> None:
    options = CompileOptions(include=("read",), url="https://example.com/openapi.json")
    assert await compile_in_worker(SOURCE, options) == compile_document(SOURCE, options)


async def test_a_worker_refuses_a_document_with_the_same_sentence() -> None:
    with pytest.raises(DocumentRefused, match=r"^the document is Swagger 2\.0"):
        await compile_in_worker(b'{"swagger": "2.0"}', CompileOptions())


async def test_a_document_that_is_too_large_starts_no_worker() -> None:
    before = children()
    with pytest.raises(DocumentRefused, match="has more than 32 MiB"):
        await compile_in_worker(bytes(MAX_DOCUMENT_BYTES + 1), CompileOptions())
    assert children() == before


async def test_a_worker_that_takes_too_long_is_ended() -> None:
    before = children()
    with pytest.raises(DocumentRefused, match=r"^the compilation of the document takes longer than 0\.01 s$"):
        await compile_in_worker(SOURCE, CompileOptions(), LIMITS._replace(seconds=0.01))
    assert children() == before


async def test_a_worker_that_needs_too_much_memory_is_ended() -> None:
    bomb = b'{"openapi": "3.1.0", "x": [' + b",".join([b"{}"] * 5_000_000) + b"]}"
    with pytest.raises(DocumentRefused, match=r"^the compilation of the document needs more than 256 MiB of memory$"):
        await compile_in_worker(bomb, CompileOptions(), LIMITS._replace(memory=256 << 20))


async def test_a_worker_whose_answer_is_too_large_is_ended() -> None:
    with pytest.raises(DocumentRefused, match=r"^the compilation of the document returns more than 0 MiB$"):
        await compile_in_worker(SOURCE, CompileOptions(), LIMITS._replace(max_answer=10))


async def test_a_worker_ends_with_the_task_that_waits() -> None:
    before = children()
    task = asyncio.create_task(compile_in_worker(SOURCE, CompileOptions()))
    await eventually(lambda: children() != before)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children() == before


def test_limits_are_a_minute_and_a_gibibyte() -> None:
    assert (LIMITS.seconds, LIMITS.memory) == (60, 2**30)


def test_the_pod_of_the_operator_has_memory_for_a_worker_beside_itself() -> None:
    values = yaml.safe_load((ROOT / "charts/fairlead/values.yaml").read_text("utf-8"))
    memory = values["operator"]["resources"]["limits"]["memory"]
    assert memory.endswith("Gi")
    assert int(memory.removesuffix("Gi")) << 30 >= LIMITS.memory + (512 << 20)
