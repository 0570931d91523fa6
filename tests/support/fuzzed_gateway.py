"""A gateway in an event loop of its own that gets hostile bytes, one example after the other, and checks after each
example.

    with fuzz_world(tmp_path, document) as world:
        @given(...)
        def example(...): world.run(attack(world, ...))

Nothing may be logged as an error, no task and no connection may be left, and the gateway must go on answering. A
failing example is written to `tests/fuzz/regressions`, where `test_regressions` replays it for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import traceback
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from hypothesis import HealthCheck, Phase, settings

from fairlead_api.documents.catalog import Catalog
from fairlead_app.gateway import Gateway
from gatewayworld import ask, calling, running

REGRESSIONS: Final = Path(__file__).parents[1] / "fuzz" / "regressions"
LONG: Final = "FAIRLEAD_FUZZ_EXAMPLES"
"""Environment variable that `hack/fuzz` sets: number of examples of each kind, which then differ in each run."""
PATIENCE: Final = 30.0
CALL_SECONDS: Final = 0.2
"""Timeout of calls in seconds: many answers never arrive."""
BODY_BYTES: Final = 64 << 10
QUIET_SECONDS: Final = 0.02
"""Seconds without a byte after which an answer counts as complete."""

Result = TypeVar("Result")


def profile(examples: int) -> settings:
    """Hypothesis settings of a test. Without `hack/fuzz` it runs this number of examples, the same ones each time."""
    long = os.environ.get(LONG)
    checks = list(HealthCheck)
    if long is None:
        return settings(
            max_examples=examples,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=checks,
            phases=(Phase.generate, Phase.shrink),
        )
    return settings(max_examples=int(long), database=None, deadline=None, suppress_health_check=checks)


class Troubles(logging.Handler):
    """Collects errors that would go unnoticed: logged errors, and errors reported to the event loop."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR or record.exc_info:
            line = record.getMessage()
            if record.exc_info and record.exc_info[1] is not None:
                line += "\n" + "".join(traceback.format_exception(record.exc_info[1]))
            self.lines.append(line)

    def told_by_loop(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        trace = "" if error is None else "".join(traceback.format_exception(error))
        self.lines.append(f"{context['message']}\n{trace}")


class Runs(Protocol):
    """`asyncio.Runner`, or the runner of another event loop."""

    def run(self, coro: Coroutine[Any, Any, Result]) -> Result: ...


@dataclass
class FuzzWorld:
    """Gateway in front of a hostile server, for generated requests and answers."""

    gateway: Gateway
    runner: asyncio.Runner
    troubles: Troubles
    tool: str = "demo__echo"
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000, 1 << 40)))

    def run(self, work: Coroutine[Any, Any, None], kind: str, parts: Sequence[bytes], **more: Any) -> None:
        """Run one example, and check that the gateway is back in its initial state. A failing example is stored."""
        try:
            self.replay(work)
        except Exception:
            record(kind, parts, **more)
            raise

    def replay(self, work: Coroutine[Any, Any, None]) -> None:
        """Like `run`, for a stored example."""
        self.runner.run(self._example(work))

    async def _example(self, work: Coroutine[Any, Any, None]) -> None:
        async with asyncio.timeout(PATIENCE):
            await work
        await self.await_settled()
        messages = self.troubles.lines
        self.troubles.lines = []
        assert not messages, "\n".join(messages)

    async def alive(self) -> None:
        """Check that a call of another client is answered correctly."""
        number = next(self.numbers)
        answer = await ask(self.gateway, calling(self.tool, {"n": number}, number=number))
        assert (answer.message["id"], marker_of(answer.message)) == (number, number)

    async def await_settled(self) -> None:
        """Wait until no call runs, no connection is open or busy, and no task is left. Raises AssertionError."""
        try:
            async with asyncio.timeout(PATIENCE):
                while self._list_remains():  # noqa: ASYNC110  # none of these tells it by an event
                    await asyncio.sleep(0.001)
        except TimeoutError:
            raise AssertionError(f"left over: {self._list_remains()}") from None

    def _list_remains(self) -> list[object]:
        left: list[object] = [*self.gateway.endpoint.calls]
        left += self.gateway._listener.connections
        left += [gauges for gauges in self.gateway.registry.gauges().values() if gauges.busy or gauges.waiting]
        return left + [task for task in asyncio.all_tasks() if _is_of_a_request(task)]


_REQUESTS: Final = (
    "call",
    "dial ",
    "cancel ",
    "reply ",
    "tell ",
    "resume ",
    "session ",
    "tools/",
    "prompts/",
    "aside ",
)


def _is_of_a_request(task: asyncio.Task[Any]) -> bool:
    return task.get_name().startswith(_REQUESTS)


@contextlib.contextmanager
def fuzz_world(
    folder: Path,
    *documents: Catalog,
    serve: Callable[[], contextlib.AbstractAsyncContextManager[Any]] | None = None,
    document_of: Callable[[Any], Catalog] | None = None,
    **options: Any,
) -> Iterator[FuzzWorld]:
    """A gateway over `documents`, and over the document that `document_of` makes of the value of the context
    `serve`.
    """
    troubles = Troubles()
    options = {"call_timeout": CALL_SECONDS, "max_request_bytes": BODY_BYTES, **options}
    stack = contextlib.AsyncExitStack()

    async def start() -> Gateway:
        asyncio.get_running_loop().set_exception_handler(troubles.told_by_loop)
        all_documents = list(documents)
        if serve is not None and document_of is not None:
            all_documents.append(document_of(await stack.enter_async_context(serve())))
        return await stack.enter_async_context(running(folder, *all_documents, **options))

    logging.getLogger().addHandler(troubles)
    try:
        with asyncio.Runner() as runner:
            gateway = runner.run(start())
            try:
                yield FuzzWorld(gateway, runner, troubles)
            finally:
                runner.run(stack.aclose())
    finally:
        logging.getLogger().removeHandler(troubles)


def marker_of(message: Any) -> Any:
    """Marker in a successful answer of a server that returns its arguments; None for other answers."""
    result = message.get("result")
    if not isinstance(result, dict) or result.get("isError") or "content" not in result:
        return None
    return json.loads(result["content"][0]["text"]).get("n")


# Regressions


def record(kind: str, parts: Sequence[bytes], **more: Any) -> Path:
    """Store an example. Hypothesis runs the smallest example of a failing test last, which replaces earlier ones."""
    document = {"kind": kind, **more, "parts": [part.decode("latin-1") for part in parts]}
    text = json.dumps(document, indent=1)
    name = hashlib.blake2b(f"{kind} {os.getpid()}".encode(), digest_size=4).hexdigest()
    file = REGRESSIONS / f"found-{kind}-{name}.json"
    file.write_text(text + "\n")
    return file


def regressions(kind: str) -> list[Path]:
    files = sorted(REGRESSIONS.glob("*.json"))
    return [file for file in files if json.loads(file.read_text())["kind"] == kind]


@dataclass(frozen=True)
class Found:
    """A regression file."""

    parts: list[bytes]
    more: dict[str, Any]


def read(file: Path) -> Found:
    document = json.loads(file.read_text())
    return Found([part.encode("latin-1") for part in document.pop("parts")], document)
