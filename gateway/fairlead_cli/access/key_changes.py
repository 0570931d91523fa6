"""Implementation of `fairlead keys`: a document of keys is read, changed and written, in a file or in a Secret of a
cluster."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from fairlead_cli.access.key_requests import GatewayKeys
from fairlead_cli.access.keyoptions import KeyOptions
from fairlead_cli.access.keyoutput import KeyOutput, key_id, life, show_key
from fairlead_cli.access.keys_in_secret import SecretPlace
from fairlead_cli.connecting import Destination
from fairlead_cli.failure import USED_WRONGLY, Failure
from fairlead_cli.output import Output, print_json, print_table, remark
from fairlead_gateway.identity.key_format import BadKeys, KeyDocument, KeyRecord, encode_keys, new_key, read

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
KEY_FILE: Final = "keys.json"
"""Keys where no place is named, and in the folder of a `fairlead up --state-dir`, which takes them."""
Change = Callable[[KeyDocument], KeyDocument]


class KeyLocation(Protocol):
    """Where keys are kept; `str()` names it for a person."""

    def load(self) -> KeyDocument:
        """Raises Failure."""
        ...

    def change(self, change: Change) -> None:
        """Read, change, write; a concurrent change is not overwritten. Raises Failure."""
        ...


def key_location(options: KeyOptions) -> KeyLocation | GatewayKeys:
    """The file, the Secret where one is named, or the gateway of a URL. An option beats the environment, and a file a
    URL. Raises Failure, also for a name that the API server does not take.
    """
    file = None if _is_of_environment(options.file, "FAIRLEAD_API_KEYS") else options.file
    url = None if _is_of_environment(options.url, "FAIRLEAD_URL") else options.url
    given = {"--secret": options.secret, "--state-dir": options.state_dir, "--file": file, "--url": url}
    named = [option for option, value in given.items() if value is not None]
    if len(named) > 1:
        raise Failure(f"{' and '.join(named)} name two places for keys: give one", code=USED_WRONGLY)
    if options.secret is not None:
        return _secret(options.secret, options)
    if options.state_dir is not None:
        return FilePlace(private_folder(options.state_dir) / KEY_FILE)
    if not (file or url):  # then the environment says it
        file = options.file
        url = options.url
    if url and file is None:
        return GatewayKeys(Destination.parse(url, options.header or [], None, options.timeout, options.token))
    return FilePlace(file or Path(KEY_FILE), unnamed=file is None)


def _is_of_environment(value: object, variable: str) -> bool:
    """Whether an option has its value from the environment, not from the command line."""
    return value is not None and str(value) == os.environ.get(variable)


def _secret(name: str, options: KeyOptions) -> SecretPlace:
    for option, value in (("--secret", name), ("--namespace", options.namespace)):
        if not _NAME.fullmatch(value):
            message = f"{option}: {value!r} is not a valid name in Kubernetes, such as fairlead-api-keys"
            raise Failure(message, code=USED_WRONGLY)
    return SecretPlace(name, options.namespace, options.kubeconfig)


def run_create(
    location: KeyLocation,
    agent: str,
    groups: list[str],
    expires: str | None,
    output: Output,
    to: KeyOutput | None = None,
) -> None:
    """Make a key and print it, or write it to a file, after its hash was kept. Raises Failure."""
    if not agent.strip() or not agent.isprintable():
        raise Failure("AGENT must be a name", code=USED_WRONGLY)
    now = datetime.now(UTC)
    key, record = new_key(agent, groups, now=now, expires=None if expires is None else now + life(expires))
    if to is not None:
        to.check()
    location.change(lambda document: KeyDocument((*document.keys, record)))
    show_key(key, _document(record), f"{record.id} of {agent}", to, output)
    unread = isinstance(location, FilePlace) and location.unnamed
    taken = f"; a gateway with FAIRLEAD_API_KEYS={location} in its environment takes the key" if unread else ""
    remark("keys create", f"its hash is written to {location}{taken}")


def run_list(location: KeyLocation, output: Output) -> None:
    """Everything that is kept but the hashes."""
    records = location.load().keys
    if output is Output.json:
        print_json([_document(record) for record in records])
        return
    rows = [
        [
            key_record.id,
            key_record.agent,
            ", ".join(key_record.groups),
            key_record.created,
            key_record.expires or "never",
        ]
        for key_record in records
    ]
    print_table(["ID", "AGENT", "GROUPS", "CREATED", "EXPIRES"], rows)


def run_revoke(location: KeyLocation, ident: str, output: Output) -> None:
    """Take a key out. Raises Failure where there is none of that id."""
    wanted = key_id(ident)

    def without(document: KeyDocument) -> KeyDocument:
        left = tuple(record for record in document.keys if record.id != wanted)
        if len(left) == len(document.keys):
            raise Failure(f"there is no key {wanted[:16]}: `fairlead keys list` shows them", code=USED_WRONGLY)
        return KeyDocument(left)

    location.change(without)
    if output is Output.json:
        print_json({"revoked": wanted})
    else:
        print(f"{wanted} is revoked in {location}")


class FilePlace:
    """A file, written as a whole and readable by its owner alone."""

    def __init__(self, path: Path, *, unnamed: bool = False) -> None:
        self._path = path
        self.unnamed = unnamed
        """Whether neither an option nor the environment named it, so that no gateway need read it."""

    def __str__(self) -> str:
        return str(self._path.absolute())

    def load(self) -> KeyDocument:
        try:
            return read(self._path.read_bytes())
        except FileNotFoundError:
            return KeyDocument()
        except (OSError, BadKeys) as error:
            raise Failure(f"{self._path} cannot be used: {error}", code=USED_WRONGLY) from error

    def change(self, change: Change) -> None:
        data = encode_keys(change(self.load()).keys)
        try:
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
                file.write(data)
            os.replace(file.name, self._path)  # noqa: PTH105  # Path.replace takes no name
        except OSError as error:
            raise Failure(f"{self._path} cannot be written: {error.strerror or error}") from error


def private_folder(folder: Path) -> Path:
    """The absolute folder, made for its owner alone where it does not exist. Raises Failure."""
    path = folder.expanduser().absolute()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}; --state-dir names another folder") from error
    return path


def _document(record: KeyRecord) -> dict[str, object]:
    return {
        "id": record.id,
        "agent": record.agent,
        "groups": list(record.groups),
        "created": record.created,
        "expires": record.expires or None,
    }
