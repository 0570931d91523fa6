"""Invalid settings, which prevent the start of a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_servers.definition import SettingError
from fairlead_servers.table import SERVERS


@pytest.mark.parametrize(
    ("server", "setting", "value", "why"),
    [
        ("dice-roller", "tables", "/nowhere", "tables is /nowhere, which is not a folder"),
        ("rules-lookup", "rules", "/nowhere", "rules is /nowhere, which is not a folder"),
        ("web-search", "pages", "/nowhere", "pages is /nowhere, which is not a folder"),
        ("web-search", "engine", "http://[bad", "engine is 'http://[bad', which is not the URL of a SearXNG instance"),
        ("web-search", "engine", "file:///x", "which is not the URL of a SearXNG instance"),
        ("image-gen", "endpoint", "http://[bad", "endpoint is 'http://[bad', which is not the URL of an API"),
        ("memory", "ingest", "/nowhere", "ingest is /nowhere, which does not exist"),
    ],
)
def test_a_setting_that_leads_nowhere_is_named(server: str, setting: str, value: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError) as refused:
        SERVERS[server].definition().make(tmp_path, server, {}, {setting: value})
    assert why in str(refused.value)
