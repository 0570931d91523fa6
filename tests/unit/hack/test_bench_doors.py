"""The benchmark `doors`: its load checks responses, its provider answers as requested, and it forms ratios within a
round."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from doors.bench_doors import Outcomes, report_of
from doors.figures import figures
from doors.models import CALLS, CONVERSATIONS, TEXT, Conversation
from doors.rows import DOORS, NGINX, PLAIN
from gateway.workloads import SATURATED
from neededprograms import needs
from ports import free_port
from rig.harness import Settings, Unmeasurable
from rig.loadtools import BARE, Load, Outcome, built, run_load
from rig.processes import Stage


def outcome(cpu: float) -> Outcome:
    """Outcome of one load, with the given microseconds of processor time per call."""
    return Outcome(1000, 10, 20, 30, 40, cpu, 0, 1, 0)


def scripted_server(stage: Stage, *script: str | Path) -> tuple[int, int]:
    """Port and process of a server that runs the script."""
    port = free_port()
    process = stage.start("script", [built("httpscript"), str(port), *script], core=None)
    stage.wait_listening("script", process, port)
    return port, process.pid


def run_short_load(
    stage: Stage, where: tuple[int, int], path: str, body: bytes, expected: str, *, numbered: bool
) -> Outcome:
    """Run a short load of requests with the body. Raises Unmeasurable."""
    file = stage.folder / "body"
    file.write_bytes(body)
    port, pid = where
    load = Load(
        port, path, "", BARE, 2, 20, 0.01, kind="body", body=file, expected=expected, numbered=numbered, calls=9
    )
    return run_load(stage, load, pid, [], core=0)


def answer(folder: Path, name: str, body: bytes) -> Path:
    """Write a whole response to a file. Returns the file."""
    file = folder / name
    file.write_bytes(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    return file


@needs("gcc")
def test_a_script_answers_by_what_is_asked_and_the_load_refuses_another_answer() -> None:
    with Stage() as stage:
        first, rest = answer(stage.folder, "first", b"it has results"), answer(stage.folder, "rest", b"it has none")
        where = scripted_server(stage, "/of-model/", "results", first, "/of-model/", "", rest)
        assert run_short_load(stage, where, "/of-model/v1", b"results", "it has results", numbered=True).calls >= 9
        assert run_short_load(stage, where, "/of-model/v1", b"anything", "it has none", numbered=True).calls >= 9
        with pytest.raises(Unmeasurable, match="it has none"):
            run_short_load(stage, where, "/of-model/v1", b"anything", "it has results", numbered=True)
        with pytest.raises(Unmeasurable, match="404"):
            run_short_load(stage, where, "/of-another/v1", b"anything", "", numbered=True)


@needs("gcc")
def test_the_number_of_a_call_is_looked_for_where_its_answer_says_it() -> None:
    with Stage() as stage:
        where = scripted_server(stage, "/", "", answer(stage.folder, "answer", b"always the same"))
        assert run_short_load(stage, where, "/", b"call ########", "same", numbered=False).calls >= 9
        with pytest.raises(Unmeasurable, match="err_text"):
            run_short_load(stage, where, "/", b"call ########", "same", numbered=True)


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda each: each.model)
def test_a_provider_first_calls_its_tools_and_then_says_its_text(conversation: Conversation, tmp_path: Path) -> None:
    script = conversation.script(tmp_path)
    answers = [Path(file).read_text() for file in script[2::3]]
    assert len(answers) == (2 if conversation.calls else 1)
    assert "word " in answers[0]
    if not conversation.stream:
        assert TEXT in answers[0]
    for text in answers[1:]:
        assert text.count("legacy__echo") >= CALLS
        assert "word " not in text
    assert conversation.family.result not in json.dumps(conversation.body)


def test_ratios_compare_within_a_round_and_a_door_that_failed_says_why() -> None:
    outcomes: Outcomes = defaultdict(lambda: defaultdict(dict))
    outcomes[PLAIN][SATURATED] = {0: outcome(10), 1: outcome(20)}
    outcomes["tool-calls-1"][SATURATED] = {0: outcome(20), 1: outcome(80)}
    report = report_of(outcomes, {PLAIN: 3_500.0}, {"tls": "no certificate"}, Settings(rounds=2))
    by_name = {goal.name: goal for goal in report.goals}
    assert [row["door"] for row in report.rows] == [PLAIN, "tool-calls-1"]
    assert [row["kB, idle connection"] for row in report.rows] == [3.5, None]
    assert by_name[f"CPU of tool-calls-1, of {PLAIN}"].value == 3
    assert by_name[f"CPU of execute-tool, of {PLAIN}"].met is None
    assert report.failures == ["tls: no certificate"]


def test_every_goal_is_beside_a_door_of_the_table() -> None:
    assert NGINX in DOORS
    assert {door.beside for door in DOORS.values()} <= set(DOORS)


def test_figures_of_a_program_have_a_wrong_answer_in_them() -> None:
    good, bad = figures([1.0, 2.0, 3.0], 0.5, ""), figures([], 0.5, "no result")
    assert (good["calls"], good["rps"], good["p50_us"], good["err_rpc"]) == (3, 6, 2, 0)
    assert (bad["calls"], bad["err_rpc"], bad["sample"]) == (0, 1, "no result")
