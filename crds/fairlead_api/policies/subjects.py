"""Whom policies speak of. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from fairlead_api.documents.rules import Policy, Subject

AGENT: Final = "Agent"
GROUP: Final = "Group"
SERVICE_ACCOUNT: Final = "ServiceAccount"
CLAIM: Final = "Claim"
AUTHENTICATED: Final = "Authenticated"
ANY: Final = "Any"

Key = tuple[str, ...]
"""Kind, and what else tells a subject apart."""
NO_CLAIMS: Final[Mapping[str, Any]] = MappingProxyType({})


def keys_of(
    agent: str | None, groups: Iterable[str], service_account: tuple[str, str] | None, *, authenticated: bool
) -> tuple[Key, ...]:
    """Every subject that somebody is, without claims: only those that policies ask about are looked at."""
    found: list[Key] = [(ANY,)]
    if authenticated:
        found.append((AUTHENTICATED,))
    if agent is not None:
        found.append((AGENT, agent))
    if service_account is not None:
        found.append((SERVICE_ACCOUNT, *service_account))
    found += [(GROUP, group) for group in groups]
    return tuple(found)


def key_of(subject: Subject, namespace: str) -> Key:
    """Of a subject of a policy in that namespace. One of a kind that nobody knows is nobody."""
    if subject.kind in (ANY, AUTHENTICATED):
        return (subject.kind,)
    if subject.kind == SERVICE_ACCOUNT:
        return (subject.kind, subject.namespace or namespace, subject.name or "")
    if subject.kind == CLAIM:
        return (subject.kind, subject.name or "", subject.value or "", subject.issuer or "")
    return (subject.kind, subject.name or "")


def claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim of a token; where there is none of that name, the one that dots lead to. None: there is none."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for step in name.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def claim_values(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """What a claim is compared with: itself, or each of its entries."""
    found = claim(claims, name)
    entries = found if isinstance(found, list) else [found]
    return frozenset(word for entry in entries if (word := _word(entry)) is not None)


def _word(value: Any) -> str | None:
    """As a manifest gives it; nothing that two ways of writing could make another of."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return value if isinstance(value, str) else None


class Speakers:
    """Which policies speak of whom."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._by_key: dict[Key, list[int]] = {}
        for place, policy in enumerate(policies):
            keys = {key_of(subject, policy.namespace) for subject in policy.subjects} or {(ANY,)}
            for key in keys:
                self._by_key.setdefault(key, []).append(place)
        self._claims = frozenset(key[1] for key in self._by_key if key[0] == CLAIM)

    def of(self, keys: Iterable[Key], claims: Mapping[str, Any] = NO_CLAIMS) -> tuple[int, ...]:
        """Places of the policies that speak of somebody who is all of these, in order. `claims`: of the token."""
        issuers = "", *claim_values(claims, "iss")
        said = (
            (CLAIM, name, value, issuer)
            for name in (self._claims if claims else ())
            for value in claim_values(claims, name)
            for issuer in issuers
        )
        return tuple(sorted({place for key in (*keys, *said) for place in self._by_key.get(key, ())}))
