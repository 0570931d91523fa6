"""Each call of a session has a unique id, whatever id the model's server gives it."""

from __future__ import annotations

from itertools import count

from fairlead_speech.cascaded.chat_model import CallIds, GrowingCall


def test_ids_are_the_models_but_for_those_that_another_call_had() -> None:
    numbers = count(1)
    ids = CallIds(lambda: f"new_{next(numbers)}")
    add = GrowingCall("call_0", "add", ["{}"])
    other = GrowingCall("call_0", "add", ['{"a": 1}'])
    assert ids.assign([add, add]) == ["call_0", "call_0"], "the same call twice"
    assert ids.assign([add]) == ["new_1"], "a call of another answer"
    assert ids.assign([GrowingCall("", "add", ["{}"])]) == ["new_2"]
    assert ids.assign([GrowingCall("b", "add", ["{}"]), GrowingCall("b", "fail", ["{}"]), other]) == [
        "b",
        "new_3",
        "new_4",
    ]
