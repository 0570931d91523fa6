"""`fairlead keys --url`: creates, lists and revokes keys at a gateway that creates them for callers with a credential
(`/v1/keys`).
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from fairlead_cli.access.keyoutput import KeyOutput, key_id, parse_lifetime, show_key
from fairlead_cli.connecting import Destination
from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.output import Output, print_json, print_table, printable, remark
from fairlead_cli.rest import ManagementClient

DAY_SECONDS: Final = 86_400


class GatewayKeys:
    """Keys of one principal at a gateway."""

    def __init__(self, destination: Destination) -> None:
        self._url = destination.url
        self._client = ManagementClient.of(destination)

    def create(
        self, name: str, groups: list[str], expires: str | None, output: Output, key_output: KeyOutput | None
    ) -> None:
        """Create a key and show it. Raises Failure."""
        if groups:
            message = "--group cannot be used with --url: the key has the groups of the caller's credential"
            raise Failure(message, code=USAGE_ERROR)
        body: dict[str, Any] = {"name": name}
        if expires is not None:
            days, rest = divmod(int(parse_lifetime(expires).total_seconds()), DAY_SECONDS)
            if rest:
                raise Failure(f"--expires: {expires!r} must be whole days with --url", code=USAGE_ERROR)
            body["days"] = days
        if key_output is not None:
            key_output.check()
        answer = self._client.post("/v1/keys", body)
        facts = answer["facts"]
        show_key(answer["key"], facts, f"{facts['id']} ({printable(name)})", key_output, output, f"--url {self._url}")
        remark("keys create", f"the gateway at {self._url} created the key; it expires at {facts['expires']}")

    def list(self, output: Output) -> None:
        """Print the keys. Raises Failure."""
        keys = self._client.get("/v1/keys")["keys"]
        if output is Output.json:
            print_json(keys)
            return
        rows = [[key["id"], printable(key["name"]), key["created"], key["expires"]] for key in keys]
        print_table(["ID", "NAME", "CREATED", "EXPIRES"], rows)

    def revoke(self, ident: str, output: Output) -> None:
        """Revoke a key, given by its id or as the whole key. Raises Failure."""
        revoked_id = self._client.delete(f"/v1/keys/{quote(key_id(ident), safe='')}")["id"]
        if output is Output.json:
            print_json({"revoked": revoked_id})
        else:
            print(f"{revoked_id} is revoked at {self._url}")
