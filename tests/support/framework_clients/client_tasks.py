"""The task that programs of this folder run with a framework: tools of the client, and jobs read from standard input.

A job is a line of JSON: `api` (the framework's own word for the model's API), `stream`, `url`, and the `tools` that the
client declares. The answer is a line with the final `text` or the `error`, and the calls that the client `ran`.
Addresses and keys are in the environment, as users of the defaults have them.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

QUESTIONS: Final = ("How much rope is in both stores?", "And with a metre more?")
"""Questions of one conversation."""
KEY: Final = "no-key"
OPENAI_MODEL: Final = "gpt-5"
ANTHROPIC_MODEL: Final = "claude-sonnet-4-5"
GOOGLE_MODEL: Final = "gemini-2.5-flash"
MOST_ROUNDS: Final = 8
RAN: Final[list[str]] = []
"""Calls of tools in this process, in their order."""


@dataclass(frozen=True)
class Job:
    """One run of the task."""

    api: str
    stream: bool
    url: str
    """URL of the provider or the gateway, without a path."""
    functions: Sequence[Callable[..., str]]
    """Tools that the client declares and runs."""


def store(city: str) -> str:
    """Stock of a store.

    Args:
        city: City of the store.
    """
    RAN.append(f"store {city}")
    return f"40 in {city}"


def demo__add(a: int, b: int) -> str:
    """Add two numbers.

    Args:
        a: First number.
        b: Second number.
    """
    RAN.append(f"demo__add {a} {b}")
    return str(a + b)


FUNCTIONS: Final[Mapping[str, Callable[..., str]]] = {"store": store, "demo__add": demo__add}
SCHEMAS: Final[Mapping[str, dict[str, Any]]] = {
    "store": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "demo__add": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}


def description(function: Callable[..., Any]) -> str:
    """First line of the function's docstring."""
    return (function.__doc__ or "").strip().partition("\n")[0]


def converse(ask: Callable[[str], str]) -> str:
    """Answers to all questions, a line each."""
    return "\n".join([ask(question) for question in QUESTIONS])


async def converse_async(ask: Callable[[str], Awaitable[str]]) -> str:
    """Answers to all questions, a line each."""
    return "\n".join([await ask(question) for question in QUESTIONS])


def run_tool(name: str, arguments: Mapping[str, Any] | str) -> str:
    """Result of a call, for clients without a loop of their own."""
    given = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
    return FUNCTIONS[name](**given)


def _set_environment(url: str) -> None:
    os.environ |= {
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_BASE": url,
        "GOOGLE_API_KEY": KEY,
        "GEMINI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": url,
    }


def _result(run: Callable[[Job], Any], job: Job, loop: asyncio.Runner) -> dict[str, Any]:
    RAN.clear()
    _set_environment(job.url)
    try:
        text = run(job)
        if inspect.isawaitable(text):
            text = loop.run(_await(text))
    except Exception as error:  # noqa: BLE001 # whatever a framework raises is the answer
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"[:1000], "ran": [*RAN]}
    return {"text": text, "ran": [*RAN]}


async def _await(result: Any) -> Any:
    return await result


def main(apis: Mapping[str, Callable[[Job], Any]]) -> None:
    """Run jobs until standard input ends. `apis`: a function, or coroutine function, that returns the final text."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # frameworks print
    with asyncio.Runner() as loop:  # one for all jobs, as frameworks keep connections
        for line in sys.stdin:
            given = json.loads(line)
            functions = [FUNCTIONS[name] for name in given["tools"]]
            job = Job(given["api"], given["stream"], given["url"], functions)
            answers.write(json.dumps(_result(apis[job.api], job, loop)) + "\n")
            answers.flush()
