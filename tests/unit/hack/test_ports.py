"""Ports that tests assign to programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ports
from ports import free_port

SUPPORT = Path(ports.__file__).parent
HOLD = "import ports, sys; print(*[ports.free_port() for _ in range(900)], flush=True); sys.stdin.read()"


def test_a_port_is_not_given_again_while_its_program_may_be_down() -> None:
    assert len({free_port() for _ in range(900)}) == 900


def test_a_port_that_another_run_of_tests_was_given_is_not_given_until_that_ends() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], cwd=SUPPORT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        theirs = [int(port) for port in other.stdout.readline().split()]
        first = range(min(theirs), min(theirs) + 1)
        with pytest.raises(RuntimeError, match="no free port"):
            free_port(first)
        other.communicate("")
    assert free_port(first) == min(theirs)
