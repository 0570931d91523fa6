"""`fairlead sign-ins` and `fairlead sign-out`: lists and ends sign-ins of clients, by `/v1/sign-ins`."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote, urlencode

from fairlead_cli.access.account_requests import sentence
from fairlead_cli.connecting import Destination
from fairlead_cli.failure import USAGE_ERROR, Failure
from fairlead_cli.output import Output, print_json, print_table, printable, some_names
from fairlead_cli.rest import ManagementClient

PATH: Final = "/v1/sign-ins"


def run_sign_ins(destination: Destination, output: Output, *, everybody: bool) -> None:
    """Print the clients that the caller has signed in, or the clients of all users. Raises Failure."""
    sign_ins = _sign_ins(ManagementClient.of(destination), everybody=everybody)
    if output is Output.json:
        print_json(sign_ins)
        return
    if not sign_ins:
        print("nobody has signed a client in" if everybody else "you have not signed a client in")
        return
    headings = [
        "ID",
        *(["PERSON"] if everybody else []),
        "CLIENT",
        "HOST",
        "AGENT",
        "RESOURCE",
        "BEGAN",
        "USED",
        "ENDS",
    ]
    print_table(headings, [_row(sign_in, everybody=everybody) for sign_in in sign_ins])


def run_sign_out(
    destination: Destination, client_name: str | None, output: Output, *, person: str | None, accounts: bool
) -> None:
    """End a person's sign-in of the client `client_name`; without `client_name`, all sign-ins, and with `accounts` also
    the person's accounts at servers. Raises Failure."""
    client = ManagementClient.of(destination)
    query = {} if person is None else {"person": person}
    if client_name is None:
        result = client.delete(_target(PATH, {**query, "accounts": "true"} if accounts else query))
    elif accounts:
        raise Failure("--accounts ends all sign-ins with the accounts at servers: omit CLIENT", code=USAGE_ERROR)
    else:
        all_sign_ins = _sign_ins(client, everybody=person is not None)
        person_sign_ins = [sign_in for sign_in in all_sign_ins if person in (None, sign_in["person"])]
        path = f"{PATH}/{quote(_find_sign_in(client_name, person_sign_ins)['id'], safe='')}"
        result = {"signIns": [client.delete(_target(path, query))], "accounts": []}
    if output is Output.json:
        print_json(result)
        return
    for sign_in in result["signIns"]:
        print(f"{_name_of(sign_in)}: signed out")
    for account in result["accounts"]:
        print(sentence(account))
    if not result["signIns"] and not result["accounts"]:
        print("no client is signed in" if person is None else _nobody_signed_in(person))


def _nobody_signed_in(person: str) -> str:
    return f"no client of {printable(person)} is signed in: `fairlead sign-ins --everybody` lists users and clients"


def _sign_ins(client: ManagementClient, *, everybody: bool) -> list[Any]:
    query = {"everybody": "true"} if everybody else {}
    sign_ins: list[Any] = client.get(PATH, **query)["signIns"]
    return sign_ins


def _target(path: str, query: dict[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _find_sign_in(client_name: str, sign_ins: list[Any]) -> Any:
    """The sign-in that is meant by its id, or by the name or host of its client. Raises Failure."""
    matches = [each for each in sign_ins if client_name and client_name in (each["id"], each["name"], each["host"])]
    if len(matches) > 1:
        ids = " or ".join(each["id"] for each in matches)
        raise Failure(f"{client_name} has signed in more than once: give the id {ids}", code=USAGE_ERROR)
    if not matches:
        names = [_name_of(each) for each in sign_ins]
        clients = f"clients that are signed in: {some_names(names)}" if names else "no client is signed in"
        raise Failure(f"there is no sign-in of {client_name}; {clients}", code=USAGE_ERROR)
    return matches[0]


def _name_of(sign_in: Any) -> str:
    return printable(sign_in["name"] or sign_in["client"])


def _row(sign_in: Any, *, everybody: bool) -> list[str]:
    person = [printable(sign_in["person"])] if everybody else []  # the value for `--person`
    return [
        sign_in["id"],
        *person,
        _name_of(sign_in),
        printable(sign_in["host"] or sign_in["redirectHost"]),
        printable(sign_in["agent"] or "(none)"),
        printable(sign_in["resource"]),
        *(sign_in[time] or "unknown" for time in ("began", "used", "ends")),
    ]
