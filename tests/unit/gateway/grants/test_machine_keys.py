"""Keys that encrypt the grants of one machine: in its keyring, otherwise in a file."""

from __future__ import annotations

import stat
import sys
import threading
import types
from pathlib import Path

import pytest

from fairlead_gateway.grants.machine_keys import KEY_FILE, SERVICE, MachineKeys, system_keyring
from fairlead_mcp.oauth.stored_grant import GrantStoreError


class Keyring:
    """A keyring that stores keys, fails, or waits for its owner."""

    def __init__(self) -> None:
        self.passwords: dict[tuple[str, str], str] = {}
        self.fails = False
        self.forgets = False
        self.unlocked = threading.Event()
        self.unlocked.set()

    def get_password(self, service: str, username: str) -> str | None:
        self.unlocked.wait()
        if self.fails:
            raise RuntimeError("locked")
        return self.passwords.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if not self.forgets:
            self.passwords[service, username] = password


def file_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_without_a_keyring_the_key_is_in_a_file_of_its_owner(tmp_path: Path) -> None:
    keys = MachineKeys(tmp_path, lambda: None).load()
    assert [key.id.partition("-")[0] for key in keys] == ["file"]
    assert file_mode(tmp_path / KEY_FILE) == 0o600
    assert MachineKeys(tmp_path, lambda: None).load() == keys


def test_with_a_keyring_the_key_is_there_and_in_no_file(tmp_path: Path) -> None:
    keyring = Keyring()
    keys = MachineKeys(tmp_path, lambda: keyring).load()
    assert [key.id.partition("-")[0] for key in keys] == ["keyring"]
    assert keyring.passwords == {(SERVICE, str(tmp_path)): keys[0].text}
    assert not (tmp_path / KEY_FILE).exists()
    assert MachineKeys(tmp_path, lambda: keyring).load() == keys


@pytest.mark.parametrize("fault", ["fails", "forgets"])
def test_a_keyring_that_does_not_keep_the_key_is_not_used(tmp_path: Path, fault: str) -> None:
    keyring = Keyring()
    setattr(keyring, fault, True)
    assert MachineKeys(tmp_path, lambda: keyring).load()[0].id.startswith("file-")


def test_a_keyring_that_does_not_answer_in_time_is_not_used(tmp_path: Path) -> None:
    keyring = Keyring()
    keyring.unlocked.clear()
    try:
        assert MachineKeys(tmp_path, lambda: keyring, seconds=0.01).load()[0].id.startswith("file-")
    finally:
        keyring.unlocked.set()


def test_a_keyring_with_damaged_content_is_not_used(tmp_path: Path) -> None:
    keyring = Keyring()
    keyring.passwords[SERVICE, str(tmp_path)] = "not a key"
    assert MachineKeys(tmp_path, lambda: keyring).load()[0].id.startswith("file-")
    assert keyring.passwords[SERVICE, str(tmp_path)] == "not a key"


def test_the_keys_of_keyring_and_file_both_open(tmp_path: Path) -> None:
    keyring = Keyring()
    first = MachineKeys(tmp_path, lambda: keyring).load()
    keyring.fails = True
    (second,) = MachineKeys(tmp_path, lambda: keyring).load()
    keyring.fails = False
    assert MachineKeys(tmp_path, lambda: keyring).load() == (*first, second)


def test_a_file_key_is_not_replaced_by_a_keyring_that_is_installed_later(tmp_path: Path) -> None:
    keys = MachineKeys(tmp_path, lambda: None).load()
    keyring = Keyring()
    assert MachineKeys(tmp_path, lambda: keyring).load() == keys
    assert not keyring.passwords


def test_a_damaged_key_file_stays_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).write_text("file-1:damaged")
    with pytest.raises(GrantStoreError, match=r"restore it from a copy, or delete it and sign in again"):
        MachineKeys(tmp_path, lambda: None).load()
    assert (tmp_path / KEY_FILE).read_text() == "file-1:damaged"


def test_a_key_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x")
    (tmp_path / KEY_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        MachineKeys(tmp_path, lambda: None).load()


def backend(module: str) -> object:
    return type("Keyring", (), {"__module__": module})()


@pytest.mark.parametrize(
    ("module", "is_used"),
    [
        ("keyring.backends.SecretService", True),
        ("keyring.backends.macOS", True),
        ("keyring.backends.kwallet", True),
        ("keyring.backends.null", False),
        ("keyring.backends.fail", False),
        ("keyrings.alt.file", False),
        ("example.SecretService", False),
    ],
)
def test_only_keyrings_of_systems_are_used(monkeypatch: pytest.MonkeyPatch, module: str, *, is_used: bool) -> None:
    package = types.ModuleType("keyring")
    package.__spec__ = types.ModuleType("spec")  # type: ignore[assignment]  # `find_spec` only looks whether it is there
    configured = backend(module)
    monkeypatch.setitem(sys.modules, "keyring", package)
    monkeypatch.setattr(package, "get_keyring", lambda: configured, raising=False)
    assert (system_keyring() is configured) is is_used


def test_a_chain_of_keyrings_is_that_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    chain, plain, real = map(backend, ("keyring.backends.chainer", "keyrings.alt.file", "keyring.backends.libsecret"))
    chain.backends = [plain, real]  # type: ignore[attr-defined]  # as the package's chain has them
    keyring = pytest.importorskip("keyring")
    monkeypatch.setattr(keyring, "get_keyring", lambda: chain)
    assert system_keyring() is real
