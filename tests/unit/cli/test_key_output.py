"""A key that cannot be written leaves no file behind, and is named so that it can be revoked."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fairlead_cli.access.key_changes import KeyFileLocation, run_revoke
from fairlead_cli.access.keyoutput import KeyOutput
from fairlead_cli.access.keys_in_secret import KeySecretLocation
from fairlead_cli.failure import Failure
from fairlead_cli.output import Output
from fairlead_gateway.identity.key_format import id_of, new_key


@contextmanager
def files_that_cannot_grow() -> Iterator[None]:
    """Simulates a full disk: each write to a file fails, but empty files can be created."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_key_that_a_full_disk_loses_leaves_no_file_and_is_named(tmp_path: Path) -> None:
    (key, _), file = new_key("me", now=datetime(2026, 1, 2, tzinfo=UTC)), tmp_path / "me.key"
    with files_that_cannot_grow(), pytest.raises(Failure) as failure:
        KeyOutput(file).write(key, "--file keys.json")
    assert str(failure.value).endswith(f"; revoke it: fairlead keys revoke {id_of(key)} --file keys.json")
    assert not file.exists()
    KeyOutput(file).write(key, "--file keys.json")
    assert file.read_text() == f"{key}\n"


def test_hints_about_keys_name_where_they_are_stored(tmp_path: Path) -> None:
    location = KeyFileLocation(tmp_path / "my keys.json")
    listing = f"`fairlead keys list --file '{tmp_path}/my keys.json'` lists the keys"
    with pytest.raises(Failure, match=re.escape(listing)):
        run_revoke(location, "0123456789ab", Output.table)
    secret = KeySecretLocation("keys", "team", Path("/k"))
    assert secret.option == "--secret keys --namespace team --kubeconfig /k"


def test_a_full_disk_leaves_the_old_keys_and_no_other_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    location = KeyFileLocation(file)
    location.change(lambda document: document)
    before = file.read_bytes()
    key = tmp_path / "me.key"
    key.write_text("old\n")
    with files_that_cannot_grow():
        with pytest.raises(Failure, match="cannot be written"):
            location.change(lambda document: document)
        with pytest.raises(Failure, match="cannot be written"):
            KeyOutput(key, overwrite=True).write("key", "--file keys.json")
    assert sorted(tmp_path.iterdir()) == [file, key]
    assert (file.read_bytes(), key.read_text()) == (before, "old\n")
