"""Execution of model answers that contain no tool call."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_client import AsyncToolRegistry, Executed, InvalidArguments
from fairlead_formats import registry as formats

NO_CALLS: list[Any] = [None, [], {}, 5, b"x", {"name": "x"}, {"function": {"name": "x", "arguments": "{}"}}]


@pytest.mark.parametrize("given", NO_CALLS)
async def test_a_value_that_is_not_a_call_is_an_error_that_says_what_a_call_is(given: Any) -> None:
    async with AsyncToolRegistry() as registry:
        outcome = await registry.execute(given)
        assert isinstance(outcome.error, InvalidArguments)
        assert (outcome.name, outcome.attempts) == ("", 0)
        assert "pass a tool's name, a Request or a ModelCall" in outcome.text
        assert "execute_message" in outcome.text
        assert [outcome.ok for outcome in await registry.execute_all([given])] == [False]


@pytest.mark.parametrize("form", sorted(formats.FORMATS))
@pytest.mark.parametrize("message", [None, [], {}, "", "hello", {"content": "hello"}, {"tool_calls": None}])
async def test_a_message_without_calls_comes_to_nothing_in_every_format(form: str, message: object) -> None:
    async with AsyncToolRegistry() as registry:
        assert await registry.execute_message(form, message) == Executed((), (), (), ())
        assert await registry.execute_all(None) == []
