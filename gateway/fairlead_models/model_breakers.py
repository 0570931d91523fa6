"""Circuit breakers of models at their providers: a model that fails again and again gets no requests for a while.

Pure module, by the mechanism of `upstream.breaker`: five failures in a row open it, and after one second, doubled up to
thirty, one request is its trial. Failures are a provider that cannot be reached, an answer that takes too long or
breaks off, and statuses from 500 on. After a 429 with `retry-after` the model gets no request for that time.
"""

from __future__ import annotations

import random as randomness
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from fairlead_gateway.core.ports import CLOSED, OPEN
from fairlead_gateway.upstream.breaker import Breaker
from fairlead_models.providers import ModelTarget

MAX_KEPT: Final = 200
"""Models whose failures are remembered."""
MAX_LATER: Final = 300.0
"""Seconds of `retry-after` that are believed."""
_TIMED_OUT: Final = 408
_TOO_MANY: Final = 429
_SUCCESS: Final = 200


class ModelClosed(Exception):
    """A model gets no request now. `status` is 429 if it asked for a pause, else 503; `retry_after` in seconds."""

    def __init__(self, message: str, status: int, retry_after: float) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class _Failed(Exception):
    """An answer that counts as a failure."""


class GuardedModel:
    """Breaker of one model, and the time until which it gets no requests."""

    def __init__(self, random: Callable[[], float]) -> None:
        self.breaker = Breaker(random)
        self.later = 0.0

    def state(self, now: float) -> str:
        """`closed`, `half-open` or `open`."""
        return OPEN if now < self.later else self.breaker.state(now)


class ModelAttempt:
    """One request to a model, from before it is sent until its answer is read."""

    def __init__(self, breakers: ModelBreakers, target: ModelTarget, *, trial: bool) -> None:
        self._breakers = breakers
        self._target = target
        self._trial = trial

    def answered(self, status: int, retry_after: float | None) -> None:
        """Record the head of the answer. `over` or `failed` records its end."""
        breakers = self._breakers
        if status >= 500 or status == _TIMED_OUT:
            self.failed(_Failed(f"it answered {status}"))
            return
        if status == _TOO_MANY and retry_after:
            breakers.put_off(self._target, min(retry_after, MAX_LATER))
        if self._trial or status != _SUCCESS:
            self.over()

    def over(self) -> None:
        """Record that the answer came to its end."""
        self._trial = False
        self._breakers.succeeded(self._target)

    def failed(self, error: Exception) -> None:
        """Record that no answer came, or that it broke off."""
        trial, self._trial = self._trial, False
        self._breakers.failed(self._target, error, trial=trial)

    def given_up(self) -> None:
        """Record an end that says nothing about the model: the client disconnected, or the request's time was over."""
        if self._trial:
            self._trial = False
            self._breakers.given_up(self._target)


class ModelBreakers:
    """Breakers of all models that have failed. `clock` in seconds; `random` gives [0, 1)."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        self._clock = clock
        self._random = random
        self._guarded: OrderedDict[ModelTarget, GuardedModel] = OrderedDict()

    def attempt(self, target: ModelTarget) -> ModelAttempt:
        """Begin a request to a model, whose end has to be recorded. Raises ModelClosed."""
        guarded = self._guarded.get(target)
        if guarded is None:
            return ModelAttempt(self, target, trial=False)
        now, breaker, name = self._clock(), guarded.breaker, f"{target.provider}/{target.model[:128]}"
        if now < guarded.later:
            seconds = guarded.later - now
            raise ModelClosed(f"{name} asked for a pause of {seconds:.0f} s (retry-after)", _TOO_MANY, seconds)
        trial = not breaker.closed
        if trial and not breaker.try_now(now):
            raise ModelClosed(f"{name} gets no requests now: {breaker.why()}", 503, breaker.wait(now))
        return ModelAttempt(self, target, trial=trial)

    def states(self) -> Iterator[tuple[ModelTarget, str, int]]:
        """Models that have failed, each with its state and the number of times that its breaker opened."""
        now = self._clock()
        for target, guarded in [*self._guarded.items()]:
            yield target, guarded.state(now), guarded.breaker.opened

    def succeeded(self, target: ModelTarget) -> None:
        """Close the breaker of a model."""
        guarded = self._guarded.get(target)
        if guarded is not None and guarded.breaker.troubled:
            guarded.breaker.record_success()

    def failed(self, target: ModelTarget, error: Exception, *, trial: bool) -> None:
        """Count a failure of a model."""
        self._of(target).breaker.record_failure(self._clock(), error, trial=trial)

    def given_up(self, target: ModelTarget) -> None:
        """End a trial without an outcome."""
        guarded = self._guarded.get(target)
        if guarded is not None:
            guarded.breaker.give_up()

    def put_off(self, target: ModelTarget, seconds: float) -> None:
        """Send no requests to a model for so many seconds."""
        self._of(target).later = self._clock() + seconds

    def _of(self, target: ModelTarget) -> GuardedModel:
        guarded = self._guarded.get(target)
        if guarded is None:
            guarded = self._guarded[target] = GuardedModel(self._random)
            if len(self._guarded) > MAX_KEPT:
                now = self._clock()
                least = next((closed for closed, each in self._guarded.items() if each.state(now) == CLOSED), target)
                self._guarded.pop(least if least != target else next(iter(self._guarded)))
        return guarded
