"""Signatures and docstrings of handlers become the tool's definition and the binding of its arguments."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable
from datetime import date
from typing import Annotated, Any, Literal

import pydantic
import pytest

from fairlead_gateway import Context, CustomTool, CustomTools, tool
from fairlead_tools.handlers.prepared import Prepared
from fairlead_tools.handlers.problems import BadTool, UnfitArguments


def add_handler(handler: Callable[..., Any] | CustomTool) -> Prepared:
    return CustomTools().add(handler)


def definition(handler: Callable[..., Any] | CustomTool) -> dict[str, Any]:
    members: dict[str, Any] = json.loads(add_handler(handler).definition)
    return members


def test_a_decorated_function_stays_the_function_that_it_was() -> None:
    @tool(name="other", tags=("a",))
    def double(number: int) -> int:
        return 2 * number

    assert double(4) == 8
    assert add_handler(double).name == "other"


GOOGLE = """Look it up.

At once.

Args:
    email: The address
        of a person.
"""
REST = """Look it up.

At once.

:param email: The address
    of a person.
"""
NUMPY = """Look it up.

At once.

Parameters
----------
email : str
    The address
    of a person.
"""


@pytest.mark.parametrize("docstring", [GOOGLE, REST, NUMPY], ids=["google", "rest", "numpy"])
def test_description_and_parameters_are_read_from_the_docstring_in_every_style(docstring: str) -> None:
    def lookup(email: str) -> str:
        return email

    lookup.__doc__ = docstring
    read = definition(lookup)
    assert read["description"] == "Look it up.\n\nAt once."
    assert read["inputSchema"]["properties"]["email"] == {"type": "string", "description": "The address of a person."}


def test_the_schema_holds_types_defaults_bounds_and_nothing_that_repeats_the_names() -> None:
    def search(
        text: Annotated[str, "What to look for."],
        kind: Literal["a", "b"] = "a",
        limit: Annotated[int, pydantic.Field(ge=1, le=9)] = 5,
        since: date | None = None,
    ) -> str:
        """Find.

        Args:
            text: Not this.
            kind: Of which kind.
        """
        return f"{text}{kind}{limit}{since}"

    assert definition(search)["inputSchema"] == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What to look for."},
            "kind": {"enum": ["a", "b"], "type": "string", "default": "a", "description": "Of which kind."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 9, "default": 5},
            "since": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}], "default": None},
        },
        "required": ["text"],
        "additionalProperties": False,
    }


class Address(pydantic.BaseModel):
    street: str
    number: int = 1


def test_arguments_become_what_the_hints_say() -> None:
    def send(to: Address, on: date, *, copies: int = 2) -> None:
        """Send."""

    bind = add_handler(send).bind
    assert bind is not None
    bound = bind({"to": {"street": "Quay"}, "on": "2026-01-02"})
    assert bound == {"to": Address(street="Quay", number=1), "on": date(2026, 1, 2), "copies": 2}


def test_arguments_that_do_not_fit_are_named_by_place_and_never_quoted() -> None:
    def send(to: Address, secret: int) -> None:
        """Send."""

    bind = add_handler(send).bind
    assert bind is not None
    with pytest.raises(UnfitArguments) as caught:
        bind({"to": {"street": "Quay", "number": "x"}, "secret": "hunter2", "more": 1})
    message = str(caught.value)
    assert "to.number" in message
    assert "secret:" in message
    assert "more:" in message
    assert "hunter2" not in message


@pytest.mark.parametrize("name", ["json", "schema", "model_config", "_private", "copy", "class_"])
def test_a_parameter_may_have_any_name(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def handler({name}: int) -> int:\n    return {name}\n", scope)  # noqa: S102  # a name from a table
    bind = add_handler(scope["handler"]).bind
    assert bind is not None
    assert bind({name: 3}) == {name: 3}
    assert list(definition(scope["handler"])["inputSchema"]["properties"]) == [name]


def test_a_handler_that_takes_any_keywords_takes_any_arguments() -> None:
    def anything(first: int, **rest: Any) -> None:
        """Take."""

    bind = add_handler(anything).bind
    assert bind is not None
    assert bind({"first": 1, "second": "x"}) == {"first": 1, "second": "x"}
    assert definition(anything)["inputSchema"]["additionalProperties"] is True


@pytest.mark.parametrize("hint", ["Context", "Context | None", 'Annotated[Context, "of the call"]'])
def test_the_context_is_not_an_argument(hint: str) -> None:
    scope: dict[str, Any] = {"Context": Context, "Annotated": Annotated}
    exec(f"def handler(x: int, c: {hint} = None) -> int:\n    return x\n", scope)  # noqa: S102  # from the table above
    prepared = add_handler(scope["handler"])
    assert prepared.context == "c"
    assert list(json.loads(prepared.definition)["inputSchema"]["properties"]) == ["x"]


@dataclasses.dataclass
class Stock:
    item: str
    pieces: int


def test_a_return_type_with_members_becomes_the_output_schema_and_any_other_does_not() -> None:
    def stock() -> Stock:
        return Stock("rope", 4)

    def loose() -> dict[str, int]:
        return {}

    assert definition(stock)["outputSchema"]["required"] == ["item", "pieces"]
    assert "outputSchema" not in definition(loose)


def test_callable_objects_and_partial_functions_are_handlers_too() -> None:
    class Adder:
        async def __call__(self, left: int) -> int:
            """Add."""
            return left

    def add(left: int, right: int) -> int:
        """Add two."""
        return left + right

    adder = add_handler(CustomTool(name="adder", handler=Adder()))
    assert adder.is_async
    assert json.loads(adder.definition)["description"] == "Add."
    partial = definition(CustomTool(name="partial", handler=functools.partial(add, right=1)))
    assert partial["inputSchema"]["required"] == ["left"]


def _positional(x: int, /) -> int:
    return x


def _many(*x: int) -> None:
    """Take."""


def _unknown(x: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821  # that is the point
    """Take."""


def _unfit(x: Callable[[], int]) -> None:
    """Take."""


def _yield_one() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (_positional, "'x' cannot be passed by keyword"),
        (_many, "'x' cannot be passed by keyword"),
        (_unknown, "'Nowhere' is not defined"),
        (_unfit, "cannot be converted to a JSON Schema"),
        (_yield_one, "its handler is a generator"),
        (lambda: 1, "the tool '<lambda>' cannot be published: its name must have"),
        (CustomTool(name="a b", handler=print), "its name must have"),
        (CustomTool(name="a", handler=print, input_schema={"type": "array"}), '"type": "object"'),
        (CustomTool(name="a", handler=print, input_schema={"default": object()}), "cannot be encoded as JSON"),
        (CustomTool(name="a", handler="x"), "cannot be called"),  # type: ignore[arg-type]  # that is the point
    ],
)
def test_handlers_that_cannot_be_published_are_refused_with_a_reason(wanted: Any, why: str) -> None:
    with pytest.raises(BadTool) as caught:
        add_handler(wanted)
    assert why in str(caught.value)


def test_a_name_is_given_away_once() -> None:
    tools = CustomTools()
    tools.add(CustomTool(name="twice", handler=print, input_schema={}))
    with pytest.raises(BadTool, match="another tool has this name"):
        tools.add(CustomTool(name="twice", handler=print, input_schema={}))
