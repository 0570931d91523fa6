"""Who may give the name of an agent or a group: each issuer, API keys, the API server. Pure module.

Two of them may give the same name to different people, so a name belongs to its issuer. In policies and settings
it is written with its issuer. One without an issuer is that of:

- ServiceAccounts, where their tokens are taken and it is a group that begins with `system:`, which Kubernetes reserves;
- else API keys, where one of them carries it;
- else the issuer, where there is one only.

Where there are several issuers it is nobody's: it allows nothing, and restricts everybody who has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from fairlead_api.bad_setting import BadSetting
from fairlead_api.documents.rules import Policy, Subject
from fairlead_api.policies.subjects import AGENT, ANY_ISSUER, API_KEYS, CLAIM, GROUP, SERVICE_ACCOUNTS, Key, key_of_name

SYSTEM: Final = "system:"
"""Beginning of the groups that Kubernetes gives."""


class Issuers(msgspec.Struct, frozen=True, kw_only=True):
    """The issuers of one gateway, and which names each of them may give."""

    tokens: tuple[tuple[str, ...], ...] = ()
    """Names of each issuer of tokens: as in `iss`, and the short one of the configuration."""
    api_keys: bool = False
    """Whether API keys are taken."""
    service_accounts: bool = False
    """Whether tokens of ServiceAccounts are taken."""
    carried: Callable[[Key], bool] = lambda key: False
    """Whether an API key has a name."""

    @property
    def several(self) -> bool:
        """Whether there are two issuers of tokens or more."""
        return len(self.tokens) > 1

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Every name that may stand before a `#`, the short ones first."""
        every = [name for names in self.tokens for name in reversed(names)]
        every += [API_KEYS] * self.api_keys + [SERVICE_ACCOUNTS] * self.service_accounts
        return (*every, ANY_ISSUER) if every else ()

    def called(self, name: str) -> tuple[str, ...] | None:
        """All names of the issuer that goes by one; None: there is no such."""
        if name in (API_KEYS, SERVICE_ACCOUNTS):
            return (name,)
        return next((names for names in self.tokens if name in names), None)

    def of_token(self, agent: str | None, groups: Iterable[str]) -> frozenset[Key]:
        """Names in a token that without an issuer may be somebody else's."""
        keys = keys_of_names(agent, groups)
        keys_of_issuer = {key for key in keys if self.several or self._is_reserved(key) or self.carried(key)}
        return frozenset(keys_of_issuer | {(CLAIM,)}) if self.several else frozenset(keys_of_issuer)

    def of_api_key(self, groups: Iterable[str]) -> frozenset[Key]:
        """Groups of an API key that without an issuer may be somebody else's."""
        return frozenset(key for group in groups if self._is_reserved(key := (GROUP, group)))

    def unnamed(self, agent: str | None, groups: Iterable[str]) -> tuple[tuple[str, ...], frozenset[Key]]:
        """Issuer of names that are spoken of without one, and those of them that may be anybody's."""
        keys = keys_of_names(agent, groups)
        if self.several:
            free = {key for key in keys if not self._is_reserved(key) and not self.carried(key)}
            return (), frozenset(free | {(CLAIM,)})
        if self.api_keys and (not self.tokens or any(self.carried(key) for key in keys)):
            return (API_KEYS,), self.of_api_key(groups)
        return (self.tokens[0] if self.tokens else ()), self.of_token(agent, groups)

    def groups(self, setting: str, given: Iterable[str]) -> frozenset[Key]:
        """Groups in a setting, each written `NAME` or `ISSUER#NAME`. Raises BadSetting for one that may be that of
        several issuers.
        """
        groups: set[Key] = set()
        issuers = self.prefixes
        for text in given:
            issuer, sharp, name = text.partition("#")
            if sharp and issuer in issuers:
                groups.add(key_of_name(GROUP, name, issuer))
            elif self.several and not self._is_reserved((GROUP, text)):
                raise BadSetting(
                    f"{setting}: each of {len(self.tokens)} issuers may say that somebody is in {text!r}: write "
                    f"ISSUER#{text}, with one of {', '.join(issuers[:8])} as ISSUER; * is any of them"
                )
            else:
                groups.add(key_of_name(GROUP, text))
        return frozenset(groups)

    def without_issuer(self, policies: Iterable[Policy]) -> tuple[str, ...]:
        """`namespace/name` of the policies with a subject that needs an issuer here and has none: it only restricts."""
        return tuple(
            f"{policy.namespace}/{policy.name}"
            for policy in policies
            if self.several and any(map(self._is_anybodys, policy.subjects))
        )

    def _is_anybodys(self, subject: Subject) -> bool:
        if subject.issuer is not None or subject.kind not in (AGENT, GROUP, CLAIM):
            return False
        key = key_of_name(subject.kind, subject.name or "")
        return subject.kind == CLAIM or not (self._is_reserved(key) or self.carried(key))

    def _is_reserved(self, key: Key) -> bool:
        return self.service_accounts and key[0] == GROUP and key[1].startswith(SYSTEM)


def keys_of_names(agent: str | None, groups: Iterable[str]) -> list[Key]:
    """Keys of an agent and groups, without an issuer."""
    return [*([] if agent is None else [(AGENT, agent)]), *((GROUP, group) for group in groups)]
