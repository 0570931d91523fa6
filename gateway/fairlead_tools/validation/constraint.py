"""Constraints of policies on the arguments of calls: JSON Schemas of policy rules, at least one of which has to match.
No I/O.

In contrast to the check of a tool's own schema, a call is refused in case of doubt. A schema that cannot be compiled
completely allows no arguments. Arguments are also refused if they cannot be checked in bounded time, or if other
parsers may read them differently. Size limits are checked first, because a long check would block the event loop.
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
"""Maximum number of values in the arguments. The number is estimated by commas and opening brackets, also within
strings. Checking 10,000 values takes 10 ms at most.
"""
_NOT_ALLOWED: Final = "No policy allows a call of the tool with these arguments"


class Allowance(msgspec.Struct, frozen=True):
    """Compiled schema of the policy rule `by`. `fault` says why the schema allows no arguments; empty if the schema can
    be applied.
    """

    by: str
    checker: Checker | None = None
    """Checker of arguments; None if the schema allows all objects, or if there is a fault."""
    fault: str = ""
    spelling: Spelling | None = None
    """Detector of misspelt property names; None if there is no checker."""

    def errors(self, arguments: bytes, text: str, folded_text: str) -> str | None:
        """Return the errors of the arguments, one per line; None if the rule allows them.

        `text` and `folded_text` are the results of `members.canonical_forms`.
        """
        if self.fault:
            return self.fault
        if self.checker is None or self.spelling is None:
            return None
        return self.checker.find_error_or_excess(arguments) or self.spelling.errors(arguments, text, folded_text)


def allowance(by: str, schema: Mapping[str, Any]) -> Allowance:
    """Compile the schema of a policy rule. Raises nothing."""
    compiled: Compiled = compile_schema(schema, of_objects=True)
    if compiled.left_out:
        return Allowance(by, fault="the schema of the rule cannot be used: " + compiled.left_out[0].message)
    if compiled.checker is None:
        return Allowance(by)
    try:
        return Allowance(by, compiled.checker, spelling=Spelling(dict(schema)))
    except UnresolvedReference as error:
        fault = f"the schema of the rule cannot be used: its reference {str(error)[:200]!r} is invalid"
        return Allowance(by, fault=fault)


class Constraint:
    """Constraint on the arguments of one tool: at least one of its allowances has to match. With `quote_rules`,
    refusals name the rules, and say why each rule does not allow the arguments.
    """

    __slots__ = ("_allowances", "_quote_rules")

    def __init__(self, allowances: Sequence[Allowance], *, quote_rules: bool) -> None:
        self._allowances = tuple(allowances)
        self._quote_rules = quote_rules

    @property
    def rule_names(self) -> str:
        """Names of the rules, for logs."""
        return ", ".join(allowance.by for allowance in self._allowances)

    def refusal(self, arguments: bytes | Raw | None) -> Refusal | None:
        """Return the refusal of a call with these raw arguments; None if they are allowed."""
        raw = NO_ARGUMENTS if arguments is None or bytes(arguments) == b"null" else bytes(arguments)
        if len(raw) > MAX_ARGUMENT_BYTES:
            return _refusal(f"the arguments have more than {MAX_ARGUMENT_BYTES} bytes; send less in one call")
        if raw.count(b",") + raw.count(b"{") + raw.count(b"[") > MAX_VALUES:
            return _refusal(f"the arguments have more than {MAX_VALUES} values; send fewer in one call")
        try:
            text, folded_text = members.canonical_forms(raw)
        except members.AmbiguousMembers as error:
            return _refusal(str(error))
        except jsonrpc.UNREADABLE:
            return _refusal("the arguments are not valid JSON, or nested too deeply")
        reasons = []
        for allowance in self._allowances:
            faults = allowance.errors(raw, text, folded_text)
            if faults is None:
                return None
            reasons.append((allowance.by, faults))
        if not self._quote_rules:
            return Refusal(INVALID_ARGUMENTS, _NOT_ALLOWED)
        reason_lines = "".join(f"\n- {by}: {line}" for by, faults in reasons for line in faults.split("\n"))
        return Refusal(INVALID_ARGUMENTS, f"{_NOT_ALLOWED}:{reason_lines}")


def _refusal(reason: str) -> Refusal:
    return Refusal(INVALID_ARGUMENTS, f"{_NOT_ALLOWED}: {reason}")
