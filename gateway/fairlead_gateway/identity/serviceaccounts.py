"""Authenticates tokens of ServiceAccounts by TokenReviews of the API server.

TokenReviews are cluster-scoped, so the gateway needs a ClusterRole; installations that are limited to their namespace
cannot accept such tokens.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead_gateway.core.identity import Kind, ServiceAccount
from fairlead_gateway.identity.audiences import is_among, spellings
from fairlead_gateway.identity.authenticator import Revoke, Verdict
from fairlead_gateway.identity.jwt_authenticator import MAX_TOKEN, json_of
from fairlead_gateway.identity.refusal import UNAVAILABLE, CredentialRefusal
from fairlead_gateway.identity.token_identity import service_account_identity
from fairlead_kube.client import Kube
from fairlead_kube.errors import ApiError
from fairlead_kube.resources import TOKEN_REVIEWS

log = logging.getLogger(__name__)

REFUSED: Final = CredentialRefusal(401, "the API server does not accept this token", "invalid_token")
OTHERS: Final = CredentialRefusal(401, "the token is for another audience, or not of a ServiceAccount", "invalid_token")
_USER: Final = "system:serviceaccount:"


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []


class _ReviewStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    audiences: list[str] = []


class _TokenReview(msgspec.Struct):
    status: _ReviewStatus


class ServiceAccountTokens:
    """`Authenticator` of ServiceAccount tokens. The result of a review is cached for `seconds`."""

    kind: Kind = "serviceAccount"

    def __init__(self, kube: Kube, audiences: Sequence[str], seconds: float) -> None:
        self._kube = kube
        self._audiences = tuple(audiences)
        self.cache_seconds = seconds

    def recognizes(self, token: str) -> bool:
        """Whether the token is a JWT whose subject is a ServiceAccount. The claim `iss` is not checked here, because
        only the API server knows its issuer name.
        """
        claims = _claims(token)
        return claims is not None and str(claims.get("sub", "")).startswith(_USER)

    def check(self, token: str) -> Verdict | None:
        return None

    async def look_up(self, token: str) -> Verdict:
        try:
            spec = {"token": token, "audiences": spellings(self._audiences)}
            review = (await self._kube.review(TOKEN_REVIEWS, spec, _TokenReview)).status
        except ApiError as error:
            log.warning("A token of a ServiceAccount cannot be verified by the API server: %s", error)
            return UNAVAILABLE
        if not review.authenticated:
            return REFUSED
        parts = review.user.username.removeprefix(_USER).split(":")
        is_accepted = is_among(review.audiences, self._audiences)
        if not is_accepted or not review.user.username.startswith(_USER) or len(parts) != 2:
            return OTHERS
        expires = (_claims(token) or {}).get("exp")
        return service_account_identity(
            ServiceAccount(parts[0], parts[1]),
            review.user.groups,
            review.user.uid,
            float(expires) if isinstance(expires, int) else float("inf"),
        )

    async def start(self, revoke: Revoke) -> None:
        pass

    async def aclose(self) -> None:
        pass


def _claims(token: str) -> dict[str, object] | None:
    parts = token.split(".")
    claims = json_of(parts[1]) if len(parts) == 3 and len(token) <= MAX_TOKEN else None
    return None if claims is None else dict(claims)
