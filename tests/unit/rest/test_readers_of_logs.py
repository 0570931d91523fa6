"""Who may read servers' logs, and from which addresses, at a gateway without authentication."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from fairlead_gateway.core.identity import BY_OWNER
from fairlead_web.local_requests import is_local


@pytest.mark.parametrize(
    ("address", "header", "by_owner", "here"),
    [
        ("127.0.0.1", None, True, True),
        ("::1", None, True, True),
        ("127.0.0.1", None, False, False),
        ("192.0.2.7", None, True, False),
        ("127.0.0.1", b"x-forwarded-for", True, False),
        ("127.0.0.1", b"forwarded", True, False),
        ("127.0.0.1", b"via", True, False),
        ("", None, True, False),
    ],
)
def test_only_a_program_of_this_user_on_this_machine_that_no_proxy_speaks_for_is_here(
    address: str, header: bytes | None, by_owner: bool, here: bool
) -> None:
    headers = [] if header is None else [(header, b"127.0.0.1")]
    request = Request({"type": "http", "client": (address, 1), "headers": headers, BY_OWNER: lambda: by_owner})
    assert is_local(request) is here
