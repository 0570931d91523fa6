"""Resolves names of agents and groups to their issuers: issuers of tokens, API keys, or the API server. Pure module.

Two issuers may give the same name to different principals, so policies and settings name the issuer too. A name without
an issuer belongs to:

- ServiceAccounts, if their tokens are accepted and the name is a group that begins with `system:` (reserved by
  Kubernetes);
- else API keys, if any API key has the name;
- else the issuer of tokens, if there is only one.

With several issuers of tokens, a name without an issuer is ambiguous. A policy with an ambiguous name grants nothing to
the principals that have the name, and restricts all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from fairlead_api.bad_setting import BadSetting
from fairlead_api.documents.rules import Policy, Subject
from fairlead_api.policies.subjects import AGENT, ANY_ISSUER, API_KEYS, CLAIM, GROUP, SERVICE_ACCOUNTS, Key, key_of_name

SYSTEM: Final = "system:"
"""Prefix of the groups that Kubernetes issues."""


class Issuers(msgspec.Struct, frozen=True, kw_only=True):
    """The issuers of names that one gateway accepts."""

    tokens: tuple[tuple[str, ...], ...] = ()
    """Names of each issuer of tokens: its `iss`, and its short name in the configuration."""
    api_keys: bool = False
    """Whether API keys are accepted."""
    service_accounts: bool = False
    """Whether tokens of ServiceAccounts are accepted."""
    is_name_of_key: Callable[[Key], bool] = lambda key: False
    """Returns whether any API key has the given agent or group."""

    @property
    def has_several(self) -> bool:
        """Whether there are two or more issuers of tokens."""
        return len(self.tokens) > 1

    @property
    def prefixes(self) -> tuple[str, ...]:
        """All names of issuers that may precede a `#`, short names first."""
        issuers = [name for names in self.tokens for name in reversed(names)]
        issuers += [API_KEYS] * self.api_keys + [SERVICE_ACCOUNTS] * self.service_accounts
        return (*issuers, ANY_ISSUER) if issuers else ()

    def names_of_issuer(self, name: str) -> tuple[str, ...] | None:
        """All names of the issuer with the name `name`; None if there is no such issuer."""
        if name in (API_KEYS, SERVICE_ACCOUNTS):
            return (name,)
        return next((names for names in self.tokens if name in names), None)

    def ambiguous_names_of_token(self, agent: str | None, groups: Iterable[str]) -> frozenset[Key]:
        """Agent and groups of a token that are ambiguous in a policy that names them without an issuer."""
        keys = keys_of_names(agent, groups)
        ambiguous = {key for key in keys if self.has_several or self._is_reserved(key) or self.is_name_of_key(key)}
        return frozenset(ambiguous | {(CLAIM,)}) if self.has_several else frozenset(ambiguous)

    def ambiguous_names_of_api_key(self, groups: Iterable[str]) -> frozenset[Key]:
        """Groups of an API key that are ambiguous in a policy that names them without an issuer."""
        return frozenset(key for group in groups if self._is_reserved(key := (GROUP, group)))

    def issuer_of_unqualified(self, agent: str | None, groups: Iterable[str]) -> tuple[tuple[str, ...], frozenset[Key]]:
        """Names of the issuer that an agent and groups without an issuer belong to (empty if unknown), and the names
        among them that are ambiguous.
        """
        keys = keys_of_names(agent, groups)
        if self.has_several:
            unreserved_names = {key for key in keys if not self._is_reserved(key) and not self.is_name_of_key(key)}
            return (), frozenset(unreserved_names | {(CLAIM,)})
        if self.api_keys and (not self.tokens or any(self.is_name_of_key(key) for key in keys)):
            return (API_KEYS,), self.ambiguous_names_of_api_key(groups)
        return (self.tokens[0] if self.tokens else ()), self.ambiguous_names_of_token(agent, groups)

    def groups(self, setting: str, texts: Iterable[str]) -> frozenset[Key]:
        """Parse the groups in a setting, each written `NAME` or `ISSUER#NAME`. Raises BadSetting for an ambiguous
        group.
        """
        groups: set[Key] = set()
        issuers = self.prefixes
        for text in texts:
            issuer, sharp, name = text.partition("#")
            if sharp and issuer in issuers:
                groups.add(key_of_name(GROUP, name, issuer))
            elif self.has_several and not self._is_reserved((GROUP, text)):
                raise BadSetting(
                    f"{setting}: group {text!r} is ambiguous, as there are {len(self.tokens)} issuers: write "
                    f"ISSUER#{text}, where ISSUER is one of {', '.join(issuers[:8])}; * is any issuer"
                )
            else:
                groups.add(key_of_name(GROUP, text))
        return frozenset(groups)

    def ambiguous_policies(self, policies: Iterable[Policy]) -> tuple[str, ...]:
        """`namespace/name` of the policies with an ambiguous subject, to which they grant nothing."""
        return tuple(
            f"{policy.namespace}/{policy.name}"
            for policy in policies
            if self.has_several and any(map(self._is_ambiguous, policy.subjects))
        )

    def _is_ambiguous(self, subject: Subject) -> bool:
        if subject.issuer is not None or subject.kind not in (AGENT, GROUP, CLAIM):
            return False
        key = key_of_name(subject.kind, subject.name or "")
        return subject.kind == CLAIM or not (self._is_reserved(key) or self.is_name_of_key(key))

    def _is_reserved(self, key: Key) -> bool:
        return self.service_accounts and key[0] == GROUP and key[1].startswith(SYSTEM)


def keys_of_names(agent: str | None, groups: Iterable[str]) -> list[Key]:
    """Keys of an agent and of groups without an issuer."""
    return [*([] if agent is None else [(AGENT, agent)]), *((GROUP, group) for group in groups)]
