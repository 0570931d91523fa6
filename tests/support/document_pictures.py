"""Compares the documents of two operators, without their timestamps."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.codec import RULES_NAME, SERVERS_NAME, decode
from fairlead_api.documents.rules import Rules
from fairlead_api.documents.servers import WAITING, Servers
from operatorworld import Json, World

Picture = dict[str, Any]


def picture_of(world: World) -> Picture:
    """Content of the documents without timestamps."""
    catalogs: Json = {}
    picture: Picture = {"catalogs": catalogs, "rules": None, "servers": None}
    for name, data in world.documents().items():
        document = decode(data)
        if isinstance(document, Catalog):
            plain = msgspec.structs.replace(document, updated_at="", refreshed=None, generation=0)
            catalogs[document.name] = msgspec.json.decode(msgspec.json.encode(plain))
        elif isinstance(document, Rules):
            picture["rules"] = msgspec.json.decode(msgspec.json.encode(document))
            picture["policies"] = sorted(policy.name for policy in document.policies)
            picture["tiers"] = sorted(tier.name for tier in document.tiers)
        elif isinstance(document, Servers):
            picture["servers"] = [(entry.name, entry.prefix, entry.state, entry.reason) for entry in document.servers]
        assert name != RULES_NAME or picture["rules"]
        assert name != SERVERS_NAME or picture["servers"] is not None
    return picture


def complete(picture: Picture, declared: dict[str, set[str]]) -> bool:
    """Whether a picture contains exactly the declared servers, and each server is as far as it can get."""
    states = {name: state for name, _, state, _ in picture["servers"] or ()}
    return (
        WAITING not in states.values()
        and not declared["catalogs"] & states.keys()  # a ready server has no entry, except one that answered slowly
        and set(picture["catalogs"]) == declared["catalogs"]
        and picture.get("policies") == sorted(declared["toolpolicies"])
        and picture.get("tiers") == sorted(declared["latencytiers"])
    )


def differences(actual: Any, wanted: Any, path: str = "") -> list[str]:
    """Lines that describe the differences between two pictures."""
    if isinstance(actual, dict) and isinstance(wanted, dict):
        members = [*wanted, *(member for member in actual if member not in wanted)]
        return [
            line
            for member in members
            for line in differences(actual.get(member), wanted.get(member), f"{path}/{member}")
        ]
    return [] if actual == wanted else [f"{path}: {actual!r}, and not {wanted!r}"]
