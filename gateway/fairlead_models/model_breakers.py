"""Circuit breakers of models: a model that fails repeatedly gets no requests for a while. Does no I/O.

The state machine is `upstream.breaker`: five consecutive failures open a breaker. One second later, one request is sent
as a trial; each further failure doubles this time, up to thirty seconds. Failures are an unreachable provider, an
answer that takes too long or ends early, and status 408 or 500 and above. After a 429 with `retry-after`, the model
gets no requests for that time.
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

MAX_MODELS: Final = 200
"""Maximum number of models whose failures are stored."""
MAX_PAUSE_S: Final = 300.0
"""Maximum number of seconds of a `retry-after`. Longer times are reduced to this maximum."""
_REQUEST_TIMEOUT: Final = 408
_TOO_MANY_REQUESTS: Final = 429
_OK: Final = 200


class ModelClosed(Exception):
    """Error for a model that currently gets no requests. `status`: 429 if the model requested a pause by
    `retry-after`, else 503. `retry_after`: seconds until the model may get requests again.
    """

    def __init__(self, message: str, status: int, retry_after: float) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class _FailureStatus(Exception):
    """Error that is recorded for an answer whose HTTP status counts as a failure of the model."""


class GuardedModel:
    """Circuit breaker of one model, and the end of the pause that the model requested by `retry-after`."""

    def __init__(self, random: Callable[[], float]) -> None:
        self.breaker = Breaker(random)
        self.paused_until = 0.0
        """End of the pause, in seconds of the monotonic clock."""

    def state(self, now: float) -> str:
        """State of the breaker: `closed`, `half-open` or `open`. A pause counts as `open`."""
        return OPEN if now < self.paused_until else self.breaker.state(now)


class ModelAttempt:
    """One request to a model, from before it is sent until its answer is read. The caller must record how it ended."""

    def __init__(self, breakers: ModelBreakers, target: ModelTarget, *, trial: bool) -> None:
        self._breakers = breakers
        self._target = target
        self._trial = trial

    def record_answer(self, status: int, retry_after: float | None) -> None:
        """Record the status of the answer. The end of the answer must be recorded too: `record_success` or
        `record_failure`.
        """
        breakers = self._breakers
        if status >= 500 or status == _REQUEST_TIMEOUT:
            self.record_failure(_FailureStatus(f"the provider answered with status {status}"))
            return
        if status == _TOO_MANY_REQUESTS and retry_after:
            breakers.pause(self._target, min(retry_after, MAX_PAUSE_S))
        if self._trial or status != _OK:
            self.record_success()

    def record_success(self) -> None:
        """Record that the answer is complete."""
        self._trial = False
        self._breakers.record_success(self._target)

    def record_failure(self, error: Exception) -> None:
        """Record that the model did not answer, or that its answer ended early."""
        trial, self._trial = self._trial, False
        self._breakers.record_failure(self._target, error, trial=trial)

    def abandon(self) -> None:
        """Record an end that is neither a success nor a failure of the model: the client disconnected, or the time
        limit of the request was reached.
        """
        if self._trial:
            self._trial = False
            self._breakers.end_trial(self._target)


class ModelBreakers:
    """Circuit breakers of all models that have failed. `clock`: monotonic clock in seconds. `random`: returns a number
    in [0, 1), by which the time until a trial varies.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        self._clock = clock
        self._random = random
        self._guarded_models: OrderedDict[ModelTarget, GuardedModel] = OrderedDict()

    def attempt(self, target: ModelTarget) -> ModelAttempt:
        """Begin a request to a model. Raises ModelClosed if the model currently gets no requests."""
        guarded_model = self._guarded_models.get(target)
        if guarded_model is None:
            return ModelAttempt(self, target, trial=False)
        now, breaker, name = self._clock(), guarded_model.breaker, f"{target.provider}/{target.model[:128]}"
        if now < guarded_model.paused_until:
            seconds = guarded_model.paused_until - now
            raise ModelClosed(
                f"the model {name} requested a pause, which ends in {seconds:.0f} s (retry-after)",
                _TOO_MANY_REQUESTS,
                seconds,
            )
        trial = not breaker.closed
        if trial and not breaker.try_now(now):
            raise ModelClosed(
                f"the model {name} gets no requests for a while: {breaker.describe_failures()}", 503, breaker.wait(now)
            )
        return ModelAttempt(self, target, trial=trial)

    def states(self) -> Iterator[tuple[ModelTarget, str, int]]:
        """Models that have failed, with the state and the number of openings of each breaker."""
        now = self._clock()
        for target, guarded_model in [*self._guarded_models.items()]:
            yield target, guarded_model.state(now), guarded_model.breaker.opened_total

    def record_success(self, target: ModelTarget) -> None:
        """Count a success of a model, which closes its breaker."""
        guarded_model = self._guarded_models.get(target)
        if guarded_model is not None and guarded_model.breaker.has_failures:
            guarded_model.breaker.record_success()

    def record_failure(self, target: ModelTarget, error: Exception, *, trial: bool) -> None:
        """Count a failure of a model."""
        self._guarded_model(target).breaker.record_failure(self._clock(), error, trial=trial)

    def end_trial(self, target: ModelTarget) -> None:
        """End the trial of a model without an outcome."""
        guarded_model = self._guarded_models.get(target)
        if guarded_model is not None:
            guarded_model.breaker.give_up()

    def pause(self, target: ModelTarget, seconds: float) -> None:
        """Send no requests to a model for a number of seconds."""
        self._guarded_model(target).paused_until = self._clock() + seconds

    def _guarded_model(self, target: ModelTarget) -> GuardedModel:
        guarded_model = self._guarded_models.get(target)
        if guarded_model is None:
            guarded_model = self._guarded_models[target] = GuardedModel(self._random)
            if len(self._guarded_models) > MAX_MODELS:
                now = self._clock()
                oldest_closed = next(
                    (key for key, model in self._guarded_models.items() if model.state(now) == CLOSED), target
                )
                self._guarded_models.pop(oldest_closed if oldest_closed != target else next(iter(self._guarded_models)))
        return guarded_model
