"""Settings of the interpreter of an operator process."""

from __future__ import annotations

import gc
import sys

from fairlead_operator.interpreter import SWITCH_SECONDS, keep_loop_responsive


def test_threads_take_short_turns_and_what_is_alive_is_not_collected() -> None:
    before = sys.getswitchinterval()
    try:
        keep_loop_responsive()
        assert sys.getswitchinterval() == SWITCH_SECONDS
        assert gc.get_freeze_count() > 10_000
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)
