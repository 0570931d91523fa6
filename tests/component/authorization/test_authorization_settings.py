"""Invalid settings of the authorization server: each is refused with a message that says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from authorizationworld import authorization_world, gateway_of, identity_file
from fairlead_api.bad_setting import BadSetting
from oidcprovider import CLIENT

ISSUERS = [{"issuer": "https://login.example.com", "name": "corp"}]


@pytest.mark.parametrize(
    ("settings", "issuer", "client", "advice"),
    [
        ({"public_url": ""}, {"audiences": ["fairlead"]}, {}, "set FAIRLEAD_PUBLIC_URL"),
        ({"public_url": "http://tools.example.com"}, {}, {}, "must be an https URL with authorizationServer"),
        ({"public_url": "https://tools.example.com?a=b"}, {}, {}, "without credentials, query, fragment"),
        ({"grants_directory": None}, {}, {}, "set FAIRLEAD_GRANTS"),
        ({"public_url": "https://login.example.com/"}, {}, {}, "remove it from issuers"),
        (
            {},
            {"issuer": "http://login.example.com", "allowHttp": True},
            {},
            "unless it is on this machine or in this cluster",
        ),
        ({}, {}, {"clientSecretFile": "/nowhere/secret"}, "/nowhere/secret cannot be read"),
        ({}, {}, {"clientSecretFile": "/dev/null"}, "/dev/null is empty: write the secret"),
        ({"public_url": "https://tools.example.com/mcp"}, {}, {}, "fragment and /mcp"),
        ({}, {}, {"issuer": "partner"}, "add it there, or correct the name"),
    ],
)
async def test_settings_without_which_nobody_could_sign_in_are_refused(
    tmp_path: Path, settings: dict[str, Any], issuer: dict[str, Any], client: dict[str, Any], advice: str
) -> None:
    issuers = [{**ISSUERS[0], **issuer}]
    file = identity_file(tmp_path, issuers, [{"issuer": "corp", "clientId": CLIENT, **client}])
    with pytest.raises(BadSetting) as refused:
        async with gateway_of(tmp_path, file, **settings):
            pass
    assert advice in str(refused.value)


async def test_a_gateway_that_lets_anybody_in_warns_that_no_client_is_asked_to_sign_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with authorization_world(tmp_path, anonymous="allow"):
        pass
    assert "authorizationServer asks no client to sign in: set it to deny" in caplog.text
