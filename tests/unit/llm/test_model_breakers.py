"""Circuit breakers of models: when a model is skipped, and how a trial request closes the breaker."""

from __future__ import annotations

import pytest

from fairlead_models.model_breakers import MAX_MODELS, MAX_PAUSE_S, ModelBreakers, ModelClosed
from fairlead_models.providers import ModelTarget
from virtualtime import HandClock

ONE = ModelTarget("openai", "gpt")
OTHER = ModelTarget("vllm", "gpt")


def make_breakers() -> tuple[ModelBreakers, HandClock]:
    time = HandClock(1000.0)
    return ModelBreakers(time, lambda: 0.0), time


def answers(breakers: ModelBreakers, *statuses: int, target: ModelTarget = ONE, after: float | None = None) -> None:
    for status in statuses:
        attempt = breakers.attempt(target)
        attempt.record_answer(status, after)
        if status == 200:
            attempt.record_success()


def expect_closed(breakers: ModelBreakers, target: ModelTarget = ONE) -> ModelClosed:
    with pytest.raises(ModelClosed) as caught:
        breakers.attempt(target)
    return caught.value


def states(breakers: ModelBreakers) -> dict[str, str]:
    return {target.provider: state for target, state, _ in breakers.states()}


def test_five_failures_in_a_row_open_the_breaker_of_one_model_alone() -> None:
    breakers, _ = make_breakers()
    answers(breakers, 500, 529, 408, 503)
    breakers.attempt(ONE).record_failure(OSError("gone"))
    refusal = expect_closed(breakers)
    assert refusal.status == 503
    assert 0 < refusal.retry_after <= 1
    assert "openai/gpt gets no requests for a while: 5 calls failed in a row" in str(refusal)
    answers(breakers, 200, target=OTHER)
    assert states(breakers) == {"openai": "open"}


@pytest.mark.parametrize("status", [200, 400, 401, 404, 429])
def test_any_other_answer_between_failures_shows_that_it_lives(status: int) -> None:
    breakers, _ = make_breakers()
    for _ in range(3):
        answers(breakers, 500, 500, 500, 500, status)
    assert states(breakers) == {"openai": "closed"}


def test_a_stream_that_breaks_off_is_a_failure_though_its_head_was_a_success() -> None:
    breakers, _ = make_breakers()
    for _ in range(5):
        attempt = breakers.attempt(ONE)
        attempt.record_answer(200, None)
        attempt.record_failure(OSError("cut"))
    assert states(breakers) == {"openai": "open"}


def test_a_half_open_breaker_has_one_trial_at_a_time_and_its_waits_grow() -> None:
    breakers, time = make_breakers()
    answers(breakers, *[500] * 5)
    time.now += 1.0
    assert states(breakers) == {"openai": "half-open"}
    trial = breakers.attempt(ONE)
    assert expect_closed(breakers).status == 503, "while the trial is under way"
    trial.record_answer(500, None)
    time.now += 1.5
    assert expect_closed(breakers).retry_after == pytest.approx(0.5), "two seconds now"
    time.now += 0.5
    breakers.attempt(ONE).record_answer(200, None)
    assert states(breakers) == {"openai": "closed"}
    breakers.attempt(ONE).abandon()


def test_a_trial_that_its_client_gives_up_leaves_it_to_the_next() -> None:
    breakers, time = make_breakers()
    answers(breakers, *[500] * 5)
    time.now += 1.0
    breakers.attempt(ONE).abandon()
    answers(breakers, 200)
    assert states(breakers) == {"openai": "closed"}


def test_a_model_that_states_a_retry_time_gets_no_request_until_then() -> None:
    breakers, time = make_breakers()
    answers(breakers, 429, after=7.0)
    refusal = expect_closed(breakers)
    assert (refusal.status, refusal.retry_after) == (429, 7.0)
    assert states(breakers) == {"openai": "open"}
    time.now += 7.0
    answers(breakers, 200)
    assert states(breakers) == {"openai": "closed"}
    answers(breakers, 429, after=10.0**9)
    assert expect_closed(breakers).retry_after == MAX_PAUSE_S
    time.now += MAX_PAUSE_S
    answers(breakers, 429, 429, after=None)


def test_failures_of_a_bounded_number_of_models_are_remembered() -> None:
    breakers, _ = make_breakers()
    answers(breakers, *[500] * 5)
    for number in range(MAX_MODELS * 2):
        answers(breakers, 500, target=ModelTarget("openai", f"m{number}"))
    assert len([*breakers.states()]) == MAX_MODELS
    assert expect_closed(breakers).status == 503, "one that is open stays"
