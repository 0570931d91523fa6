"""What a policy allows of a call's arguments: JSON Schemas of which one has to take them.

Pure module. Compiled by `selection.policy` with the rules, asked by `calls` before a call is made. Unlike the check of
a tool's own schema it takes nothing on trust: a schema that cannot be used in full takes no arguments at all, and so
is every value refused that could not be looked at in bounded time, or that others may read otherwise than it was read
here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_gateway.calls.refusals import INVALID_ARGUMENTS, Refusal
from fairlead_gateway.validation.checker import Checker, Compiled, compile_schema

NO_ARGUMENTS: Final = b"{}"
_NOT_ALLOWED: Final = "The policy does not allow these arguments"


class Ambiguous(ValueError):
    """An object with a member that comes twice, or in two spellings that differ in case alone."""


class Allowance(msgspec.Struct, frozen=True):
    """One rule's schema; `by` names the rule. `fault`: why it takes nothing."""

    by: str
    checker: Checker | None = None
    """None where every object fits, or, with a fault, none."""
    fault: str = ""

    def wrong(self, arguments: bytes) -> str | None:
        """What does not fit, one error a line; None: the rule allows them."""
        if self.fault:
            return self.fault
        return None if self.checker is None else self.checker.doubt(arguments)


def allowance(by: str, schema: Mapping[str, Any]) -> Allowance:
    """Compile the schema of a rule. Raises nothing."""
    made: Compiled = compile_schema(schema, of_objects=True)
    if made.left_out:
        return Allowance(by, fault="the schema of the rule cannot be used: " + made.left_out[0].message)
    return Allowance(by, made.checker)


class Constraint:
    """What may be said to one tool: by any of its allowances. `told`: whether refusals say what they go by."""

    __slots__ = ("_allowances", "_told")

    def __init__(self, allowances: Sequence[Allowance], *, told: bool) -> None:
        self._allowances = tuple(allowances)
        self._told = told

    @property
    def by(self) -> str:
        """The rules, for who reads logs."""
        return ", ".join(one.by for one in self._allowances)

    def refusal(self, arguments: bytes | Raw | None) -> Refusal | None:
        """Why a call with these raw arguments is not made; None: it may be."""
        raw = NO_ARGUMENTS if arguments is None or bytes(arguments) == b"null" else bytes(arguments)
        try:
            _read(raw.decode())
        except Ambiguous as error:
            return Refusal(INVALID_ARGUMENTS, f"{_NOT_ALLOWED}: {error}")
        except (ValueError, RecursionError):
            return Refusal(INVALID_ARGUMENTS, f"{_NOT_ALLOWED}: they cannot be read")
        reasons = []
        for one in self._allowances:
            wrong = one.wrong(raw)
            if wrong is None:
                return None
            reasons.append((one.by, wrong))
        if not self._told:
            return Refusal(INVALID_ARGUMENTS, _NOT_ALLOWED)
        listed = "".join(f"\n- {by}: {line}" for by, wrong in reasons for line in wrong.split("\n"))
        return Refusal(INVALID_ARGUMENTS, f"{_NOT_ALLOWED}:{listed}")


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    """Readers differ in which of two equal members counts, and some take no notice of case."""
    seen = {name.casefold() for name, _ in pairs}
    if len(seen) != len(pairs):
        raise Ambiguous("a member comes twice, or in two spellings")


_read = json.JSONDecoder(object_pairs_hook=_distinct).decode
"""Made once: `json.loads` makes one for each call, which takes longer than the reading."""
