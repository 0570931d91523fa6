"""Whom policies speak of. Pure.

A name of an agent, a group or a claim is worth what its issuer is worth: a subject with `issuer` is about the names
that this one gives. A subject without is about everybody of that name, unless several issuers may give it. Then nobody
can say whose it is, and the policy only restricts those who have it: see `merge.restricting`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from fairlead_api.documents.rules import Policy, Subject

AGENT: Final = "Agent"
GROUP: Final = "Group"
SERVICE_ACCOUNT: Final = "ServiceAccount"
CLAIM: Final = "Claim"
AUTHENTICATED: Final = "Authenticated"
ANY: Final = "Any"
API_KEYS: Final = "apiKeys"
"""Issuer of the names that API keys carry."""
SERVICE_ACCOUNTS: Final = "serviceAccounts"
"""Issuer of the groups that the API server gives to ServiceAccounts."""
ANY_ISSUER: Final = "*"
"""Every issuer, on purpose."""

Key = tuple[str, ...]
"""Kind, and what else tells a subject apart."""
NO_CLAIMS: Final[Mapping[str, Any]] = MappingProxyType({})


def keys_of(
    agent: str | None,
    groups: Iterable[str],
    service_account: tuple[str, str] | None,
    *,
    authenticated: bool,
    issuers: Iterable[str] = (),
) -> tuple[Key, ...]:
    """Every subject that somebody is, without claims: only those that policies ask about are looked at. `issuers`: the
    names of the one that vouches for agent and groups.
    """
    keys: list[Key] = [(ANY,)]
    if authenticated:
        keys.append((AUTHENTICATED,))
    if service_account is not None:
        keys.append((SERVICE_ACCOUNT, *service_account))
    names: list[Key] = [] if agent is None else [(AGENT, agent)]
    names += [(GROUP, group) for group in groups]
    keys += names
    keys += [(*name, issuer) for name in names for issuer in (*issuers, ANY_ISSUER)]
    return tuple(keys)


def key_of(subject: Subject, namespace: str) -> Key:
    """Key of a policy's subject in that namespace. One of an unknown kind matches nobody."""
    if subject.kind in (ANY, AUTHENTICATED):
        return (subject.kind,)
    if subject.kind == SERVICE_ACCOUNT:
        return (subject.kind, subject.namespace or namespace, subject.name or "")
    if subject.kind == CLAIM:
        return (subject.kind, subject.name or "", subject.value or "", subject.issuer or "")
    return named(subject.kind, subject.name or "", subject.issuer)


def named(kind: str, name: str, issuer: str | None = None) -> Key:
    """Key of an agent or a group; without an issuer, of everybody of that name."""
    return (kind, name) if issuer is None else (kind, name, issuer)


def claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim of a token; where there is none of that name, the one that dots lead to. None: there is none."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for step in name.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def claim_values(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """Values of a claim that a subject may name: the claim itself, or each entry of a list."""
    value = claim(claims, name)
    entries = value if isinstance(value, list) else [value]
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
        for position, policy in enumerate(policies):
            keys = {key_of(subject, policy.namespace) for subject in policy.subjects} or {(ANY,)}
            for key in keys:
                self._by_key.setdefault(key, []).append(position)
        self._claims = frozenset(key[1] for key in self._by_key if key[0] == CLAIM)

    def of(
        self,
        keys: Iterable[Key],
        claims: Mapping[str, Any] = NO_CLAIMS,
        issuers: Iterable[str] = (),
        doubtful: Collection[Key] = (),
    ) -> tuple[int, ...]:
        """Places of the policies that speak of somebody who is all of these, in order; `~place` of those that only
        restrict. `claims` are those of the token, `issuers` the names of its issuer. `doubtful`: keys that other
        issuers may give as well, or `(CLAIM,)` for all claims without an issuer.
        """
        issuer_values = "", *claim_values(claims, "iss"), *issuers, ANY_ISSUER
        spoken = (
            (CLAIM, name, value, issuer)
            for name in (self._claims if claims else ())
            for value in claim_values(claims, name)
            for issuer in issuer_values
        )
        certain: set[int] = set()
        doubted: set[int] = set()
        for key in (*keys, *spoken):
            unsure = key in doubtful or (key[0] == CLAIM and not key[3] and (CLAIM,) in doubtful)
            (doubted if unsure else certain).update(self._by_key.get(key, ()))
        return tuple(sorted({*certain, *(~position for position in doubted - certain)}))
