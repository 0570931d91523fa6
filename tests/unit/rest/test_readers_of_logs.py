"""From where the logs of servers may be read while nobody is asked who they are."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from fairlead_web.local_requests import is_local


@pytest.mark.parametrize(
    ("address", "header", "here"),
    [
        ("127.0.0.1", None, True),
        ("::1", None, True),
        ("192.0.2.7", None, False),
        ("127.0.0.1", b"x-forwarded-for", False),
        ("127.0.0.1", b"forwarded", False),
        ("", None, False),
    ],
)
def test_only_a_program_on_this_machine_that_no_proxy_speaks_for_is_here(
    address: str, header: bytes | None, here: bool
) -> None:
    headers = [] if header is None else [(header, b"127.0.0.1")]
    request = Request({"type": "http", "client": (address, 1), "headers": headers})
    assert is_local(request) is here
