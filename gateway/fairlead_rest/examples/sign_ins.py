"""Examples of sign-ins at servers."""

from __future__ import annotations

from typing import Any, Final

OPEN: Final[dict[str, Any]] = {
    "a link to open": {
        "server": "default/linear",
        "signedIn": False,
        "signInUrl": "http://127.0.0.1:8080/sign-in/default/linear?id=3b7Jx0p9Jq2m",
        "failure": None,
    },
    "signed in already": {"server": "default/linear", "signedIn": True, "signInUrl": None, "failure": None},
}
STATE: Final[dict[str, Any]] = {
    "while the person has not answered": OPEN["a link to open"],
    "after a refusal": {
        **OPEN["a link to open"],
        "failure": "https://auth.example.com did not give access: the person declined",
    },
    "at the end": OPEN["signed in already"],
}
KEY: Final[dict[str, Any]] = {"a key": {"key": "tk_4mfw9a"}}
ENTERED: Final[dict[str, Any]] = {
    "stored": {
        "server": "default/tickets",
        "signedIn": True,
        "signInUrl": None,
        "failure": None,
        "key": {"description": "an API key with read access", "helpUrl": "https://tickets.example.com/settings/keys"},
    },
}
