"""Text form of the keys that seal grants."""

from __future__ import annotations

import base64

import pytest

from fairlead_gateway.grants.sealing_keys import BadSealingKeys, new_sealing_key, read_sealing_keys

SECRET = bytes(range(200, 232))
STANDARD = base64.b64encode(SECRET).decode()


def test_keys_are_read_from_their_text_in_order() -> None:
    keys = [new_sealing_key("a"), new_sealing_key("b")]
    assert read_sealing_keys(f"{keys[0].text},\n {keys[1].text}\n") == tuple(keys)


@pytest.mark.parametrize("encoded", [STANDARD, STANDARD.rstrip("="), base64.urlsafe_b64encode(SECRET).decode()])
def test_a_key_may_be_any_base64(encoded: str) -> None:
    assert read_sealing_keys(f"2026-11:{encoded}")[0].secret == SECRET


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "1 to 16 keys"),
        ("no key", "must be ID:KEY"),
        ("ab" * 20, "must be ID:KEY"),
        (f"a b:{STANDARD}", "must be ID:KEY"),
        (f":{STANDARD}", "must be ID:KEY"),
        ("a:c2hvcnQ=", "32 random bytes"),
        ("a:" + "*" * 43, "32 random bytes"),
        (f"a:{STANDARD},a:{STANDARD}", "an id of its own"),
        (",".join(new_sealing_key("k").text for _ in range(17)), "1 to 16 keys"),
    ],
)
def test_text_that_is_not_a_list_of_keys_is_refused_without_a_quote(text: str, reason: str) -> None:
    with pytest.raises(BadSealingKeys, match=reason) as refused:
        read_sealing_keys(text)
    assert STANDARD not in str(refused.value)
    assert "ab" * 20 not in str(refused.value)
