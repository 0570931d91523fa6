"""Pages that explain the code: checks their links to functions, and the order in which a real request calls these."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
LINK: Final = re.compile(r"\[`([\w.]+)`\]\(\.\./\.\./gateway/([\w/]+)\.py\)")


class LifePage:
    """A page of docs/how-it-works."""

    def __init__(self, name: str) -> None:
        self.text = (ROOT / "docs" / "how-it-works" / f"{name}.md").read_text()

    def part(self, heading: str, row: str = "") -> str:
        """Text from a heading to the next one: its paragraphs, or the table row that begins with `row`."""
        text = re.split(r"^#+ ", self.text.partition(f"# {heading}\n")[2], flags=re.MULTILINE)[0]
        assert text, heading
        if row:
            return next(line for line in text.splitlines() if line.startswith(row))
        return "\n".join(line for line in text.splitlines() if not line.startswith("|"))

    def assert_names_are_where_they_lead(self) -> None:
        """Check that each linked name is defined in the file that its link names."""
        for name in links_in(self.text):
            value = object_named(name)
            if getattr(value, "__module__", None) is not None:  # compiled functions do not say where they are defined
                assert value.__module__.replace(".", "/") == name.partition("::")[0], name


def links_in(text: str) -> list[str]:
    """`file::symbol` of each link in a text."""
    return [f"{file}::{symbol}" for symbol, file in LINK.findall(text)]


def object_named(name: str) -> Any:
    """Object that `file::symbol` names. Raises AttributeError, ModuleNotFoundError."""
    file, _, symbol = name.partition("::")
    value: Any = importlib.import_module(file.replace("/", "."))
    for each in symbol.split("."):
        value = inspect.getattr_static(value, each)
    return value


def steps(text: str) -> list[str]:
    """Links in a text that point to functions."""
    return [name for name in links_in(text) if inspect.isfunction(object_named(name))]


@contextmanager
def trace_calls(seen: list[str]) -> Iterator[None]:
    """Record the gateway's functions that this thread calls."""
    gateway = f"{ROOT / 'gateway'}/"

    def note(stack_frame: FrameType, event: str, _: Any) -> None:
        code = stack_frame.f_code
        if event == "call" and code.co_filename.startswith(gateway):
            seen.append(f"{code.co_filename[len(gateway) :].removesuffix('.py')}::{code.co_qualname}")

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def assert_taken_in_order(wanted: Sequence[str], seen: Sequence[str]) -> None:
    """Check that the wanted functions were called in the given order."""
    assert wanted
    at = 0
    for number, step in enumerate(wanted):
        assert step in seen[at:], (step, wanted[:number], json.dumps(seen[at : at + 200], indent=1))
        at = seen.index(step, at) + 1
