"""Hosts to which a credential may be sent: entries of `fairlead.dev/hosts`, with schemes and ports."""

from __future__ import annotations

import pytest

from fairlead_mcp.credential_hosts import hosts_allow, origin

PLAIN = "tools.example.com"


@pytest.mark.parametrize(
    ("annotation", "url"),
    [
        (None, "http://anywhere.example.com/mcp"),
        (PLAIN, "https://tools.example.com/mcp"),
        (PLAIN, "https://tools.example.com:8443/mcp"),
        (PLAIN, "https://Tools.Example.com./mcp"),
        (" other.example , TOOLS.example.com ", "https://tools.example.com"),
        (f"{PLAIN}:8443", "https://tools.example.com:8443/mcp"),
        (f"{PLAIN}:443", "https://tools.example.com/mcp"),
        (f"https://{PLAIN}", "https://tools.example.com/mcp"),
        (f"https://{PLAIN}:8443", "https://tools.example.com:8443/mcp"),
        (f"http://{PLAIN}", "http://tools.example.com/mcp"),
        (f"http://{PLAIN}:8080", "http://tools.example.com:8080/mcp"),
        ("demo.team.svc", "http://demo.team.svc:8080/mcp"),
        ("demo.team.svc.cluster.local", "http://demo.team.svc.cluster.local/mcp"),
        ("demo.team.svc:8080", "http://demo.team.svc:8080/mcp"),
        ("127.0.0.1", "http://127.0.0.1:9000/mcp"),
        ("localhost", "http://localhost:9000/mcp"),
        ("::1", "http://[::1]:9000/mcp"),
        ("[::1]:9000", "http://[::1]:9000/mcp"),
        ("[2001:db8::1]", "https://[2001:DB8:0::1]/mcp"),
        ("10.1.2.3", "https://10.1.2.3/mcp"),
    ],
)
def test_an_entry_allows_its_host_with_its_scheme_and_port(annotation: str | None, url: str) -> None:
    assert hosts_allow(annotation, url)


@pytest.mark.parametrize(
    ("annotation", "url"),
    [
        (PLAIN, "http://tools.example.com/mcp"),
        (PLAIN, "http://tools.example.com:443/mcp"),
        (f"{PLAIN}:8443", "http://tools.example.com:8443/mcp"),
        (f"{PLAIN}:8443", "https://tools.example.com/mcp"),
        (f"{PLAIN}:8443", "https://tools.example.com:9443/mcp"),
        (f"https://{PLAIN}", "http://tools.example.com:443/mcp"),
        (f"https://{PLAIN}", "https://tools.example.com:8443/mcp"),
        (f"http://{PLAIN}", "https://tools.example.com/mcp"),
        (f"http://{PLAIN}:8080", "http://tools.example.com/mcp"),
        (PLAIN, "https://tools.example.com.evil.net/mcp"),
        (PLAIN, "https://evil.net/tools.example.com"),
        ("10.1.2.3", "http://10.1.2.3/mcp"),
        ("server", "http://server/mcp"),
        ("demo.team.svc:8080", "http://demo.team.svc:8081/mcp"),
        ("", "https://tools.example.com/mcp"),
        ("ftp://tools.example.com", "https://tools.example.com/mcp"),
        ("tools.example.com:port", "https://tools.example.com/mcp"),
        ("https://[::1", "https://[::1]/mcp"),
        ("*.example.com", "https://tools.example.com/mcp"),
        (PLAIN, ""),
    ],
)
def test_a_host_entry_allows_no_other_address_and_no_clear_text_by_itself(annotation: str, url: str) -> None:
    assert not hosts_allow(annotation, url)


def test_a_refusal_names_a_host_entry_that_would_allow_it() -> None:
    for url in ("http://tools.example.com/mcp", "https://Tools.example.com:8443/mcp", "http://[2001:db8::1]:81/mcp"):
        assert hosts_allow(origin(url), url)
    assert origin("http://tools.example.com/mcp") == "http://tools.example.com:80"
