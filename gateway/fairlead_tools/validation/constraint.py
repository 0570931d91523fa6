"""Allowances of a policy for a call's arguments: JSON Schemas of which one has to take them.

Pure module. Unlike the check of
a tool's own schema it takes nothing on trust: a schema that cannot be used in full takes no arguments at all, and so
is every value refused that could not be looked at in bounded time, or that others may read otherwise than it was read
here. Bounds come first: all of this happens in the loop that everybody's calls wait for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_mcp import jsonrpc, members
from fairlead_mcp.schemas import UnresolvedReference
from fairlead_tools.refusal import INVALID_ARGUMENTS, Refusal
from fairlead_tools.validation.checker import MAX_VALUE_BYTES, Checker
from fairlead_tools.validation.schema_compiler import Compiled, compile_schema
from fairlead_tools.validation.spelling import Spelling

NO_ARGUMENTS: Final = b"{}"
MAX_ARGUMENT_BYTES: Final = MAX_VALUE_BYTES
MAX_VALUES: Final = 10_000
"""Members, items, objects and lists in the arguments, and commas and brackets in their texts: what reading takes time
for. As many take some 10 ms at most.
"""
_NOT_ALLOWED: Final = "The policy does not allow these arguments"


class Allowance(msgspec.Struct, frozen=True):
    """One rule's schema; `by` names the rule. `fault`: why it takes nothing."""

    by: str
    checker: Checker | None = None
    """None where every object fits, or, with a fault, none."""
    fault: str = ""
    spelling: Spelling | None = None
    """None without a checker."""

    def wrong(self, arguments: bytes, text: str, alike: str) -> str | None:
        """Errors of the arguments, one a line; None: the rule allows them. See also `members.distinct`."""
        if self.fault:
            return self.fault
        if self.checker is None or self.spelling is None:
            return None
        return self.checker.doubt(arguments) or self.spelling.wrong(arguments, text, alike)


def allowance(by: str, schema: Mapping[str, Any]) -> Allowance:
    """Compile the schema of a rule. Raises nothing."""
    made: Compiled = compile_schema(schema, of_objects=True)
    if made.left_out:
        return Allowance(by, fault="the schema of the rule cannot be used: " + made.left_out[0].message)
    if made.checker is None:
        return Allowance(by)
    try:
        return Allowance(by, made.checker, spelling=Spelling(dict(schema)))
    except UnresolvedReference as error:
        return Allowance(by, fault=f"the schema of the rule cannot be used: it refers to {str(error)[:200]!r}")


class Constraint:
    """Arguments that one tool may be given: by any of its allowances. `told`: whether refusals say what they go by."""

    __slots__ = ("_allowances", "_told")

    def __init__(self, allowances: Sequence[Allowance], *, told: bool) -> None:
        self._allowances = tuple(allowances)
        self._told = told

    @property
    def by(self) -> str:
        """The rules, for who reads logs."""
        return ", ".join(allowance.by for allowance in self._allowances)

    def refusal(self, arguments: bytes | Raw | None) -> Refusal | None:
        """Why a call with these raw arguments is not made; None: it may be."""
        raw = NO_ARGUMENTS if arguments is None or bytes(arguments) == b"null" else bytes(arguments)
        if len(raw) > MAX_ARGUMENT_BYTES:
            return _refusal(f"they are larger than {MAX_ARGUMENT_BYTES} bytes; send less in one call")
        if raw.count(b",") + raw.count(b"{") + raw.count(b"[") > MAX_VALUES:
            return _refusal(f"they hold more than {MAX_VALUES} values; send fewer in one call")
        try:
            text, alike = members.distinct(raw)
        except members.Ambiguous as error:
            return _refusal(str(error))
        except jsonrpc.UNREADABLE:
            return _refusal("they cannot be read")
        reasons = []
        for allowance in self._allowances:
            wrong = allowance.wrong(raw, text, alike)
            if wrong is None:
                return None
            reasons.append((allowance.by, wrong))
        if not self._told:
            return Refusal(INVALID_ARGUMENTS, _NOT_ALLOWED)
        listed = "".join(f"\n- {by}: {line}" for by, wrong in reasons for line in wrong.split("\n"))
        return Refusal(INVALID_ARGUMENTS, f"{_NOT_ALLOWED}:{listed}")


def _refusal(why: str) -> Refusal:
    return Refusal(INVALID_ARGUMENTS, f"{_NOT_ALLOWED}: {why}")
