"""Identity of the person or ServiceAccount that a token's claims describe. Pure module.

For one person, a token of the issuer and a token that the gateway issued give the same identity.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from fairlead_api.policies.subjects import SERVICE_ACCOUNTS, claim
from fairlead_gateway.core.identity import Identity, ServiceAccount
from fairlead_gateway.identity.issuers_file import Issuer
from fairlead_gateway.identity.names import Issuers
from fairlead_gateway.identity.refusal import CredentialRefusal

MAX_GROUPS: Final = 256


def token_identity(
    claims: Mapping[str, Any],
    issuer: Issuer,
    issuer_names: Issuers,
    *,
    agent: str | None,
    scopes: frozenset[str],
    credential: str,
    expires_at: float,
    resource: str = "",
    issued_here: bool = False,
    of_anybody: bool = False,
    session: str = "",
) -> Identity:
    """Identity by the verified claims of a token of `issuer`; `sub` must be a string. `issuer_names` are all issuers
    that policies may name.
    """
    groups = frozenset(words_of(claim(claims, issuer.groups_claim), whole=True)[:MAX_GROUPS])
    return Identity(
        kind="jwt",
        principal=jwt_principal(issuer.issuer, claims["sub"], agent),
        agent=agent,
        groups=groups,
        issuers=issuer.names,
        doubtful=issuer_names.ambiguous_names_of_token(agent, groups),
        scopes=scopes,
        claims=claims,
        credential=credential,
        resource=resource,
        issued_here=issued_here,
        of_anybody=of_anybody,
        session=session,
        expires_at=expires_at,
    )


def service_account_identity(account: ServiceAccount, groups: Collection[str], uid: str, expires_at: float) -> Identity:
    """Identity of a ServiceAccount, by the verified content of its token."""
    return Identity(
        kind="serviceAccount",
        principal=f"sa:{account.namespace}/{account.name}",
        groups=frozenset(groups),
        issuers=(SERVICE_ACCOUNTS,),
        service_account=account,
        credential=uid,
        expires_at=expires_at,
    )


def jwt_principal(issuer: str, subject: str, agent: str | None) -> str:
    """Principal of a JWT (`Identity.principal`), from issuer, subject and agent."""
    return f"{_person(issuer, subject)}/{quote(agent or '', safe='')}"


def jwt_person(issuer: str, subject: str) -> bytes:
    """Key of a person (`Identity.person`), from issuer and subject."""
    return _person(issuer, subject).encode("utf-8", "surrogatepass")


def _person(issuer: str, subject: str) -> str:
    return f"jwt:{issuer}#{quote(subject, safe='')}"


def scope_refusal(scopes: Collection[str], required: Sequence[str]) -> CredentialRefusal | None:
    """Rejection of a token without all required scopes; None if it has them."""
    missing_scopes = [scope for scope in required if scope not in scopes]
    if not missing_scopes:
        return None
    return CredentialRefusal(403, f"the token lacks the scope {' '.join(missing_scopes)}", "insufficient_scope")


def words_of(value: Any, *, whole: bool = False) -> list[str]:
    """Strings of a claim that is a list or one string. A string is split at spaces, unless it is `whole`."""
    if isinstance(value, str):
        return [value] if whole else value.split()
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []
