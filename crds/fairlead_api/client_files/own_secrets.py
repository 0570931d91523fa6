"""Secrets in `fairlead.auth` and `fairlead.discovery.auth` of an entry, in place of references to Secrets.

    {"url": "…", "fairlead": {"auth": {"clientCredentials": {"issuer": "…", "clientID": "…", "secret": "${SECRET}"}}}}

`secret` is the value, `secretFile` a file with it, which suits private keys. Texts of these objects may name variables.
No I/O: the file is read by a callback.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fairlead_api.client_files.entry import EntryProblem, EntryReader
from fairlead_api.client_files.keys import OWN

SECRET: Final = "secret"  # noqa: S105 - the name of a key
SECRET_FILE: Final = "secretFile"  # noqa: S105 - likewise
_RESOURCE_CLIENT: Final = "resourceClient"
"""Member of a member that has a secret of its own."""
_AUTH: Final = "auth"
_DISCOVERY: Final = "discovery"
ReadSecretFile = Callable[[str], str]
"""Reads the file of a secret. Raises ValueError with a sentence."""


def take_secrets(
    fields: Mapping[str, Any], read: EntryReader, server: str, read_file: ReadSecretFile | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """The fields under `fairlead`, with references to a Secret named `server` in place of secrets, and the data of that
    Secret. Raises EntryProblem.
    """
    secrets: dict[str, str] = {}
    taken = dict(fields)
    if isinstance(fields.get(_AUTH), Mapping):
        taken[_AUTH] = _without_secrets(fields[_AUTH], f"{OWN}.{_AUTH}", read, server, read_file, secrets)
    discovery = fields.get(_DISCOVERY)
    if isinstance(discovery, Mapping) and isinstance(discovery.get(_AUTH), Mapping):
        auth = _without_secrets(discovery[_AUTH], f"{OWN}.{_DISCOVERY}.{_AUTH}", read, server, read_file, secrets)
        taken[_DISCOVERY] = {**discovery, _AUTH: auth}
    return taken, secrets


def _without_secrets(
    auth: Mapping[str, Any],
    path: str,
    read: EntryReader,
    server: str,
    read_file: ReadSecretFile | None,
    secrets: dict[str, str],
) -> dict[str, Any]:
    """`auth` with variables resolved and with references; adds each secret to `secrets`. Raises EntryProblem."""
    members: dict[str, Any] = {}
    for name, member in auth.items():
        where = f"{path}.{name}"
        if not isinstance(member, Mapping):
            members[name] = member
            continue
        nested = {key: value for key, value in member.items() if key == _RESOURCE_CLIENT and isinstance(value, Mapping)}
        rest = {key: value for key, value in member.items() if key not in (SECRET, SECRET_FILE, *nested)}
        members[name] = _resolved(rest, where, read)
        members[name] |= _without_secrets(nested, where, read, server, read_file, secrets)
        key, value = _secret(member, where, read, read_file)
        if key:
            secrets[key] = value
            members[name]["secretRef"] = {"name": server, "key": key}
    return members


def _secret(
    member: Mapping[str, Any], where: str, read: EntryReader, read_file: ReadSecretFile | None
) -> tuple[str, str]:
    """Path and value of a member's secret; empty if it has none. Raises EntryProblem."""
    given = [name for name in (SECRET, SECRET_FILE, "secretRef") if member.get(name) is not None]
    if len(given) > 1:
        raise EntryProblem(f"{where}.{given[0]}", f"has the same purpose as {given[1]}: remove one of them")
    if not given or given[0] == "secretRef":
        return "", ""
    key = f"{where}.{given[0]}"
    value = read.value(key, member[given[0]])
    if given[0] == SECRET_FILE:
        if read_file is None:
            raise EntryProblem(key, f"cannot be read here: write the value itself into {SECRET}, as ${{NAME}}")
        try:
            value = read_file(read.in_home(value))
        except ValueError as error:
            raise EntryProblem(key, str(error)) from error
    if not value.strip():
        raise EntryProblem(key, "is empty: it holds the secret or private key of the client, or the token")
    return key, value


def _resolved(value: Any, where: str, read: EntryReader) -> Any:
    """`value`, with variables resolved in all its texts. Raises EntryProblem."""
    if isinstance(value, str):
        return read.value(where, value)
    if isinstance(value, Mapping):
        return {name: _resolved(member, f"{where}.{name}", read) for name, member in value.items()}
    if isinstance(value, list):
        return [_resolved(item, f"{where}[{index}]", read) for index, item in enumerate(value)]
    return value
