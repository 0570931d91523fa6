"""Whatever a server sends: no crash, no hang, nothing left behind, and no answer for another caller."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_api.documents.catalog import TcpEndpoint
from fuzzed_gateway import FuzzWorld, fuzz_world, profile, read, regressions
from fuzzupstream import Program, Script, bodies, http_answers, http_script, line_script, meet, programs
from gated_stdio_server import CREDENTIAL, write_token
from gatewayworld import LEGACY, MODERN, catalog, limits

KINDS = ("http-modern", "http-legacy", "lines")


@contextlib.contextmanager
def world_of(folder: Path, kind: str, script: Script) -> Iterator[FuzzWorld]:
    bounds = limits(max_result_bytes=64 << 10)
    if kind == "lines":
        write_token(folder)

        def document(server: Any) -> Any:
            reached = TcpEndpoint(host="127.0.0.1", port=server.port)
            return catalog("demo", reached, ["echo"], version=LEGACY, credential=CREDENTIAL, limits=bounds)

        with fuzz_world(folder, serve=lambda: line_script(script), document_of=document) as world:
            yield world
        return
    version = MODERN if kind == "http-modern" else LEGACY
    with fuzz_world(
        folder, serve=lambda: http_script(script),
        document_of=lambda server: catalog("demo", server.url, ["echo"], version=version, limits=bounds),
    ) as world:  # fmt: skip
        yield world


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_no_bytes_of_a_server_do_harm(tmp_path: Path, kind: str) -> None:
    script = Script()
    answers = bodies if kind == "lines" else http_answers()
    with world_of(tmp_path, kind, script) as world:

        @profile(25 if kind == "lines" else 40)
        @given(programs(answers, closing=kind != "lines"), st.booleans())
        def example(made: list[Program], progress: bool) -> None:
            work = meet(world, script, made, progress=progress)
            flat = [answer for program in made for answer in [*program.answers, b"@END@"]]
            shape = [{"cuts": program.cuts, "close": program.close} for program in made]
            world.run(work, kind, flat, programs=shape, progress=progress)

        example()


@pytest.mark.parametrize("file", [file for kind in KINDS for file in regressions(kind)], ids=lambda file: file.stem)
def test_bytes_of_a_server_that_did_harm_once_do_none(tmp_path: Path, file: Path) -> None:
    found, made, script = read(file), [], Script()
    parts = iter(found.parts)
    for shape in found.more["programs"]:
        answers = []
        while (part := next(parts)) != b"@END@":
            answers.append(part)
        made.append(Program(answers, shape["cuts"], shape["close"]))
    with world_of(tmp_path, found.more["kind"], script) as world:
        world.replay(meet(world, script, made, progress=found.more["progress"]))
