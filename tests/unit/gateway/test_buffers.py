"""The limit on buffered bytes of answers: which connections are paused and resumed, and which calls are refused."""

from __future__ import annotations

from fairlead_gateway.limits.buffers import AnswerBuffers


class Source:
    """A connection to a server."""

    def __init__(self) -> None:
        self.reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


def test_answers_beyond_half_a_budget_are_paused_but_one_that_is_read_to_its_end() -> None:
    buffers = AnswerBuffers(100)
    sources = [Source() for _ in range(3)]
    first, second, third = (buffers.arrival("ada", source) for source in sources)
    first.grow(30)
    second.grow(30)
    third.grow(10)
    assert [source.reading for source in sources] == [True, False, False]
    first.grow(60)
    assert sources[0].reading
    first.close()
    assert [source.reading for source in sources] == [True, True, True]
    for arrival in (second, third):
        arrival.close()
    assert (buffers.whole.arriving, buffers.whole.readers, buffers.agents, buffers.paused_responses) == (0, 0, 0, 0)


def test_upstream_reads_pause_while_clients_leave_half_unread() -> None:
    buffers = AnswerBuffers(100)
    source = Source()
    buffers.add_unread("ada", 50)
    assert (buffers.refusal("bob") or (0, ""))[0] == 503
    arrival = buffers.arrival("bob", source)
    arrival.grow(1)
    assert [source.reading] == [False]
    buffers.add_unread("ada", -50)
    assert [source.reading] == [True]
    assert buffers.refusal("bob") is None
    assert not buffers.refuses_requests
    arrival.close()


def test_an_agent_takes_its_own_room_alone() -> None:
    buffers = AnswerBuffers(1000, 100)
    mine = Source()
    others = Source()
    buffers.add_unread("ada", 60)
    assert (buffers.refusal("ada") or (0, ""))[0] == 429
    assert buffers.refusal("bob") is None
    own = buffers.arrival("ada", mine)
    other = buffers.arrival("bob", others)
    own.grow(1)
    other.grow(1)
    assert (mine.reading, others.reading) == (False, True)
    own.close()
    other.close()
    buffers.add_unread("ada", -60)
    assert buffers.agents == 0


def test_answers_of_other_agents_go_on_while_one_agent_is_over_its_share() -> None:
    buffers = AnswerBuffers(100, 60)
    mine = Source()
    others = Source()
    own = buffers.arrival("ada", mine)
    own.grow(50)
    buffers.arrival("bob", others).grow(1)
    assert (mine.reading, others.reading) == (True, False)
    buffers.add_unread("ada", 30)
    own.grow(1)
    assert (mine.reading, others.reading) == (False, True)


def test_the_smallest_budget_refuses_only_who_leaves_something_unread() -> None:
    buffers = AnswerBuffers(0, 1)
    assert buffers.refusal("ada") is None
    buffers.add_unread("ada", 1)
    assert (buffers.refusal("ada") or (0, ""))[0] == 429
    buffers.add_unread("ada", -1)
    assert buffers.refusal("ada") is None


def test_an_answer_that_is_given_up_while_it_waits_leaves_its_connection_readable() -> None:
    buffers = AnswerBuffers(100)
    source = Source()
    buffers.add_unread("ada", 50)
    arrival = buffers.arrival("ada", source)
    arrival.grow(10)
    arrival.close()
    assert source.reading
    assert (buffers.paused_responses, buffers.whole.arriving) == (0, 0)


def test_results_that_wait_for_others_fit_or_are_dropped() -> None:
    buffers = AnswerBuffers(0, 100)
    with buffers.hold_responses("ada") as held_responses:
        assert [held_responses.add(60), held_responses.add(60), held_responses.add(40)] == [True, False, True]
        assert (buffers.refusal("ada") or (0, ""))[0] == 429
    assert buffers.refusal("ada") is None
    assert buffers.agents == 0


def test_without_a_budget_nothing_is_paused_or_refused() -> None:
    buffers = AnswerBuffers()
    source = Source()
    buffers.add_unread("ada", 1 << 40)
    buffers.arrival("ada", source).grow(1 << 40)
    assert source.reading
    assert not buffers.refuses_requests


def test_a_complete_answer_counts_for_its_holder_alone_and_once() -> None:
    buffers = AnswerBuffers(100)
    arrival = buffers.arrival("ada", Source())
    arrival.grow(60)
    arrival.hand_over()
    with buffers.hold_responses("ada") as held_responses:
        assert held_responses.add(60), "the bytes of the arriving answer are the same"
        arrival.close()
        arrival.hand_over()
        assert buffers.whole.arriving == 60
    assert (buffers.whole.arriving, buffers.whole.readers, buffers.agents) == (0, 0, 0)
