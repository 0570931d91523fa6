"""Implementation of `fairlead keys`: reads, changes and writes a document of keys, in a file or in a Secret."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from fairlead_cli.access.key_requests import GatewayKeys
from fairlead_cli.access.keyoptions import KeyOptions
from fairlead_cli.access.keyoutput import KeyOutput, key_id, parse_lifetime, show_key
from fairlead_cli.access.keys_in_secret import KeySecretLocation
from fairlead_cli.connecting import Destination
from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.output import Output, print_json, print_table, remark
from fairlead_gateway.grants.private_files import replace_whole
from fairlead_gateway.identity.key_format import BadKeys, KeyDocument, KeyRecord, encode_keys, new_key, read

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
KEY_FILE: Final = "keys.json"
"""Default name of the file of keys, and the name of the file that `fairlead up` reads in the folder `--state-dir`."""
Change = Callable[[KeyDocument], KeyDocument]


class KeyLocation(Protocol):
    """Storage of keys; `str()` names it for a person."""

    @property
    def option(self) -> str:
        """Option with which `fairlead keys` uses this storage, ready to paste."""
        ...

    def load(self) -> KeyDocument:
        """Read the keys. Raises Failure."""
        ...

    def change(self, change: Change) -> None:
        """Read, change and write the keys, without overwriting a concurrent change. Raises Failure."""
        ...


def key_location(options: KeyOptions) -> KeyLocation | GatewayKeys:
    """The location of keys that the options name: a file, a Secret, or a gateway's URL. Options take precedence over
    the environment, and a file over a URL. Raises Failure, also for a name that is not valid in Kubernetes.
    """
    file = None if _is_from_environment(options.file, "FAIRLEAD_API_KEYS") else options.file
    url = None if _is_from_environment(options.url, "FAIRLEAD_URL") else options.url
    locations = {"--secret": options.secret, "--state-dir": options.state_dir, "--file": file, "--url": url}
    given_options = [option for option, value in locations.items() if value is not None]
    if len(given_options) > 1:
        raise Failure(
            f"{' and '.join(given_options)} name different locations of keys: give only one", code=USAGE_ERROR
        )
    if options.secret is not None:
        return _secret(options.secret, options)
    if options.state_dir is not None:
        return KeyFileLocation(options.state_dir.expanduser().absolute() / KEY_FILE, is_private=True)
    if not (file or url):  # no option names a location, but the environment may
        file = options.file
        url = options.url
    if url and file is None:
        return GatewayKeys(Destination.parse(url, options.header or [], None, options.timeout, options.token))
    return KeyFileLocation(file or Path(KEY_FILE), is_default=file is None)


def _is_from_environment(value: object, variable: str) -> bool:
    """Whether an option's value comes from the environment instead of the command line."""
    return value is not None and str(value) == os.environ.get(variable)


def _secret(name: str, options: KeyOptions) -> KeySecretLocation:
    for option, value in (("--secret", name), ("--namespace", options.namespace)):
        if not _NAME.fullmatch(value):
            message = f"{option}: {value!r} is not a valid name in Kubernetes, such as fairlead-api-keys"
            raise Failure(message, code=USAGE_ERROR)
    return KeySecretLocation(name, options.namespace, options.kubeconfig)


def run_create(
    location: KeyLocation,
    agent: str,
    groups: list[str],
    expires: str | None,
    output: Output,
    key_output: KeyOutput | None = None,
) -> None:
    """Create a key, store its hash, and print the key or write it to a file. Raises Failure."""
    if not agent.strip() or not agent.isprintable():
        raise Failure("AGENT must be a printable name", code=USAGE_ERROR)
    now = datetime.now(UTC)
    key, record = new_key(agent, groups, now=now, expires=None if expires is None else now + parse_lifetime(expires))
    if key_output is not None:
        key_output.check()
    hint = location.prepare() if isinstance(location, KeyFileLocation) else ""
    location.change(lambda document: KeyDocument((*document.keys, record)))
    show_key(key, _document(record), f"{record.id} of {agent}", key_output, output, location.option)
    remark("keys create", f"the hash of the key is written to {location}{hint}")


def run_list(location: KeyLocation, output: Output) -> None:
    """Print all stored keys, without their hashes."""
    records = location.load().keys
    if isinstance(location, KeyFileLocation) and location.is_missing():
        remark("keys list", f"{location} does not exist")
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
    """Remove a key. Raises Failure if there is no key with that id."""
    target = key_id(ident)

    def remove_key(document: KeyDocument) -> KeyDocument:
        remaining = tuple(record for record in document.keys if record.id != target)
        if len(remaining) == len(document.keys):
            listing = f"`fairlead keys list {location.option}` lists the keys"
            raise Failure(f"key {target[:16]} does not exist: {listing}", code=USAGE_ERROR)
        return KeyDocument(remaining)

    location.change(remove_key)
    if output is Output.json:
        print_json({"revoked": target})
    else:
        print(f"{target} is revoked in {location}")


class KeyFileLocation:
    """A file of keys that only its owner can read. It is always replaced as a whole.

    `is_private` says that the file is in a folder of `fairlead up`, which only its owner can read.
    """

    def __init__(self, path: Path, *, is_default: bool = False, is_private: bool = False) -> None:
        self._path = path
        self._is_private = is_private
        self._is_default = is_default
        """Whether neither an option nor the environment named the file, so that a gateway may not read it."""

    def __str__(self) -> str:
        return str(self._path.absolute())

    @property
    def option(self) -> str:
        return f"--file {shlex.quote(str(self))}"

    def is_missing(self) -> bool:
        """Whether there is no such file."""
        return not self._path.exists()

    def prepare(self) -> str:
        """Create the folder of a private file, if its parent exists. Returns a hint about the gateway that reads the
        file, to be appended to a message that names the file; empty if no hint is needed. Raises Failure.
        """
        folder = self._path.parent
        if not self._is_private:
            return f"; a gateway reads it with FAIRLEAD_API_KEYS={self}" if self._is_default else ""
        if folder.is_dir():
            return "; a `fairlead up` that runs with this folder has to be started again" if self.is_missing() else ""
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            message = f"{folder} cannot be created: {error.strerror}; choose another folder with --state-dir"
            raise Failure(message, code=USAGE_ERROR) from error
        return ", in a new folder: no `fairlead up --state-dir` has used it so far"

    def load(self) -> KeyDocument:
        try:
            return read(self._path.read_bytes())
        except FileNotFoundError:
            return KeyDocument()
        except (OSError, BadKeys) as error:
            raise Failure(f"{self._path} cannot be read: {error}", code=USAGE_ERROR) from error

    def change(self, change: Change) -> None:
        data = encode_keys(change(self.load()).keys)
        try:
            replace_whole(self._path, data)
        except OSError as error:
            raise Failure(f"{self._path} cannot be written: {error.strerror or error}") from error


def _document(record: KeyRecord) -> dict[str, object]:
    return {
        "id": record.id,
        "agent": record.agent,
        "groups": list(record.groups),
        "created": record.created,
        "expires": record.expires or None,
    }
