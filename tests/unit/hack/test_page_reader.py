"""The page reader ends commands at its time limit, and leaves no process behind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from page_reader import Reader
from waiting import until


def test_processes_of_a_command_of_a_page_end_with_its_time(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "held")

    def unread() -> bool:
        try:
            os.close(os.open(tmp_path / "held", os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return True
        return False

    with Reader(tmp_path, {}) as reader:
        with pytest.raises(subprocess.TimeoutExpired):
            reader.follow("(exec tail -f held) | cat\n", seconds=0.5)
        until("nobody who reads it", unread, seconds=10)
