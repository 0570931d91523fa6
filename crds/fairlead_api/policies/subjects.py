"""Whom policies speak of. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from fairlead_api.documents.rules import Policy, Subject

AGENT: Final = "Agent"
GROUP: Final = "Group"
SERVICE_ACCOUNT: Final = "ServiceAccount"
AUTHENTICATED: Final = "Authenticated"
ANY: Final = "Any"

Key = tuple[str, ...]
"""Kind, and what else tells a subject apart."""


def keys_of(
    agent: str | None, groups: Iterable[str], service_account: tuple[str, str] | None, *, authenticated: bool
) -> tuple[Key, ...]:
    """Every subject that somebody is."""
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
    return (subject.kind, subject.name or "")


class Speakers:
    """Which policies speak of whom."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._by_key: dict[Key, list[int]] = {}
        for place, policy in enumerate(policies):
            keys = {key_of(subject, policy.namespace) for subject in policy.subjects} or {(ANY,)}
            for key in keys:
                self._by_key.setdefault(key, []).append(place)

    def of(self, keys: Iterable[Key]) -> tuple[int, ...]:
        """Places of the policies that speak of somebody who is all of these, in order."""
        return tuple(sorted({place for key in keys for place in self._by_key.get(key, ())}))
