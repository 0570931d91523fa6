"""Listing and ending of users' sign-ins: `/v1/sign-ins`, `fairlead sign-ins` and `sign-out`, and a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from authorizationworld import CLIENT_ID, OTHER_BACK, OTHER_ID, Attempt, AuthorizationWorld, authorization_world
from commands import fairlead, wide_fairlead
from consoleworld import csrf_of, post_form, sign_in, visit
from fairlead_mcp.oauth.stored_grant import GrantKey, StoredGrant
from gatewayworld import Answer, Ask, ask
from restworld import get, problem

PATH: Final = "/v1/sign-ins"
PAGE: Final = "/console/accounts"
SHOP: Final = "default/shop"
OTHER: Final = Attempt(OTHER_ID, OTHER_BACK)


def token_of(world: AuthorizationWorld, subject: str, *groups: str) -> str:
    """Token of a direct login at the provider."""
    return world.provider.token(sub=subject, aud=world.base, groups=list(groups))


def person_of(world: AuthorizationWorld, subject: str) -> str:
    return f"jwt:{world.provider.url}#{subject}"


async def get_sign_ins(world: AuthorizationWorld, token: str, **query: str) -> Answer:
    target = f"{PATH}?{urlencode(query)}" if query else PATH
    return await get(world.gateway, target, authorization=f"Bearer {token}")


async def list_sign_ins(world: AuthorizationWorld, token: str, **query: str) -> list[Any]:
    answer = await get_sign_ins(world, token, **query)
    assert answer.status == 200, answer.body
    sign_ins: list[Any] = answer.message["signIns"]
    return sign_ins


async def end_sign_in(world: AuthorizationWorld, token: str, sign_in: str = "", **query: str) -> Answer:
    target = PATH + (f"/{sign_in}" if sign_in else "") + (f"?{urlencode(query)}" if query else "")
    headers = {"authorization": f"Bearer {token}"}
    return await ask(world.gateway, Ask(verb="DELETE", target=target, body=b"", headers=headers))


async def sign_in_of(world: AuthorizationWorld, subject: str, attempt: Attempt | None = None) -> dict[str, Any]:
    """Tokens of a client after a user's sign-in."""
    world.provider.person = subject
    return await world.sign_in(attempt)


async def test_a_person_sees_and_ends_their_own_sign_ins_alone(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        tokens = await sign_in_of(world, "alice")
        await sign_in_of(world, "ben", OTHER)
        alice, ben = token_of(world, "alice"), token_of(world, "ben")
        (own,) = await list_sign_ins(world, alice)
        (of_ben,) = await list_sign_ins(world, ben)
        refused = [
            await get_sign_ins(world, ben, everybody="true"),
            await end_sign_in(world, ben, own["id"], person=person_of(world, "alice")),
            await end_sign_in(world, ben, person=person_of(world, "alice")),
        ]
        foreign = await end_sign_in(world, ben, own["id"])
        assert await world.call(tokens["access_token"]) == 200
        gone = await end_sign_in(world, alice, own["id"])
        assert await world.call(tokens["access_token"]) == 401, "at once, as this replica knows of it"
        assert (await world.refresh(tokens))[1]["error"] == "invalid_grant"
        again = await end_sign_in(world, alice, own["id"])
        assert await list_sign_ins(world, alice) == []

    times = {name: own.pop(name) for name in ("began", "used", "ends")}
    assert all(time.endswith("Z") for time in times.values())
    assert own == {
        "id": own["id"],
        "person": person_of(world, "alice"),
        "holder": f"{world.provider.url} alice",
        "client": CLIENT_ID,
        "name": "Desk",
        "host": "",
        "redirectHost": "desk.example",
        "agent": CLIENT_ID,
        "resource": world.base,
        "scopes": [],
    }
    assert of_ben["client"] == OTHER_ID
    assert [problem(answer) for answer in refused] == [(403, "FORBIDDEN")] * 3
    assert (gone.status, gone.message["id"]) == (200, own["id"])
    assert [problem(answer) for answer in (foreign, again)] == [(404, "UNKNOWN_SIGN_IN")] * 2


async def test_an_administrator_ends_all_sign_ins_of_a_person_with_the_accounts(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    async with authorization_world(tmp_path, admin_groups=("admins",), audit_file=log) as world:
        first = await sign_in_of(world, "alice")
        second = await sign_in_of(world, "alice", OTHER)
        of_ben = await sign_in_of(world, "ben")
        alice, boss = person_of(world, "alice"), token_of(world, "boss", "admins")
        grants = world.gateway.grants
        assert grants is not None
        grant = StoredGrant(issuer="https://as.example.com", client_id="c", refresh_token="r", granted_at=1.0)
        await grants.write(GrantKey(alice.encode(), SHOP), grant)
        everybody = await list_sign_ins(world, boss, everybody="true")
        assert await list_sign_ins(world, boss) == []
        gone = await end_sign_in(world, boss, person=alice, accounts="true")
        for tokens in (first, second):
            assert await world.call(tokens["access_token"]) == 401
        assert await world.call(of_ben["access_token"]) == 200
        left = await list_sign_ins(world, boss, everybody="true")
        assert await grants.read(GrantKey(alice.encode(), SHOP)) is None
        of_desk = await end_sign_in(world, boss, left[0]["id"], person=person_of(world, "ben"))
        nothing = await end_sign_in(world, boss, person=alice)

    assert [sign_in["person"].rpartition("#")[2] for sign_in in everybody] == ["alice", "alice", "ben"]
    assert {sign_in["client"] for sign_in in gone.message["signIns"]} == {CLIENT_ID, OTHER_ID}
    assert [account["account"]["server"] for account in gone.message["accounts"]] == [SHOP]
    assert [sign_in["person"] for sign_in in left] == [person_of(world, "ben")]
    assert of_desk.status == 200
    assert nothing.message == {"signIns": [], "accounts": []}
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    revoked = [line for line in lines if line.get("method") == "sign-ins/revoke"]
    recorded = [(line["name"], line["reason"]) for line in revoked]
    assert sorted(recorded) == sorted(
        [(CLIENT_ID, f"of {alice}"), (OTHER_ID, f"of {alice}"), (CLIENT_ID, f"of {person_of(world, 'ben')}")]
    )
    assert all("#boss" in line["principal"] for line in revoked)
    assert [line["server"] for line in lines if line.get("method") == "accounts/revoke"] == [SHOP]


async def test_all_sign_ins_end_without_the_accounts_unless_asked(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        tokens = await sign_in_of(world, "alice")
        alice, grants = token_of(world, "alice"), world.gateway.grants
        assert grants is not None
        key = GrantKey(person_of(world, "alice").encode(), SHOP)
        await grants.write(key, StoredGrant(issuer="https://as.example.com", client_id="c", granted_at=1.0))
        gone = await end_sign_in(world, alice)
        assert await grants.read(key) is not None
        assert await world.call(tokens["access_token"]) == 401
    assert [sign_in["name"] for sign_in in gone.message["signIns"]] == ["Desk"]
    assert gone.message["accounts"] == []


async def test_a_client_that_was_ended_asks_for_consent_again(tmp_path: Path) -> None:
    async with authorization_world(tmp_path) as world:
        await sign_in_of(world, "alice")
        assert (await world.come_back(await world.authorize(Attempt()))).status == 303
        await end_sign_in(world, token_of(world, "alice"))
        assert "Desk" in (await world.come_back(await world.authorize(Attempt()))).text


async def test_the_commands_show_and_end_sign_ins(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, admin_groups=("admins",)) as world:
        tokens = await sign_in_of(world, "alice")
        for attempt in (None, OTHER, Attempt(OTHER_ID, OTHER_BACK)):
            await sign_in_of(world, "ben", attempt)
        alice, boss = token_of(world, "alice"), token_of(world, "boss", "admins")
        url = ("--url", f"{world.base}/mcp")
        as_alice, as_boss = (("--header", f"Authorization: Bearer {token}", *url) for token in (alice, boss))
        shown = await wide_fairlead("sign-ins", *as_alice)
        everybody = await fairlead("sign-ins", "--everybody", "--json", *as_boss)
        unknown = await fairlead("sign-out", "nothing", *as_alice)
        both = await fairlead("sign-out", "Desk", "--accounts", *as_alice)
        several = await fairlead("sign-out", OTHER_ID, "--person", person_of(world, "ben"), *as_boss)
        desk = await fairlead("sign-out", "Desk", *as_alice)
        assert await world.call(tokens["access_token"]) == 401
        rest = await fairlead("sign-out", "--person", person_of(world, "ben"), "--json", *as_boss)
        nothing = [await fairlead(command, *as_alice) for command in ("sign-ins", "sign-out")]

    heading, row = shown[1].splitlines()
    assert heading.split() == ["ID", "CLIENT", "HOST", "AGENT", "RESOURCE", "BEGAN", "USED", "ENDS"]
    assert row.split()[1:5] == ["Desk", "desk.example", CLIENT_ID, world.base]
    assert len(json.loads(everybody[1])) == 4
    assert unknown[0] == 2
    assert "there is no sign-in of nothing; clients that are signed in: Desk" in unknown[2]
    assert (both[0], several[0]) == (2, 2)
    assert "has signed in more than once: give the id" in several[2]
    assert desk[:2] == (0, "Desk: signed out\n")
    assert len(json.loads(rest[1])["signIns"]) == 3
    assert [each[:2] for each in nothing] == [
        (0, "you have not signed a client in\n"),
        (0, "no client is signed in\n"),
    ]


async def test_the_page_ends_one_client_or_all_of_a_person(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, admin_groups=("admins",)) as world:
        gateway = world.gateway
        tokens = await sign_in_of(world, "alice")
        await sign_in_of(world, "ben", OTHER)
        own = await sign_in(gateway, token_of(world, "alice"))
        page = await visit(gateway, PAGE, cookie=own)
        (entry,) = await list_sign_ins(world, token_of(world, "alice"))
        form = {"csrf": csrf_of(page), "id": entry["id"], "person": entry["person"]}
        stolen = await post_form(gateway, f"{PAGE}/end-client", own, **{**form, "csrf": "another"})
        done = await post_form(gateway, f"{PAGE}/end-client", own, **form)
        assert await world.call(tokens["access_token"]) == 401
        after = await visit(gateway, done.headers["location"], cookie=own)
        boss = await sign_in(gateway, token_of(world, "boss", "admins"))
        of_everybody = await visit(gateway, PAGE, cookie=boss)
        form = {"csrf": csrf_of(of_everybody), "person": person_of(world, "ben"), "accounts": "yes"}
        all_done = await post_form(gateway, f"{PAGE}/end-clients", boss, **form)
        none_left = await visit(gateway, all_done.headers["location"], cookie=boss)

    text = page.body.decode()
    assert "End the sign-in of Desk" in text
    assert "desk.example" in text
    assert OTHER_ID not in text.partition("<main")[2]
    assert stolen.status == 403
    assert (done.status, done.headers["location"]) == (303, f"{PAGE}?ended=client")
    assert "The client is signed out" in after.body.decode()
    assert "End the sign-in" not in after.body.decode()
    assert f"of {world.provider.url} ben" in of_everybody.body.decode()
    assert "All clients of the person are signed out" in none_left.body.decode()
    assert "End the sign-in" not in none_left.body.decode()


async def test_the_person_that_the_list_shows_can_be_signed_out(tmp_path: Path) -> None:
    async with authorization_world(tmp_path, admin_groups=("admins",)) as world:
        await sign_in_of(world, "ben", OTHER)
        as_boss = ("--url", f"{world.base}/mcp", "--token", token_of(world, "boss", "admins"))
        _, table, _ = await wide_fairlead("sign-ins", "--everybody", *as_boss)
        stranger = await fairlead("sign-out", "--person", "ben", *as_boss)
        ben = person_of(world, "ben")
        code, text, _ = await fairlead("sign-out", "--person", ben, *as_boss)
        assert ben in table
        assert stranger[1].startswith("no client of ben is signed in: `fairlead sign-ins --everybody` lists")
        assert (code, text) == (0, f"{OTHER_ID}: signed out\n")
