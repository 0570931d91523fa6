"""Subjects of policies. This module has no I/O.

The name of an agent, a group or a claim is only as trustworthy as the issuer of the name. A subject with `issuer`
applies to names from that issuer. A subject without `issuer` applies to everybody of that name if there is only one
issuer. If there are several issuers, the intended issuer is unknown, and the policy only restricts the subject: see
`merge.restrict`.
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
"""Issuer of the names of API keys."""
SERVICE_ACCOUNTS: Final = "serviceAccounts"
"""Issuer of the groups that the API server assigns to ServiceAccounts."""
ANY_ISSUER: Final = "*"
"""Value of a subject's `issuer` that matches every issuer."""

Key = tuple[str, ...]
"""Kind of a subject, and the values that identify it."""
NO_CLAIMS: Final[Mapping[str, Any]] = MappingProxyType({})


def keys_of(
    agent: str | None,
    groups: Iterable[str],
    service_account: tuple[str, str] | None,
    *,
    authenticated: bool,
    issuers: Iterable[str] = (),
) -> tuple[Key, ...]:
    """All subject keys of a principal, except for claims: `PoliciesBySubject` looks up only the claims that policies
    name. `issuers`: the names of the issuer from which agent and groups come.
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
    """Key of a policy's subject in that namespace. The key of an unknown kind matches nobody."""
    if subject.kind in (ANY, AUTHENTICATED):
        return (subject.kind,)
    if subject.kind == SERVICE_ACCOUNT:
        return (subject.kind, subject.namespace or namespace, subject.name or "")
    if subject.kind == CLAIM:
        return (subject.kind, subject.name or "", subject.value or "", subject.issuer or "")
    return key_of_name(subject.kind, subject.name or "", subject.issuer)


def key_of_name(kind: str, name: str, issuer: str | None = None) -> Key:
    """Key of an agent or a group. Without an issuer, it stands for all agents or groups of that name."""
    return (kind, name) if issuer is None else (kind, name, issuer)


def claim(claims: Mapping[str, Any], name: str) -> Any:
    """Value of a token's claim; None if it is absent. If no claim has the whole name, the name is a path into objects:
    `realm.roles` is the member `roles` of the claim `realm`.
    """
    if name in claims:
        return claims[name]
    value: Any = claims
    for step in name.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def claim_values(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """Values of a claim that a subject can match: the claim itself, or each entry of a list."""
    value = claim(claims, name)
    entries = value if isinstance(value, list) else [value]
    return frozenset(word for entry in entries if (word := _word(entry)) is not None)


def _word(value: Any) -> str | None:
    """The value in the notation of manifests; None for types that have more than one notation."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return value if isinstance(value, str) else None


class PoliciesBySubject:
    """Index of policies by the subjects to which they apply."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._by_key: dict[Key, list[int]] = {}
        for position, policy in enumerate(policies):
            keys = {key_of(subject, policy.namespace) for subject in policy.subjects} or {(ANY,)}
            for key in keys:
                self._by_key.setdefault(key, []).append(position)
        self._claims = frozenset(key[1] for key in self._by_key if key[0] == CLAIM)
        """Names of all claims that policies name."""

    def of(
        self,
        keys: Iterable[Key],
        claims: Mapping[str, Any] = NO_CLAIMS,
        issuers: Iterable[str] = (),
        doubtful: Collection[Key] = (),
    ) -> tuple[int, ...]:
        """Positions of the policies that apply to a principal with all these keys, in order; `~position` for policies
        that only restrict. `claims` are the token's claims, `issuers` the names of its issuer. `doubtful` has keys that
        other issuers could assign too, or `(CLAIM,)` for all claims without an issuer.
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
