"""Words that ship for tiers named `fast`, `standard` and `deep`: read from `words.yaml` where a tier asks for them.

They stand in no LatencyTier and in no rules document, which name them by `shippedWords`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from fairlead_api.documents.rules import Tier

_FILE: Final = "words.yaml"


class ShippedWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Phrases of one tier between commas, the keywords in lists by what they listen for."""

    keywords: dict[str, str]
    commands: str


def words_of(tier: Tier) -> tuple[list[str], list[str]]:
    """Keywords and commands that count for a tier, each once; those that ship, where it asks for them, come first."""
    selection = tier.selection
    shipped = shipped_words().get(tier.name) if selection.shipped_words else None
    if shipped is None:
        return list(selection.keywords), list(selection.commands)
    keywords = [phrase for listed in shipped.keywords.values() for phrase in phrases(listed)]
    return (
        list(dict.fromkeys([*keywords, *selection.keywords])),
        list(dict.fromkeys([*phrases(shipped.commands), *selection.commands])),
    )


@cache
def shipped_words() -> Mapping[str, ShippedWords]:
    """Words by name of the tier."""
    import yaml  # a megabyte, which a gateway does without until it chooses a tier

    text = files(__package__).joinpath(_FILE).read_text("utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # 18 ms in place of 120, where it was built with libyaml
    return msgspec.convert(yaml.load(text, loader), dict[str, ShippedWords])  # noqa: S506  # both loaders are safe ones


def phrases(listed: str) -> list[str]:
    """Phrases between commas."""
    return [" ".join(phrase.split()) for phrase in listed.split(",")]
