"""Who asks for a response when: decisions without a session."""

from __future__ import annotations

from fairlead_speech.realtime.responses import ResponseTurns
from fairlead_speech.realtime.rounds import CallRounds


def test_a_response_is_asked_for_once_all_is_quiet() -> None:
    turns = ResponseTurns()
    turns.began()
    turns.want()
    assert not turns.ask(), "one is in progress"
    turns.done()
    assert turns.ask()
    assert not turns.ask(), "it was asked for"


def test_a_response_that_has_heard_of_an_output_makes_another_one_needless() -> None:
    turns = ResponseTurns()
    turns.sent("item")
    turns.want()
    turns.taken("item")
    turns.began()
    turns.done()
    assert not turns.ask()


def test_a_response_that_began_before_an_output_was_taken_is_followed_by_another() -> None:
    turns = ResponseTurns()
    turns.sent("item")
    turns.want()
    turns.began()
    turns.taken("item")
    turns.done()
    assert turns.ask()


def test_a_refusal_for_an_active_response_is_tried_again_after_it() -> None:
    turns = ResponseTurns()
    turns.want()
    assert turns.ask()
    turns.refused(active=True)
    assert not turns.ask()
    turns.done()
    assert turns.ask()


def test_another_refusal_is_not_tried_again() -> None:
    turns = ResponseTurns()
    turns.want()
    assert turns.ask()
    turns.refused(active=False)
    assert not turns.ask()
    assert turns.free


def test_responses_are_not_asked_for_during_the_users_speech() -> None:
    turns = ResponseTurns()
    turns.want()
    turns.speech_began()
    assert not turns.ask()
    turns.speech_taken()
    turns.want()
    assert not turns.ask(), "the provider is about to answer"
    turns.began()
    turns.want()
    turns.done()
    assert turns.ask()


def test_speech_that_is_thrown_away_holds_nothing_up() -> None:
    turns = ResponseTurns()
    turns.speech_began()
    turns.speech_dropped()
    turns.want()
    assert turns.ask()


def test_speech_is_over_once_taken_where_the_client_asks_for_responses() -> None:
    turns = ResponseTurns()
    turns.answers_speech = False
    turns.speech_began()
    turns.speech_taken()
    turns.want()
    assert turns.ask()


def test_a_round_goes_on_with_its_last_result() -> None:
    rounds = CallRounds()
    rounds.began("r")
    rounds.calls("r", "one")
    rounds.calls("r", "two")
    rounds.done("r", completed=True)
    assert not rounds.answered("one")
    assert rounds.answered("two")
    assert not rounds.answered("two"), "it is over"


def test_a_round_with_calls_of_the_client_goes_on_as_the_client_says() -> None:
    for early in (False, True):
        rounds = CallRounds()
        rounds.began("r")
        rounds.calls("r", "one")
        rounds.client_calls("r")
        rounds.done("r", completed=True)
        if early:
            rounds.client_asks()
        assert rounds.answered("one") is early, "a response that it asked for early has not heard of this result"


def test_an_interrupted_round_does_not_go_on() -> None:
    rounds = CallRounds()
    rounds.began("r")
    rounds.calls("r", "one")
    rounds.done("r", completed=False)
    assert not rounds.answered("one")
