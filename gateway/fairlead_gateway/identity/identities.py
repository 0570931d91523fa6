"""Finds the principal of a request: one look-up for a known credential, an authenticator's verdict for any other.

One per gateway. Verdicts are kept by the whole `Authorization` header until the credential ends, is revoked, or its
authenticator wants to be asked again. A request whose credential is refused never becomes an anonymous one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from fairlead_gateway.core.identity import ANONYMOUS, Identity
from fairlead_gateway.identity.authenticator import Authenticator, Verdict
from fairlead_gateway.identity.refusal import AWAY, BUSY, MALFORMED, NO_CREDENTIAL, UNKNOWN_TOKEN, CredentialRefusal

log = logging.getLogger(__name__)

KEPT: Final = 8192
"""Credentials that are remembered at least, unless they are large; twice as many at most."""
KEPT_BYTES: Final = 16 << 20
"""Bytes of credentials that are remembered at least; twice as many at most."""
REFUSED_SECONDS: Final = 5.0
"""Seconds that a refusal is remembered: a repeated attempt costs nothing meanwhile."""
REFUSED_KEPT: Final = 1024
"""Refusals that are remembered, apart from the rest: wrong credentials never push out those of others."""
LOOKING: Final = 32
"""Credentials that are looked up at once."""
WAITING: Final = 512
"""Credentials that wait for that; for more there is no time."""
LOOK_UP_SECONDS: Final = 10.0
MAX_TOKEN: Final = 16 << 10
"""Characters of a credential; longer ones are refused unread."""
_BEARER: Final = re.compile(rb"(?i:bearer) +([A-Za-z0-9._~+/-]+=*)")
"""RFC 6750 section 2.1."""

_Entry = tuple[Identity, float]
"""An identity, and until when it is taken for granted: seconds since the epoch."""


class Identities:
    """Authentication of requests, with a cache. With no authenticator and `anonymous`, every request is anonymous and
    headers are not looked at. `seconds` bounds a look-up, `now` is the time of day in seconds.
    """

    def __init__(
        self,
        authenticators: Sequence[Authenticator] = (),
        *,
        anonymous: bool = True,
        most: int = KEPT,
        seconds: float = LOOK_UP_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._authenticators = tuple(authenticators)
        self.open = anonymous and not authenticators
        """Whether everybody may come in."""
        self.answers_anybody = anonymous
        """Whether somebody without a credential is answered."""
        self._now = now
        self._most = most
        self._seconds = seconds
        self._young: dict[bytes | None, _Entry] = {}
        self._young_bytes = 0
        self._old: dict[bytes | None, _Entry] = {}
        self._refused: dict[bytes, tuple[CredentialRefusal, float]] = {}
        self._pending: dict[bytes, asyncio.Task[Verdict]] = {}
        self._slots = asyncio.Semaphore(LOOKING)
        self._held: dict[object, tuple[Identity, Callable[[], None]]] = {}
        self.outcomes: Counter[tuple[str, str]] = Counter()
        """Verdicts by kind of credential and `accepted`, `refused` or `unavailable`; remembered ones are not counted
        again.
        """

    def recall(self, authorization: bytes | None) -> Identity | None:
        """Identity of a request from the cache; None where it is not there."""
        if self.open:
            return ANONYMOUS
        entry = self._young.get(authorization)
        if entry is not None and entry[1] > self._now():
            return entry[0]
        return ANONYMOUS if authorization is None and self.answers_anybody else None

    async def identify(self, authorization: bytes | None) -> Verdict:
        """Verdict about a request's credential. Raises nothing but CancelledError."""
        remembered = self.recall(authorization)
        if remembered is not None:
            return remembered
        if authorization is None:
            return NO_CREDENTIAL
        last_identity = self._recall(authorization)
        if last_identity is not None:
            return last_identity
        match = _BEARER.fullmatch(authorization)
        if match is None or len(authorization) > MAX_TOKEN:
            self.outcomes["none", "refused"] += 1
            return MALFORMED
        token = match.group(1).decode()
        for authenticator in self._authenticators:
            if authenticator.wants(token):
                return await self._verdict(authorization, token, authenticator)
        self.outcomes["none", "refused"] += 1
        return UNKNOWN_TOKEN

    def hold(self, identity: Identity, end: Callable[[], None]) -> Callable[[], None]:
        """Have `end` called, once, when the identity is revoked or its credential ends; call what is returned when
        nobody needs to know any more.
        """
        if identity.kind == "anonymous":
            return _nothing
        holder = object()
        self._held[holder] = identity, end

        def release() -> None:
            self._held.pop(holder, None)

        return release

    def revoke(self, concerns: Callable[[Identity], bool]) -> None:
        """Forget identities, and end what they hold."""
        for entries in (self._young, self._old):
            for key in [key for key, (identity, _) in entries.items() if concerns(identity)]:
                del entries[key]
        self._refused.clear()  # what was changed may let somebody in too
        self._end(concerns)

    def sweep(self) -> None:
        """End what is held by credentials that have ended. Called every second or so."""
        if self._held:
            now = self._now()
            self._end(lambda identity: identity.expires_at <= now)

    async def start(self) -> None:
        """Have every authenticator begin to watch."""
        for authenticator in self._authenticators:
            await authenticator.start(self.revoke)

    async def aclose(self) -> None:
        """Give up what is being looked up, and end the authenticators."""
        tasks = [*self._pending.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for authenticator in self._authenticators:
            await authenticator.aclose()

    async def _verdict(self, authorization: bytes, token: str, authenticator: Authenticator) -> Verdict:
        verdict = authenticator.check(token)
        if verdict is not None:
            return self._judge(authorization, authenticator, verdict)
        task = self._pending.get(authorization)
        if task is None:
            if len(self._pending) >= WAITING:
                self.outcomes[authenticator.kind, "unavailable"] += 1
                return BUSY
            work = self._look_up(authorization, token, authenticator)
            task = asyncio.get_running_loop().create_task(work, name=f"look up a credential ({authenticator.kind})")
            self._pending[authorization] = task
            task.add_done_callback(lambda _: self._pending.pop(authorization, None))
        return await asyncio.shield(task)

    async def _look_up(self, authorization: bytes, token: str, authenticator: Authenticator) -> Verdict:
        try:
            async with asyncio.timeout(self._seconds), self._slots:
                verdict = await authenticator.look_up(token)
        except TimeoutError:
            verdict = AWAY
        except Exception as error:  # noqa: BLE001  # a defect; its words and its traceback might quote the credential
            log.error("A credential could not be looked up (%s): %s", authenticator.kind, type(error).__name__)
            verdict = AWAY
        return self._judge(authorization, authenticator, verdict)

    def _judge(self, authorization: bytes, authenticator: Authenticator, verdict: Verdict) -> Verdict:
        now = self._now()
        if isinstance(verdict, Identity):
            self.outcomes[authenticator.kind, "accepted"] += 1
            self._remember(authorization, verdict, min(verdict.expires_at, now + authenticator.keeps))
        elif verdict.status == AWAY.status:
            self.outcomes[authenticator.kind, "unavailable"] += 1
        else:
            self.outcomes[authenticator.kind, "refused"] += 1
            if len(self._refused) >= REFUSED_KEPT:
                self._refused.clear()
            self._refused[_digest(authorization)] = verdict, now + REFUSED_SECONDS
        return verdict

    def _remember(self, authorization: bytes, identity: Identity, until: float) -> None:
        if len(self._young) >= self._most or self._young_bytes >= KEPT_BYTES:
            self._old, self._young, self._young_bytes = self._young, {}, 0
        self._young_bytes += 0 if authorization in self._young else len(authorization)
        self._young[authorization] = identity, until

    def _recall(self, authorization: bytes) -> Verdict | None:
        """A verdict that `known` did not find: a refusal, or an identity that was not asked for lately."""
        refused = self._refused.get(_digest(authorization))
        if refused is not None and refused[1] > self._now():
            return refused[0]
        entry = self._old.pop(authorization, None)
        if entry is None or entry[1] <= self._now():
            return None
        self._remember(authorization, *entry)
        return entry[0]

    def _end(self, concerns: Callable[[Identity], bool]) -> None:
        for holder, (identity, end) in [*self._held.items()]:
            if concerns(identity) and self._held.pop(holder, None) is not None:
                end()


def _digest(authorization: bytes) -> bytes:
    """Stands for a refused credential: it is not worth its up to MAX_TOKEN bytes."""
    return hashlib.blake2b(authorization, digest_size=32).digest()


def _nothing() -> None:
    pass
