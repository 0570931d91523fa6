"""`hack/codecnames.py` reports each line where a peer could choose the codec, and no other lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[3] / "hack" / "codecnames.py"


def run_check(folder: Path, source: str) -> tuple[int, str]:
    """Exit code and output of the program for one file."""
    path = folder / "gateway/reader.py"
    path.parent.mkdir()
    path.write_text(source)
    ended = subprocess.run([sys.executable, PROGRAM], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    return ended.returncode, ended.stdout


@pytest.mark.parametrize(
    "line",
    [
        "body.decode(charset)",
        'body.decode(charset or "utf-8", "replace")',
        "body.decode(encoding=charset)",
        "answer.read().decode(charset)",
        "bytes.decode(body, charset)",
        "codecs.decode(body, charset)",
        "codecs.lookup(charset)",
        "codecs.getincrementaldecoder(charset)()",
        "str(body, charset)",
        "str(body, encoding=charset)",
        'open(path, "r", -1, charset)',
        "open(path, encoding=charset)",
        "path.read_text(charset)",
        "io.TextIOWrapper(stream, charset)",
        "subprocess.run(words, encoding=charset)",
        "text.encode(charset)",
    ],
)
def test_a_codec_that_is_not_a_literal_is_named(line: str, tmp_path: Path) -> None:
    code, told = run_check(tmp_path, f"\n{line}\n")
    assert (code, told.count("\n"), told.partition(": ")[0]) == (1, 1, "gateway/reader.py:2")
    assert "names the codec; write a literal" in told


@pytest.mark.parametrize(
    "line",
    ["await answer.text()", "await answer.json()", "await request.post()", "await self.request.form()"],
)
def test_bodies_that_are_decoded_by_the_charset_of_a_peer_are_named(line: str, tmp_path: Path) -> None:
    code, told = run_check(tmp_path, f"async def read(answer, request):\n    {line}\n")
    assert (code, told.count("decodes by the peer's charset; read bytes, and decode these\n")) == (1, 1)


@pytest.mark.parametrize("member", ["text", "iter_lines", "aiter_text"])
def test_text_of_a_response_is_named_where_a_client_of_http_is_imported(member: str, tmp_path: Path) -> None:
    code, told = run_check(tmp_path, f"def read(answer):\n    import httpx2\n    return answer.{member}\n")
    assert (code, told.partition(":")[2]) == (
        1,
        f"3: `.{member}` decodes by the peer's charset; read bytes, and decode these\n",
    )


def test_literals_and_documents_are_let_alone(tmp_path: Path) -> None:
    good = (
        'body.decode()\nbody.decode("latin-1", "replace")\nopen(path, encoding="utf-8")\nstr(body)\nturn.text\n'
        "msgspec.json.decode(body, type=kind)\nwebencodings.decode(body, label)\njwt.decode(token, key)\n"
        'codecs.getincrementaldecoder("utf-8")().decode(body)\nmask.text(body)\n'
        'async def read(answer, console):\n    await answer.text(encoding="utf-8")\n    await console.post()\n'
    )
    assert run_check(tmp_path, good) == (0, "")
