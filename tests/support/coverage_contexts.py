"""Pytest plugin that sets coverage's context to the running test or to its scope. It is loaded only if
FAIRLEAD_COVERAGE_CONTEXTS is set: `tests` for the id of each test, or `scopes` for `merge` and `night`.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Final

import coverage
import pytest

VARIABLE: Final = "FAIRLEAD_COVERAGE_CONTEXTS"
OF_CHILDREN: Final = "FAIRLEAD_COVERAGE_CONTEXT"
"""Environment variable that pyproject.toml reads: the context of a test's child processes."""
MERGE = "merge"
NIGHT = "night"
OF_NIGHT: Final = ("nightly", "timing")
"""Marks of tests that are not in the merge scope."""


def scope_of(item: pytest.Item) -> str:
    return NIGHT if any(item.get_closest_marker(mark) for mark in OF_NIGHT) else MERGE


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Name the context for setup, call and teardown. Shared fixtures belong to the first test that uses them."""
    context = item.nodeid if os.environ.get(VARIABLE) == "tests" else scope_of(item)
    measuring = coverage.Coverage.current()
    if measuring is None:
        return (yield)
    os.environ[OF_CHILDREN] = context
    measuring.switch_context(context)
    try:
        return (yield)
    finally:
        measuring.switch_context("")
        os.environ.pop(OF_CHILDREN, None)
