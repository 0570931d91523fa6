"""Finds the format that a request names."""

from __future__ import annotations

from fairlead_formats import registry
from fairlead_formats.tool_format import Format
from fairlead_offers.problems import UNKNOWN_FORMAT, Problem


def find_format(name: str) -> Format:
    """The format of that name or alias, in any case. Raises Problem, which names those that there are."""
    try:
        return registry.find(name)
    except registry.UnknownFormat as error:
        raise Problem(UNKNOWN_FORMAT, str(error), existing=error.known) from error
