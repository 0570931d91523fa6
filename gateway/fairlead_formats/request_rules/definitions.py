"""Check of single converted definitions against the documented rules of their provider.

Pure module. A request with one definition that breaks a rule is refused as a whole, so a definition is checked when it
is converted. The scripted providers reject requests by the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from fairlead_formats.request_rules.draft import draft_fault
from fairlead_formats.request_rules.rule import BrokenRule, SchemaCheck

DefinitionFaults: TypeAlias = Callable[[dict[str, Any], SchemaCheck], Iterator[BrokenRule]]
"""Rules that a definition in its provider's form breaks, except rules about its name."""


def rejection_by(faults: DefinitionFaults) -> Callable[[dict[str, Any]], str | None]:
    """A function that names the first rule that a definition breaks, with the provider's message about it; None for a
    definition that breaks none.
    """

    def rejection(definition: dict[str, Any]) -> str | None:
        broken_rule = next(faults(definition, draft_fault), None)
        return None if broken_rule is None else f"{broken_rule.rule.name}, {broken_rule.message}"

    return rejection
