"""`fairlead openapi check` in a process of its own."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forkserver import program_words
from openapidocuments import OK, document, get

PATHS = {"/pets": get(), "/bad": {"post": {"requestBody": 3, "tags": ["bad"], "responses": OK}}}


def check(*words: str, given: bytes = b"") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": "/nonexistent", "COLUMNS": "200", "NO_PROXY": "*"}
    done = subprocess.run(
        [*program_words(), "openapi", "check", *words],
        input=given,
        capture_output=True,
        timeout=60,
        env=environment,
        check=False,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(document(PATHS, servers=[{"url": "/v2"}])))
    return path


def test_the_report_names_each_operation_and_why_it_is_left_out(file: Path) -> None:
    result = check(str(file))
    assert result.returncode == 1
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[1] == ["GET", "/pets", "read", "made"]
    assert rows[2] == [
        "POST",
        "/bad",
        "left",
        "out",
        "`requestBody`",
        "is",
        "not",
        "an",
        "object",
        "(and",
        "1",
        "more)",
    ]
    assert "Example, OpenAPI 3.1.0, 2 operations: 1 become tools, 0 tools with losses, 1 are left out" in result.stderr
    assert "the document gives no base URL: the server's URL '/v2' is relative" in result.stderr
    assert "write the URL of the API into a manifest, as openapi.baseURL" in result.stderr


def test_the_report_says_which_field_of_a_manifest_gives_each_credential(tmp_path: Path) -> None:
    schemes = {
        "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "app": {"type": "apiKey", "in": "query", "name": "app"},
        "token": {"type": "http", "scheme": "Bearer"},
        "basic": {"type": "http", "scheme": "basic"},
        "oauth": {"type": "oauth2", "flows": {}},
    }
    needs: list[dict[str, list[str]]] = [
        {"key": [], "app": []},
        {"token": []},
        {"basic": []},
        {"oauth": []},
        {"lost": []},
    ]
    paths = {
        "/pets": {"get": {"operationId": "read", "responses": OK}},
        "/open": {"get": {"operationId": "open", "security": [], "responses": OK}},
        "/maybe": {"get": {"operationId": "maybe", "security": [{}, {"key": []}], "responses": OK}},
    }
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(document(paths, security=needs, components={"securitySchemes": schemes})))
    told = check(str(path)).stderr
    assert "1 of 3 tools need a credential, which a manifest gives" in told
    for line in (
        "key: API key in the header X-Key: auth.header, or",
        "app: API key in the query app: openapi.credentials.app.query",
        "token: bearer token: auth.bearer, or",
        'basic: HTTP basic: auth.header with name: Authorization; the value begins with "Basic "',
        "oauth: OAuth token: auth.userConsent or",
        "lost: not in components.securitySchemes",
    ):
        assert f"  {line}" in told


def test_the_ways_to_show_fewer_tools_can_be_pasted(tmp_path: Path) -> None:
    paths = {
        f"/{n}": {"get": {"operationId": f"get{n}", "tags": [["Server Actions", "Rest"][n % 2]], "responses": OK}}
        for n in range(42)
    }
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(document(paths)))
    assert "  with --include 'Server Actions': about" in check(str(path)).stderr


def test_the_report_is_json_for_programs_and_fine_without_what_is_excluded(file: Path) -> None:
    result = check(str(file), "--json", "--exclude", "bad")
    assert result.returncode == 0
    report = json.loads(result.stdout)
    assert report["counts"] == {"made": 1, "made with loss": 0, "left out": 0, "not selected": 1}
    assert report["operations"][0]["tool"] == "read"


def test_a_document_is_checked_for_the_server_of_a_manifest(tmp_path: Path) -> None:
    schemes = {"staff": {"type": "http", "scheme": "Bearer"}, "key": {"type": "apiKey", "in": "query", "name": "k"}}
    file, manifest = tmp_path / "api.json", tmp_path / "server.json"
    file.write_text(json.dumps(document(PATHS, components={"securitySchemes": schemes})))

    def check_manifest(*credentials: str) -> subprocess.CompletedProcess[str]:
        bearer = {"bearer": {"secretRef": {"name": "api"}}}
        source = {"file": "api.json", "baseURL": "https://a.example", "exclude": ["bad"]}
        spec = {"openapi": {**source, "credentials": dict.fromkeys(credentials, bearer)}}
        kind = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": "api"}}
        manifest.write_text(json.dumps({**kind, "spec": spec}))
        return check(str(file), "--manifest", str(manifest))

    fine, wrong = check_manifest("staff"), check_manifest("Staf")
    assert (fine.returncode, wrong.returncode) == (0, 1)
    assert "1 operations, of 2" in fine.stderr
    assert "security schemes: staff (http bearer), key (apiKey in query k)" in fine.stderr
    assert "does not have (Staf: did you mean staff?)" in wrong.stderr
    manifest.write_text("{}")
    assert check(str(file), "--manifest", str(manifest)).returncode == 2
    assert check(str(file), "--manifest", str(tmp_path / "missing.yaml")).returncode == 2


def test_standard_input_is_read(file: Path) -> None:
    assert check("-", "--include", "GET *", given=file.read_bytes()).returncode == 0


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"swagger": "2.0"}', "the document is Swagger 2.0, and only OpenAPI 3.0 and 3.1 are read; convert it"),
        (b"[", "the document is not valid YAML"),
    ],
)
def test_a_file_that_is_not_a_document_is_a_wrong_use(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    result = check(str(path))
    assert result.returncode == 2
    assert f"fairlead openapi check: {path} cannot become tools: {why}" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_file_that_is_not_there_is_a_wrong_use() -> None:
    result = check("/no/such/file")
    assert result.returncode == 2
    assert result.stderr == "fairlead openapi check: cannot read /no/such/file: No such file or directory\n"


class _Documents(http.server.BaseHTTPRequestHandler):
    """Serves a document behind a redirect."""

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/docs/openapi.json")
            self.end_headers()
            return
        self.send_response(200 if self.path == "/docs/openapi.json" else 404)
        self.end_headers()
        if self.path == "/docs/openapi.json":
            self.wfile.write(json.dumps(document(PATHS, servers=[{"url": "../v2"}])).encode())

    def log_message(self, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def site() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Documents)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_url_is_fetched_and_servers_are_relative_to_it(site: str) -> None:
    result = check(f"{site}/moved", "--include", "read")
    assert result.returncode == 0
    assert f"calls go to {site}/v2" in result.stderr


def test_a_url_that_does_not_answer_with_a_document_is_a_failure(site: str) -> None:
    result = check(f"{site}/gone")
    assert result.returncode == 1
    assert result.stderr == f"fairlead openapi check: {site}/gone answered 404 Not Found\n"


def test_a_document_with_many_operations_is_told_what_fewer_tools_save(tmp_path: Path) -> None:
    paths = {
        f"/{number}": {
            "get": {
                "tags": ["few" if number < 10 else "one" if number == 50 else "many"],
                "summary": "Reads.",
                "responses": OK,
            }
        }
        for number in range(51)
    }
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document(paths)))
    lines = check(str(file)).stderr.splitlines()
    (cost,) = [line for line in lines if "51 definitions take about" in line]
    many, few, single = [line for line in lines if "--include" in line]
    assert "every request to a model" in cost
    assert many.endswith("% less (40 tools)")
    assert few.endswith("% less (10 tools)")
    assert single.endswith("% less (1 tool)")
    assert any("GET /v1/search" in line and line.endswith("84% less (8 tools)") for line in lines)
    assert any("/router/mcp" in line and "3 tools" in line for line in lines)
    assert "definitions take" not in check(str(file), "--include", "few").stderr
