"""Settings with which a server does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_servers.definition import SettingError
from fairlead_servers.table import SERVERS


@pytest.mark.parametrize(
    ("server", "setting", "value", "why"),
    [
        ("dice-roller", "tables", "/nowhere", "there is no folder /nowhere; `tables` names one"),
        ("rules-lookup", "rules", "/nowhere", "there is no folder /nowhere; `rules` names one"),
        ("web-search", "pages", "/nowhere", "there is no folder /nowhere; `pages` names one"),
        ("web-search", "engine", "http://[bad", "engine is 'http://[bad', not the address of a SearXNG instance"),
        ("web-search", "engine", "file:///x", "not the address of a SearXNG instance"),
        ("image-gen", "endpoint", "http://[bad", "endpoint is 'http://[bad', not the address of an API"),
        ("memory", "ingest", "/nowhere", "there is no file or folder /nowhere"),
    ],
)
def test_a_setting_that_leads_nowhere_is_named(server: str, setting: str, value: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError) as refused:
        SERVERS[server].definition().make(tmp_path, server, {}, {setting: value})
    assert why in str(refused.value)
