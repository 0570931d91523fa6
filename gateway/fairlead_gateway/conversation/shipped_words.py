"""Built-in keywords and commands for tiers named `fast`, `standard` and `deep`, read from `words.yaml`.

A LatencyTier enables them by `shippedWords`; neither LatencyTiers nor rules documents contain the words.
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
    """Comma-separated phrases of one tier; keywords are grouped by topic."""

    keywords: dict[str, str]
    commands: str


def words_of(tier: Tier) -> tuple[list[str], list[str]]:
    """Keywords and commands of a tier, without duplicates: first shipped words, if the tier enables them, then the
    tier's own words."""
    selection = tier.selection
    shipped = shipped_words().get(tier.name) if selection.shipped_words else None
    if shipped is None:
        return list(selection.keywords), list(selection.commands)
    keywords = [phrase for phrase_list in shipped.keywords.values() for phrase in phrases(phrase_list)]
    return (
        list(dict.fromkeys([*keywords, *selection.keywords])),
        list(dict.fromkeys([*phrases(shipped.commands), *selection.commands])),
    )


@cache
def shipped_words() -> Mapping[str, ShippedWords]:
    """Shipped words by tier name."""
    import yaml  # takes 1 MB, so it is imported only when a tier is chosen

    text = files(__package__).joinpath(_FILE).read_text("utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # 18 ms instead of 120 ms
    return msgspec.convert(yaml.load(text, loader), dict[str, ShippedWords])  # noqa: S506  # both loaders are safe


def phrases(phrase_list: str) -> list[str]:
    """Split comma-separated phrases."""
    return [" ".join(phrase.split()) for phrase in phrase_list.split(",")]
