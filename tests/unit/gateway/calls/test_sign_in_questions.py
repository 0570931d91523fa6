"""Requests to users to sign in: one at a time per user, server and client, each for a limited time, and limited in
number."""

from __future__ import annotations

from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.questions.sign_in_questions import MAX_QUESTIONS, NoSignIns, SignInQuestions

SERVER = ServerKey("default", "demo")
ANN = (b"ann", SERVER, b"client")


class Now:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_question_is_open_until_it_is_answered_or_late() -> None:
    now = Now()
    questions = SignInQuestions(NoSignIns(), now)
    assert questions.open(ANN, "link", 10)
    assert not questions.open(ANN, "link", 10)
    assert questions.open((b"bob", SERVER, b"client"), "link", 10)
    assert questions.open((b"ann", ServerKey("default", "other"), b"client"), "link", 10)
    assert questions.open((b"ann", SERVER, b"another client"), "link", 10)
    questions.close(ANN)
    assert questions.open(ANN, "link", 10)
    now.seconds = 10.0
    assert questions.open(ANN, "link", 10)


def test_a_question_ends_with_its_client() -> None:
    questions, gone = SignInQuestions(NoSignIns(), Now()), list[bool]()
    assert questions.open(ANN, "link", 10, lambda: bool(gone))
    assert not questions.open(ANN, "link", 10)
    gone.append(True)
    assert questions.open(ANN, "link", 10)


def test_another_link_is_another_question() -> None:
    questions = SignInQuestions(NoSignIns(), Now())
    assert questions.open(ANN, "link", 10)
    assert questions.open(ANN, "another", 10)
    assert len(questions) == 1


def test_the_oldest_questions_give_way() -> None:
    questions = SignInQuestions(NoSignIns(), Now())
    for number in range(MAX_QUESTIONS + 1):
        assert questions.open((b"%d" % number, SERVER, b"client"), "link", 10)
    assert len(questions) == MAX_QUESTIONS
    assert questions.open((b"0", SERVER, b"client"), "link", 10)
