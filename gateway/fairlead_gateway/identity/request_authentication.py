"""Authenticates requests: a cache of verdicts, with authenticators for credentials that are not in it.

Verdicts are cached by the whole `Authorization` header, until the credential expires or is revoked, and at most for the
time that its authenticator allows (`cache_seconds`). A request with an invalid credential is rejected and never treated
as anonymous. A token may be valid only at and below one path of the gateway, its resource (RFC 8707;
`refuse_elsewhere`).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from fairlead_gateway.core.identity import ANONYMOUS, LOCAL, Identity, SubjectToken
from fairlead_gateway.identity.audiences import is_at
from fairlead_gateway.identity.authenticator import Authenticator, Verdict
from fairlead_gateway.identity.refusal import (
    BUSY,
    MALFORMED,
    NO_CREDENTIAL,
    UNAVAILABLE,
    UNKNOWN_TOKEN,
    CredentialRefusal,
)

log = logging.getLogger(__name__)
CACHE_ENTRIES: Final = 8192
"""Credentials per generation of the cache. There are two generations, so between one and two times as many are
cached."""
CACHE_BYTES: Final = 16 << 20
"""Bytes of credentials per generation of the cache."""
REFUSAL_SECONDS: Final = 5.0
"""Seconds for which a rejection is cached, so that repeated attempts are cheap."""
MAX_REFUSALS: Final = 1024
"""Maximum number of cached rejections. They have a cache of their own, so that invalid credentials never displace valid
ones.
"""
MAX_LOOK_UPS: Final = 32
"""Maximum number of look-ups of credentials that run at once."""
MAX_PENDING: Final = 512
"""Maximum number of look-ups that run or wait; further requests are rejected."""
LOOK_UP_SECONDS: Final = 10.0
MAX_TOKEN: Final = 16 << 10
"""Characters; longer credentials are rejected without decoding."""
_BEARER: Final = re.compile(rb"(?i:bearer) +([A-Za-z0-9._~+/-]+=*)")
"""A bearer token in the `Authorization` header (RFC 6750 section 2.1)."""
_Entry = tuple[Identity, float]
"""An identity with the expiry of its cache entry in seconds since the epoch."""
PLAIN_PATH: Final = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:@-]+)*")
"""Pattern of a path that a token may be for. Percent-encoding is excluded, because proxies and servers interpret it
differently.
"""
_NO_NAMES: Final = frozenset({"", ".", ".."})
"""Path segments that are excluded, because proxies and servers may resolve them differently (RFC 3986 section
5.2.4)."""


class Identities:
    """Authenticates requests, with a cache. With `anonymous` and without authenticators, headers are ignored: every
    request is anonymous, or, with `local`, a request of the machine's owner. `seconds` is the timeout of a look-up;
    `now` returns seconds since the epoch.
    """

    def __init__(
        self,
        authenticators: Sequence[Authenticator] = (),
        *,
        anonymous: bool = True,
        local: bool = False,
        max_entries: int = CACHE_ENTRIES,
        seconds: float = LOOK_UP_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._authenticators = tuple(authenticators)
        self.open = anonymous and not authenticators
        """Whether every request is anonymous, since there are no authenticators."""
        self.local = self.open and local
        """Whether every request is from the machine's owner."""
        self._anybody = LOCAL if self.local else ANONYMOUS
        self.answers_anybody = anonymous
        """Whether requests without a credential are accepted."""
        self._now = now
        self._max_entries = max_entries
        self._seconds = seconds
        self._young_entries: dict[bytes | None, _Entry] = {}
        self._young_bytes = 0
        self._old_entries: dict[bytes | None, _Entry] = {}
        self._refusals: dict[bytes, tuple[CredentialRefusal, float]] = {}
        self._pending_tasks: dict[bytes, asyncio.Task[Verdict]] = {}
        self._slots = asyncio.Semaphore(MAX_LOOK_UPS)
        self._keeps_tokens = False
        self._subject_tokens: weakref.WeakSet[SubjectToken] = weakref.WeakSet()
        """Raw tokens of identities; empty unless `keep_tokens` was called."""
        self._watchers: dict[object, tuple[Identity, Callable[[], None]]] = {}
        self.outcomes: Counter[tuple[str, str]] = Counter()
        """Number of verdicts by kind of credential and outcome (`accepted`, `refused`, `unavailable`). Cached verdicts
        are not counted again.
        """

    def recall(self, authorization: bytes | None) -> Identity | None:
        """Cached identity of a request; None if it is not in the cache."""
        if self.open:
            return self._anybody
        entry = self._young_entries.get(authorization)
        if entry is not None and entry[1] > self._now():
            return entry[0]
        return ANONYMOUS if authorization is None and self.answers_anybody else None

    async def identify(self, authorization: bytes | None) -> Verdict:
        """Authenticate a request by its credential. Raises only CancelledError."""
        cached = self.recall(authorization)
        if cached is not None:
            return cached
        if authorization is None:
            return NO_CREDENTIAL
        older_verdict = self._recall_older(authorization)
        if older_verdict is not None:
            return older_verdict
        match = _BEARER.fullmatch(authorization)
        if match is None or len(authorization) > MAX_TOKEN:
            self.outcomes["none", "refused"] += 1
            return MALFORMED
        token = match.group(1).decode()
        for authenticator in self._authenticators:
            if authenticator.recognizes(token):
                return await self._verdict(authorization, token, authenticator)
        self.outcomes["none", "refused"] += 1
        return UNKNOWN_TOKEN

    def watch(self, identity: Identity, end: Callable[[], None]) -> Callable[[], None]:
        """Call `end` once when the identity is revoked or its credential expires, unless the returned function is
        called first.
        """
        if identity.kind == "anonymous":
            return _nothing
        watcher = object()
        self._watchers[watcher] = identity, end

        def release() -> None:
            self._watchers.pop(watcher, None)

        return release

    def revoke(self, concerns: Callable[[Identity], bool]) -> None:
        """Remove matching identities from the cache and call the callbacks of `watch` for them."""
        for entries in (self._young_entries, self._old_entries):
            for key in [key for key, (identity, _) in entries.items() if concerns(identity)]:
                del entries[key]
        self._refusals.clear()  # the change may also make rejected credentials valid
        self._end(concerns)

    def sweep(self) -> None:
        """Call the callbacks of `watch` for expired credentials. It has to be called about once per second."""
        if self._watchers:
            now = self._now()
            self._end(lambda identity: identity.expires_at <= now)

    def keep_tokens(self, are_needed: bool) -> None:
        """Store the raw token of each JWT with its identity, because a server needs it. Without `are_needed`, drop the
        stored tokens.
        """
        if are_needed == self._keeps_tokens:
            return
        self._keeps_tokens = are_needed
        if not are_needed:
            for token in self._subject_tokens:
                token.drop()
            return
        for entries in (self._young_entries, self._old_entries):
            for authorization, (identity, _) in entries.items():
                match = None if authorization is None else _BEARER.fullmatch(authorization)
                if match is not None:
                    self._store_token(identity, match.group(1).decode())

    async def start(self) -> None:
        """Start all authenticators."""
        for authenticator in self._authenticators:
            await authenticator.start(self.revoke)

    async def aclose(self) -> None:
        """Cancel all look-ups and close the authenticators."""
        tasks = [*self._pending_tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for authenticator in self._authenticators:
            await authenticator.aclose()

    async def _verdict(self, authorization: bytes, token: str, authenticator: Authenticator) -> Verdict:
        verdict = authenticator.check(token)
        if verdict is not None:
            return self._store_verdict(authorization, token, authenticator, verdict)
        task = self._pending_tasks.get(authorization)
        if task is None:
            if len(self._pending_tasks) >= MAX_PENDING:
                self.outcomes[authenticator.kind, "unavailable"] += 1
                return BUSY
            work = self._look_up(authorization, token, authenticator)
            task = asyncio.get_running_loop().create_task(work, name=f"look up a credential ({authenticator.kind})")
            self._pending_tasks[authorization] = task
            task.add_done_callback(lambda _: self._pending_tasks.pop(authorization, None))
        return await asyncio.shield(task)

    async def _look_up(self, authorization: bytes, token: str, authenticator: Authenticator) -> Verdict:
        try:
            async with asyncio.timeout(self._seconds), self._slots:
                verdict = await authenticator.look_up(token)
        except TimeoutError:
            verdict = UNAVAILABLE
        except Exception as error:  # noqa: BLE001  # a defect; its message and traceback might quote the credential
            log.error("A credential could not be looked up (%s): %s", authenticator.kind, type(error).__name__)
            verdict = UNAVAILABLE
        return self._store_verdict(authorization, token, authenticator, verdict)

    def _store_verdict(
        self, authorization: bytes, token: str, authenticator: Authenticator, verdict: Verdict
    ) -> Verdict:
        now = self._now()
        if isinstance(verdict, Identity):
            if self._keeps_tokens:
                self._store_token(verdict, token)
            self.outcomes[authenticator.kind, "accepted"] += 1
            self._remember(authorization, verdict, min(verdict.expires_at, now + authenticator.cache_seconds))
        elif verdict.status == UNAVAILABLE.status:
            self.outcomes[authenticator.kind, "unavailable"] += 1
        else:
            self.outcomes[authenticator.kind, "refused"] += 1
            if len(self._refusals) >= MAX_REFUSALS:
                self._refusals.clear()
            self._refusals[_digest(authorization)] = verdict, now + REFUSAL_SECONDS
        return verdict

    def _store_token(self, identity: Identity, token: str) -> None:
        """Store the raw token of an identity, if the token is a JWT of an issuer. Tokens of ServiceAccounts are stored
        too, because an authorization server may trust the cluster's issuer. The gateway's own tokens are not stored,
        because they are valid only at this gateway.
        """
        if identity.kind not in ("jwt", "serviceAccount") or identity.issued_here:
            return
        expires = identity.claims.get("exp")  # `expires_at` includes the issuer's leeway
        subject_token = SubjectToken(token, float(expires) if isinstance(expires, int | float) else identity.expires_at)
        msgspec.structs.force_setattr(identity, "subject_token", subject_token)
        self._subject_tokens.add(subject_token)

    def _remember(self, authorization: bytes, identity: Identity, expires_at: float) -> None:
        if len(self._young_entries) >= self._max_entries or self._young_bytes >= CACHE_BYTES:
            self._old_entries, self._young_entries, self._young_bytes = self._young_entries, {}, 0
        self._young_bytes += 0 if authorization in self._young_entries else len(authorization)
        self._young_entries[authorization] = identity, expires_at

    def _recall_older(self, authorization: bytes) -> Verdict | None:
        """Cached verdict that `recall` does not find: a rejection, or an identity of the older generation."""
        refusal = self._refusals.get(_digest(authorization))
        if refusal is not None and refusal[1] > self._now():
            return refusal[0]
        entry = self._old_entries.pop(authorization, None)
        if entry is None or entry[1] <= self._now():
            return None
        self._remember(authorization, *entry)
        return entry[0]

    def _end(self, concerns: Callable[[Identity], bool]) -> None:
        for watcher, (identity, end) in [*self._watchers.items()]:
            if concerns(identity) and self._watchers.pop(watcher, None) is not None:
                end()


def _digest(authorization: bytes) -> bytes:
    """Digest of a rejected credential, which is stored instead of up to MAX_TOKEN bytes."""
    return hashlib.blake2b(authorization, digest_size=32).digest()


def _nothing() -> None:
    pass


def refuse_elsewhere(identity: Identity, path: str) -> CredentialRefusal | None:
    """Rejection of a request for a path at which the identity's credential is not valid; None if it is valid there."""
    if not identity.resource or path == identity.resource:
        return None
    segments = path.removesuffix("/").split("/")[1:]
    if is_at(path, identity.resource) and _NO_NAMES.isdisjoint(segments):
        return None
    message = f"the token is for {identity.resource} of this gateway and paths below it: get a token for this path"
    return CredentialRefusal(401, message, "invalid_token")
