"""Guards of connections that ask for another protocol: see `guards`."""

from __future__ import annotations

from product_guard import GATEWAY, Guard

_TESTS = "tests/unit/gateway/test_pending_upgrades.py"

UPGRADES = (
    Guard(
        "a refused session whose connection a proxy gives to others",
        f"{GATEWAY}.endpoint.upgrades",
        (("if answer.startswith(_SWITCHED):", "if True:"),),
        f"{_TESTS}::test_a_refusal_says_that_the_connection_closes_whatever_its_handler_says",
        "Connection: keep-alive",
    ),
    Guard(
        "a connection that is handed over unchecked",
        f"{GATEWAY}.endpoint.upgrades",
        (
            ("if isinstance(admission, bytes):", "if False:"),
            ("self._admitted_upgrade = admission", "admission = self._admitted_upgrade = self._upgrades"),
        ),
        f"{_TESTS}::test_a_request_that_is_refused_reaches_no_handler_and_its_connection_closes",
        "b'GET /x",
    ),
    Guard(
        "requests without end behind one for a session",
        f"{GATEWAY}.endpoint.upgrades",
        (("if len(self._early_bytes) > MAX_HEAD:", "if False:"),),
        f"{_TESTS}::test_bytes_without_end_behind_a_request_end_the_connection",
        "['aborted']",
    ),
)
