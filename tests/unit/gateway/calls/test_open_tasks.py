"""The limit on a caller's open tasks: which tasks count, and until when."""

from __future__ import annotations

from fairlead_gateway.calls.tasks import open_tasks
from fairlead_gateway.calls.tasks.open_tasks import OpenTasks


def test_a_caller_has_room_again_when_a_task_ends_or_its_time_is_over() -> None:
    now = [0.0]
    tasks = OpenTasks(2, lambda: now[0])
    tasks.add("a", "one", 1_000)
    tasks.add("a", "one", 1_000)
    assert tasks.has_room("a")
    tasks.add("a", "two", None)
    assert (tasks.has_room("a"), tasks.has_room("b")) == (False, True)
    now[0] = 1.0
    assert tasks.has_room("a")
    tasks.add("a", "three", 60_000)
    assert not tasks.has_room("a")
    tasks.remove("a", "two")
    tasks.remove("a", "never seen")
    assert tasks.has_room("a")
    now[0] = 61.0
    tasks.remove("a", "three")
    assert len(tasks) == 0


def test_a_task_without_an_end_is_not_counted_for_ever() -> None:
    now = [0.0]
    tasks = OpenTasks(1, lambda: now[0])
    tasks.add("a", "one", None)
    now[0] = open_tasks.MAX_OPEN_SECONDS
    assert tasks.has_room("a")


def test_the_oldest_is_forgotten_beyond_the_bound_of_all() -> None:
    tasks = OpenTasks(1, lambda: 0.0)
    callers = ["first", *map(str, range(open_tasks.MAX_COUNTED))]
    for caller in callers:
        tasks.add(caller, "one", None)
    assert [tasks.has_room(caller) for caller in (callers[0], callers[1], callers[-1])] == [True, False, False]
    assert len(tasks) == open_tasks.MAX_COUNTED
