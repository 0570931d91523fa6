"""Routes: named lists of models that are tried in order, with limits on the tools of each request.

Pure module. Routes are part of the installation's configuration. A request may also bring a list of models of its own.
Example:

    routes:
      default: {models: [gpt-5-mini, {model: claude-sonnet-5, format: anthropic}], maxTools: 40}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_formats.registry import OPENAI_CHAT, PROVIDER_FORMATS, canonical_name
from fairlead_formats.tokens.models import ContextWindow, ContextWindows, Family, family_of
from fairlead_formats.tokens.named_entries import WrongEntries, convert_entries

RESERVED_OUTPUT_TOKENS: Final = 4096
"""Default number of tokens reserved for the answer."""
_FORMAT_OF_FAMILY: Final = {
    family: name for name, provider_format in PROVIDER_FORMATS.items() for family in provider_format.families
}


class RouteModel(msgspec.Struct, frozen=True):
    """One model of a route."""

    name: str
    window: ContextWindow
    format: str = OPENAI_CHAT
    max_tools: int | None = None
    """Maximum number of tools that the provider accepts."""
    family: Family | None = None
    """Family with the tokenizer factors; None: derived from the name."""


class PlanLimits(msgspec.Struct, frozen=True):
    """Limits of a route, a policy and a request together; the smallest of each applies."""

    max_tools: int | None = None
    """Maximum number of tools; None: unlimited."""
    tool_tokens: int | None = None
    """Maximum size of all tools, in the model's tokens; None: unlimited."""
    reserved_output: int = RESERVED_OUTPUT_TOKENS
    """Tokens reserved for the answer."""
    shorten: bool = False
    """Whether descriptions may be shortened before a tool is left out."""
    reserved_floor: int = 0
    """Minimum of `reserved_output`. The route sets it, and a request cannot lower it."""

    def combine_with(self, other: PlanLimits) -> PlanLimits:
        """The stricter of each two limits. A limit that only one of them sets applies."""
        return PlanLimits(
            smaller_limit(self.max_tools, other.max_tools),
            smaller_limit(self.tool_tokens, other.tool_tokens),
            max(self.reserved_output, other.reserved_output),
            self.shorten or other.shorten,
            max(self.reserved_floor, other.reserved_output),
        )


def smaller_limit(a: int | None, b: int | None) -> int | None:
    """The smaller of two limits; None means unlimited."""
    return min(a, b) if a is not None and b is not None else a if b is None else b


class InvalidRoute(ValueError):
    """A route that cannot be read; the message names the location."""


class ModelChoice(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One model of a route."""

    model: str
    format: str | None = None
    """Name or alias of a format; None: the format of the model's family, or else Chat Completions."""


class ModelRoute(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Models in the order in which they are tried."""

    models: tuple[ModelChoice | str, ...]
    max_tools: int | None = None
    tool_tokens: int | None = None
    reserved_output_tokens: int = RESERVED_OUTPUT_TOKENS
    shorten_descriptions: bool = False

    @property
    def limits(self) -> PlanLimits:
        """Limits of the route. `PlanLimits.combine_with` combines them with the limits of a policy or a request."""
        return PlanLimits(self.max_tools, self.tool_tokens, self.reserved_output_tokens, self.shorten_descriptions)


def read_routes(document: object) -> dict[str, ModelRoute]:
    """Read routes by name from decoded configuration. Raises InvalidRoute, UnknownFormat."""
    try:
        routes = convert_entries(document, ModelRoute)
    except WrongEntries as error:
        raise InvalidRoute(f"routes: {error}") from error
    for name, route in routes.items():
        if not route.models:
            raise InvalidRoute(f"routes: {name} lists no model; name at least one")
        for choice in route.models:
            format_for(choice)
    return routes


def format_for(choice: ModelChoice | str) -> str:
    """The canonical name of a model's format. Raises UnknownFormat."""
    if isinstance(choice, str):
        choice = ModelChoice(choice)
    if choice.format is not None:
        return canonical_name(choice.format)
    return _FORMAT_OF_FAMILY.get(family_of(choice.model).name, OPENAI_CHAT)


def models_for(
    choices: Sequence[ModelChoice | str], windows: ContextWindows, max_tools: Mapping[str, Any]
) -> list[RouteModel]:
    """Models for a plan. `max_tools`: maps formats to the provider's maximum, or None. Raises UnknownFormat."""
    models = []
    for choice in choices:
        name = choice if isinstance(choice, str) else choice.model
        format_name = format_for(choice)
        models.append(RouteModel(name, windows.window(name), format_name, max_tools.get(format_name)))
    return models
