"""Lookup of the tool format that a request names."""

from __future__ import annotations

from fairlead_formats import registry
from fairlead_formats.tool_format import Format
from fairlead_offers.problems import UNKNOWN_FORMAT, Problem


def find_format(name: str) -> Format:
    """Find a format by case-insensitive name or alias. Raises Problem, which lists the existing formats."""
    try:
        return registry.find(name)
    except registry.UnknownFormat as error:
        raise Problem(UNKNOWN_FORMAT, str(error), existing=error.known) from error
