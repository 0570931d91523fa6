"""`fairlead accounts` and `fairlead logout`: lists and ends the caller's accounts at servers, by `/v1/accounts`."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from fairlead_cli.connecting import Destination
from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.output import Output, print_json, print_table, printable, some_names
from fairlead_cli.rest import ManagementClient

PATH: Final = "/v1/accounts"


def run_accounts(destination: Destination, output: Output, *, everybody: bool) -> None:
    """Print the caller's accounts, or the accounts of all users. Raises Failure."""
    client = ManagementClient.of(destination)
    accounts = _accounts(client, everybody=everybody)
    if output is Output.json:
        print_json(accounts)
        return
    if not accounts:
        print("nobody has signed in at a server" if everybody else "you have not signed in at a server")
        return
    headings = ["SERVER", *(["PERSON"] if everybody else []), "PROVIDER", "SINCE", "UNTIL", "SCOPES"]
    print_table(headings, [_row(account, everybody=everybody) for account in accounts])


def run_logout(destination: Destination, server: str | None, output: Output) -> None:
    """End the caller's account at a server; without `server`, at all servers. Raises Failure."""
    client = ManagementClient.of(destination)
    accounts = _accounts(client)
    names = [account["server"] for account in accounts]
    full_names = names if server is None else _find_server(server, names)
    disconnected = []
    for full_name in full_names:
        namespace, _, name = full_name.partition("/")
        disconnected.append(client.delete(f"{PATH}/{quote(namespace, safe='')}/{quote(name, safe='')}"))
        if output is not Output.json:
            print(sentence(disconnected[-1]))
    if output is Output.json:
        print_json(disconnected)
    elif not disconnected:
        print("you have not signed in at a server")


def _accounts(client: ManagementClient, *, everybody: bool = False) -> list[Any]:
    query = {"everybody": "true"} if everybody else {}
    accounts: list[Any] = client.get(PATH, **query)["accounts"]
    return accounts


def _find_server(server: str, names: list[str]) -> list[str]:
    """The full name of the server, in a list. Raises Failure if the caller has no account there."""
    matches = [name for name in names if server in (name, name.partition("/")[2])]
    if len(matches) > 1:
        raise Failure(f"{server} may be {' or '.join(matches)}: give NAMESPACE/NAME", code=USAGE_ERROR)
    if not matches:
        accounts = f"you have accounts at {some_names(names)}" if names else "you have no account at any server"
        raise Failure(f"you have no account at {server}: {accounts}", code=USAGE_ERROR)
    return matches


def _row(account: Any, *, everybody: bool) -> list[str]:
    person = [printable(account["person"])] if everybody else []  # the value for `sign-out --person`
    return [
        account["server"],
        *person,
        printable(account["issuer"]) if account["kind"] == "grant" else "(a key)",
        account["since"] or "unknown",
        _end_of(account),
        printable(" ".join(account["scopes"])),
    ]


def _end_of(account: Any) -> str:
    if account["until"]:
        return str(account["until"])
    unused_until = account.get("unusedUntil")
    return f"{unused_until} if unused" if unused_until else "no end"


def sentence(disconnected: Any) -> str:
    """Sentence about a disconnected account."""
    account = disconnected["account"]
    if account["kind"] == "key":
        return f"{account['server']}: your key is deleted here, and stays valid until you revoke it where you got it"
    provider = printable(account["issuer"] or "the provider")
    if disconnected["revoked"]:
        return f"{account['server']}: signed out, and {provider} has revoked the grant"
    return f"{account['server']}: signed out; {provider} did not revoke the grant: end it in your settings there too"
