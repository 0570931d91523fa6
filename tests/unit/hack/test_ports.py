"""Ports that tests give to programs."""

from __future__ import annotations

from ports import free_port, ports_of


def test_processes_that_test_side_by_side_share_no_port() -> None:
    shares = [set(ports_of(f"gw{number}", 3)) for number in range(3)]
    assert set.union(*shares) == set(range(20000, 32000))
    assert sum(map(len, shares)) == 12000


def test_a_port_is_not_given_again_while_its_program_may_be_down() -> None:
    assert len({free_port() for _ in range(900)}) == 900
