"""The file that configures how clients authenticate: which contents are refused, and the messages about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_api.bad_setting import BadSetting
from fairlead_gateway.identity.issuers_file import load_credential_issuers


def test_an_empty_file_names_nobody(tmp_path: Path) -> None:
    file = tmp_path / "identity.yaml"
    file.write_text("")
    assert load_credential_issuers(file).issuers == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("issuers: [", "is not valid YAML"),
        ("issuers: 2026-13-45", "is not valid YAML"),
        ("[" * 5000, "nested too deeply"),
        ("- a", "the members issuers, scopes, serviceAccounts or"),
        ("issuers: [{issuer: 'https://a.example'}, {issuer: 'https://a.example'}]", "names an issuer twice"),
        ("issuers: [{issuer: 'https://a.example', name: a}, {issuer: 'https://b.example', name: a}]", "the same name"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "identity.yaml"
    file.write_text(text)
    with pytest.raises(BadSetting, match=says) as caught:
        load_credential_issuers(file)
    assert str(file) in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"the issuers of FAIRLEAD_IDENTITY in .* cannot be read"):
        load_credential_issuers(tmp_path / "none.yaml")
