"""Decisions about who requests a response and when, tested without a session."""

from __future__ import annotations

from fairlead_speech.realtime.conversation import ResponseCalls, ResponseState


def test_a_response_is_requested_once_all_is_quiet() -> None:
    turns = ResponseState()
    turns.on_response_created()
    turns.want_response()
    assert not turns.claim_request(), "one is in progress"
    turns.on_response_done()
    assert turns.claim_request()
    assert not turns.claim_request(), "it was asked for"


def test_a_response_that_has_an_output_makes_another_one_needless() -> None:
    turns = ResponseState()
    turns.add_output("item")
    turns.want_response()
    turns.confirm_output("item")
    turns.on_response_created()
    turns.on_response_done()
    assert not turns.claim_request()


def test_a_response_that_began_before_an_output_was_taken_is_followed_by_another() -> None:
    turns = ResponseState()
    turns.add_output("item")
    turns.want_response()
    turns.on_response_created()
    turns.confirm_output("item")
    turns.on_response_done()
    assert turns.claim_request()


def test_a_refusal_for_an_active_response_is_tried_again_after_it() -> None:
    turns = ResponseState()
    turns.want_response()
    assert turns.claim_request()
    turns.on_request_refused(active=True)
    assert not turns.claim_request()
    turns.on_response_done()
    assert turns.claim_request()


def test_a_refused_request_is_not_repeated_if_the_response_has_all_outputs() -> None:
    turns = ResponseState()
    turns.add_output("item")
    turns.want_response()
    assert turns.claim_request()
    turns.confirm_output("item")
    turns.on_response_created()
    turns.on_request_refused(active=True)
    turns.on_response_done()
    assert not turns.claim_request(), "the provider's own response is the answer"
    assert turns.idle


def test_a_refused_request_is_repeated_if_the_response_lacks_an_output() -> None:
    turns = ResponseState()
    turns.add_output("item")
    turns.want_response()
    assert turns.claim_request()
    turns.on_response_created()
    turns.confirm_output("item")
    turns.on_request_refused(active=True)
    turns.on_response_done()
    assert turns.claim_request()


def test_a_refused_request_of_the_client_loses_no_response_that_is_due() -> None:
    turns = ResponseState()
    turns.on_response_created()
    turns.want_response()
    turns.on_client_request()
    turns.on_client_request_refused()
    turns.on_response_done()
    assert turns.claim_request()


def test_a_response_that_the_client_requested_is_also_the_one_that_is_due() -> None:
    turns = ResponseState()
    turns.add_output("item")
    turns.want_response()
    turns.on_client_request()
    assert not turns.claim_request()
    turns.confirm_output("item")
    turns.on_response_created()
    turns.on_response_done()
    assert not turns.claim_request()


def test_another_refusal_is_not_tried_again() -> None:
    turns = ResponseState()
    turns.want_response()
    assert turns.claim_request()
    turns.on_request_refused(active=False)
    assert not turns.claim_request()
    assert turns.idle


def test_responses_are_not_requested_during_the_users_speech() -> None:
    turns = ResponseState()
    turns.want_response()
    turns.on_speech_started()
    assert not turns.claim_request()
    turns.on_buffer_committed()
    turns.want_response()
    assert not turns.claim_request(), "the provider is about to answer"
    turns.on_response_created()
    turns.want_response()
    turns.on_response_done()
    assert turns.claim_request()


def test_speech_that_is_thrown_away_holds_nothing_up() -> None:
    turns = ResponseState()
    turns.on_speech_started()
    turns.on_buffer_cleared()
    turns.want_response()
    assert turns.claim_request()


def test_speech_is_over_once_committed_where_the_client_requests_responses() -> None:
    turns = ResponseState()
    turns.creates_response = False
    turns.on_speech_started()
    turns.on_buffer_committed()
    turns.want_response()
    assert turns.claim_request()


def test_the_next_response_is_requested_after_the_last_result() -> None:
    rounds = ResponseCalls()
    rounds.add_response("r")
    rounds.add_call("r", "one")
    rounds.add_call("r", "two")
    rounds.finish_response("r", completed=True)
    assert not rounds.finish_call("one")
    assert rounds.finish_call("two")
    assert not rounds.finish_call("two"), "it is over"


def test_a_round_with_calls_of_the_client_goes_on_as_the_client_says() -> None:
    for early in (False, True):
        rounds = ResponseCalls()
        rounds.add_response("r")
        rounds.add_call("r", "one")
        rounds.add_client_call("r")
        rounds.finish_response("r", completed=True)
        if early:
            rounds.on_client_request()
        assert rounds.finish_call("one") is early, "a response that it asked for early has not heard of this result"


def test_finish_call_answers_the_calls_of_its_id_in_two_responses() -> None:
    rounds = ResponseCalls()
    for response in ("r", "s"):
        rounds.add_response(response)
        assert rounds.add_call(response, "one")
        assert not rounds.add_call(response, "one"), "it is one call of this response"
        rounds.finish_response(response, completed=True)
    assert rounds.finish_call("one")
    assert not rounds.finish_call("one")


def test_an_interrupted_round_does_not_continue() -> None:
    rounds = ResponseCalls()
    rounds.add_response("r")
    rounds.add_call("r", "one")
    rounds.finish_response("r", completed=False)
    assert not rounds.finish_call("one")
