"""The code blocks of the registry's page, run in order."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from fairlead_client import AsyncToolRegistry, ToolRegistry

README = Path(__file__).parents[3] / "docs" / "connect" / "python.md"


def blocks() -> list[tuple[int, str]]:
    """The code blocks, each with the number of its first line."""
    text = README.read_text()
    return [
        (text[: match.start()].count("\n") + 1, match[1]) for match in re.finditer(r"```python\n(.*?)```", text, re.S)
    ]


def test_every_block_of_the_page_runs() -> None:
    world: dict[str, object] = {"__name__": "readme"}
    for line, block in blocks():
        exec(compile("\n" * line + block, str(README), "exec", dont_inherit=True), world)  # noqa: S102  # our own page


def test_every_method_has_an_example_on_the_page() -> None:
    code = "\n".join(block for _, block in blocks())
    for name, _ in inspect.getmembers(ToolRegistry):
        if not name.startswith("_"):
            assert re.search(rf"\.{name}\b", code), name


def test_the_blocking_and_the_async_registry_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, object]:
        return {
            name: list(inspect.signature(member).parameters.values())
            for name, member in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    both = methods(AsyncToolRegistry)
    assert both.pop("start")
    assert methods(ToolRegistry) == both
