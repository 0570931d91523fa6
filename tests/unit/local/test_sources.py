"""The inventory is read from files on disk, and read again when they change."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairlead_operator.local.sources import Scan, Sources

SERVER = """\
apiVersion: fairlead.dev/v1alpha1
kind: McpServer
metadata: {{name: {name}}}
spec: {{command: [{command}]}}
"""


def server(name: str, command: str = "x") -> str:
    return SERVER.format(name=name, command=command)


def scan_sources(sources: Sources) -> Scan:
    scan = sources.scan()
    assert scan is not None
    return scan


def names(scan: Scan) -> list[str]:
    return sorted(key.name for key in scan.contents.servers)


def rewrite(file: Path, text: str) -> None:
    """Write a file with a modification time that differs from all earlier ones."""
    moved = file.stat().st_mtime_ns + 1_000_000
    file.write_text(text)
    os.utime(file, ns=(moved, moved))


def over(paths: Sequence[Path]) -> Sources:
    return Sources(paths, {"TOKEN": "abc"})


def test_a_large_file_of_a_folder_is_told_with_the_way_to_serve_it_as_a_document(tmp_path: Path) -> None:
    large = tmp_path / "github.json"
    large.touch()
    os.truncate(large, 9 << 20)
    (problem,) = [each for each in scan_sources(over([tmp_path])).problems if each.file == str(large)]
    assert problem.message.endswith(
        f"larger than 8 MiB; an OpenAPI document may be larger if it is named: fairlead up {large}"
    )
    (problem,) = scan_sources(over([large])).problems
    assert problem.message == "cannot be read: larger than 8 MiB"


def test_a_folder_is_read_with_all_its_kinds_of_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(server("a") + "---\n" + server("b"))
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"c": {"command": "x"}}}')
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"d": {"command": "x"}}}')
    (tmp_path / "list.yml").write_text("mcpServers:\n  - {id: e, command: x}\n")
    (tmp_path / "tier.yaml").write_text(
        "apiVersion: fairlead.dev/v1alpha1\nkind: LatencyTier\nmetadata: {name: t}\nspec: {maxLatency: 1s}\n"
    )
    scan = scan_sources(over([tmp_path]))
    assert names(scan) == ["a", "b", "c", "d", "e"]
    assert [tier.metadata.name for tier in scan.contents.tiers] == ["t"]
    assert scan.problems == ()


def test_files_of_others_in_a_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(server("a"))
    (tmp_path / "package.json").write_text('{"name": "x"}')
    (tmp_path / "tsconfig.json").write_text("{broken")
    (tmp_path / "compose.yml").write_text("services: {a: {image: b}}\n")
    (tmp_path / ".hidden.yaml").write_text(server("hidden"))
    (tmp_path / "notes.txt").write_text(server("text"))
    scan = scan_sources(over([tmp_path]))
    assert names(scan) == ["a"]
    assert scan.problems == ()


def test_the_same_file_named_by_a_person_is_complained_about(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "x"}')
    scan = scan_sources(over([tmp_path / "package.json"]))
    assert len(scan.problems) == 1


def test_a_bad_manifest_is_named_with_file_line_and_field_and_the_rest_is_served(tmp_path: Path) -> None:
    file = tmp_path / "servers.yaml"
    file.write_text(server("good") + "---\n" + server("bad").replace("command", "comand") + "---\n" + server("fine"))
    scan = scan_sources(over([tmp_path]))
    assert names(scan) == ["fine", "good"]
    assert f"{file}:9: spec.comand: unknown field; did you mean command?" in [str(p) for p in scan.problems]


def test_sources_are_not_read_again_while_nothing_changes(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(server("a"))
    sources = over([tmp_path])
    assert names(scan_sources(sources)) == ["a"]
    assert sources.scan() is None


def test_sources_see_added_changed_and_removed_files(tmp_path: Path) -> None:
    first = tmp_path / "a.yaml"
    second = tmp_path / "b.yaml"
    first.write_text(server("a"))
    sources = over([tmp_path])
    scan_sources(sources)

    second.write_text(server("b"))
    assert names(scan_sources(sources)) == ["a", "b"]

    rewrite(first, server("a", command="y"))
    changed = scan_sources(sources)
    assert [s.server.spec.command for s in changed.contents.servers.values()] == [["y"], ["x"]]

    second.unlink()
    assert names(scan_sources(sources)) == ["a"]


def test_the_last_file_may_go_too(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(server("a"))
    sources = over([file])
    scan_sources(sources)
    file.unlink()
    assert names(scan_sources(sources)) == []


def test_a_slip_of_the_pen_stops_no_server(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(server("a") + "---\n" + server("b"))
    sources = over([file])
    scan_sources(sources)

    rewrite(file, server("a") + "---\nfoo: [\n")
    slipped = scan_sources(sources)
    assert names(slipped) == ["a", "b"]
    assert slipped.problems[0].line > 0

    rewrite(file, server("a"))
    mended = scan_sources(sources)
    assert names(mended) == ["a"]
    assert mended.problems == ()


UNUSABLE = '"bad": {"command": "x", "env": {"A": "${NOT_SET_HERE}"}}'


def mcp_json(*entries: str) -> str:
    return f'{{"mcpServers": {{{", ".join(entries)}}}}}'


def test_a_server_that_is_removed_beside_one_that_is_refused_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(mcp_json('"a": {"command": "x"}', '"b": {"command": "x"}', UNUSABLE))
    sources = over([file])
    first = scan_sources(sources)
    assert (names(first), [key.name for key in first.contents.refused_servers]) == (["a", "b"], ["bad"])

    rewrite(file, mcp_json('"a": {"command": "x"}', UNUSABLE))
    assert names(scan_sources(sources)) == ["a"]


def test_a_manifest_that_is_removed_beside_one_with_two_problems_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    wrong = server("bad").replace("spec:", "spec: {sesion: Shared, prefxi: x}  #")
    file.write_text(server("a") + "---\n" + server("b") + "---\n" + wrong)
    sources = over([file])
    first = scan_sources(sources)
    assert len(first.problems) >= 2
    assert (names(first), [key.name for key in first.contents.refused_servers]) == (["a", "b"], ["bad"])

    rewrite(file, server("a") + "---\n" + wrong)
    assert names(scan_sources(sources)) == ["a"]


def test_a_server_whose_new_entry_is_refused_runs_as_it_was_declared_before(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(mcp_json('"bad": {"command": "before"}'))
    sources = over([file])
    scan_sources(sources)
    rewrite(file, mcp_json(UNUSABLE))
    scan = scan_sources(sources)
    assert [each.server.spec.command for each in scan.contents.servers.values()] == [["before"]]
    assert [key.name for key in scan.contents.refused_servers] == ["bad"]


def test_problems_of_a_file_are_told_apart_from_those_of_refused_servers_and_name_what_runs_on(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(mcp_json('"a": {"command": "x"}', UNUSABLE))
    sources = over([file])
    assert scan_sources(sources).file_problems == ()
    rewrite(file, "{")
    (problem,) = scan_sources(sources).file_problems
    assert problem.message.endswith(" (a keeps running as declared before)")
    rewrite(file, mcp_json('"a": {"command": "x"}', UNUSABLE))
    assert scan_sources(sources).file_problems == ()


def test_remarks_about_servers_that_run_on_are_kept_while_their_file_is_broken(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    whole = mcp_json('"a": {"command": "x", "env": {"KEY": "YOUR_API_KEY"}}')
    file.write_text(whole)
    sources = over([file])
    (remark,) = scan_sources(sources).problems
    rewrite(file, "{")
    assert remark in scan_sources(sources).problems
    rewrite(file, whole)
    assert list(scan_sources(sources).problems) == [remark]
    rewrite(file, mcp_json('"a": {"command": "x"}'))
    assert list(scan_sources(sources).problems) == []


def test_notes_that_ask_for_nothing_are_not_problems_of_their_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"context_servers": {"ext": {"source": "extension"}, "b": {"command": "y"}}}')
    scan = scan_sources(over([file]))
    assert [problem.is_note for problem in scan.problems] == [True]
    assert scan.file_problems == ()


def test_a_broken_file_that_declared_many_servers_names_some_of_them(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(mcp_json(*(f'"s{number:02}": {{"command": "x"}}' for number in range(12))))
    sources = over([file])
    scan_sources(sources)
    rewrite(file, "{")
    (problem,) = scan_sources(sources).file_problems
    some = "s00, s01, s02, s03, s04, s05, s06, s07 and 4 more"
    assert problem.message.endswith(f" ({some} keep running as declared before)")


def test_a_problem_with_an_entry_is_not_solved_by_json_that_is_broken(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(mcp_json('"a": {"command": "x"}', UNUSABLE))
    sources = over([file])
    before = scan_sources(sources)
    rewrite(file, mcp_json('"a": {,"command": "x"}', UNUSABLE))
    broken = scan_sources(sources)
    assert names(broken) == ["a"]
    assert "not valid JSON" in broken.problems[0].message
    assert {*before.problems} < {*broken.problems}
    assert [key.name for key in broken.contents.refused_servers] == ["bad"]


def test_a_server_that_is_declared_twice_stays_the_first_one(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(server("a", command="first"))
    (tmp_path / "b.yaml").write_text(server("a", command="second"))
    scan = scan_sources(over([tmp_path]))
    (declared,) = scan.contents.servers.values()
    assert declared.server.spec.command == ["first"]
    assert str(scan.problems[0]) == (
        f"{tmp_path}/b.yaml:1: a server with the name a is already declared in {tmp_path}/a.yaml:1, "
        "so this one is ignored: rename one of them"
    )


def test_an_invalid_server_of_another_file_does_not_blame_the_server_of_its_name(tmp_path: Path) -> None:
    good, bad = tmp_path / "e.json", tmp_path / "f.json"
    good.write_text(mcp_json('"e": {"command": "x"}'))
    bad.write_text(mcp_json('"e": {"url": "http://x/mcp", "type": "websocket"}'))
    scan = scan_sources(over([good, bad]))
    assert names(scan) == ["e"]
    assert scan.contents.refused_servers == {}
    (problem,) = scan.file_problems
    assert problem.file == str(bad)
    assert problem.message.endswith(f"(the server of this name in {good}:1 runs)")


def test_secrets_are_read_from_manifests_with_values_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        'apiVersion: v1\nkind: Secret\nmetadata: {name: s, labels: {"fairlead.dev/credential": "true"}}\n'
        "stringData: {token: '${TOKEN}'}\ndata: {other: eHl6}\n"
    )
    scan = scan_sources(over([tmp_path / "s.yaml"]))
    secret = scan.contents.secrets["default", "s"]
    assert secret.data == {"token": "abc", "other": "xyz"}
    assert "abc" not in repr(secret)


def test_a_secret_that_names_an_unset_variable_is_a_problem_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {t: '${NOPE}'}\n")
    scan = scan_sources(over([tmp_path / "s.yaml"]))
    assert "NOPE is not set" in str(scan.problems[0])


def test_a_file_that_is_not_utf8_is_a_problem_that_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(b"\xff\xfe fairlead.dev/")
    scan = scan_sources(over([file]))
    assert [str(problem) for problem in scan.problems] == [f"{file}: is not UTF-8 text: save it as UTF-8"]


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes(b'\xef\xbb\xbf{"mcpServers": {"a": {"command": "x"}}}')
    scan = scan_sources(over([file]))
    assert (names(scan), scan.problems) == (["a"], ())


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "the folder has no file with the ending .yaml, .yml, .json: put an mcp.json or manifests into it"),
        ({"README.md": "x", ".hidden.json": "{}"}, "the folder has no file with the ending .yaml, .yml, .json"),
        ({"package.json": '{"name": "x"}', "ci.yaml": "on: push"}, "no file in the folder declares a server"),
        ({"mcp.json": ""}, "no file in the folder declares a server"),
    ],
)
def test_a_folder_that_declares_nothing_says_so_and_what_to_do(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    sources = over([tmp_path])
    (problem,) = scan_sources(sources).problems
    assert str(problem).startswith(f"{tmp_path}: {message}")
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": {"command": "x"}}}')
    assert scan_sources(sources).problems == ()


def test_a_list_that_was_emptied_stops_its_servers_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"a": {"command": "x"}}}')
    sources = over([file])
    assert names(scan_sources(sources)) == ["a"]
    rewrite(file, '{"mcpServers": {}}')
    scan = scan_sources(sources)
    assert names(scan) == []
    assert "mcpServers: is empty: add a server" in str(scan.problems[0])


@pytest.mark.parametrize("named", ["mcp.json", "."])
def test_a_file_that_is_empty_for_a_moment_stops_no_server(tmp_path: Path, named: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"a": {"command": "x"}}}')
    sources = over([tmp_path / named])
    scan_sources(sources)
    rewrite(file, "\n")
    scan = scan_sources(sources)
    assert names(scan) == ["a"]
    (problem,) = scan.problems
    assert problem.message.startswith("is empty: write ")
    assert problem.message.endswith(" (a keeps running as declared before)")
    rewrite(file, "// none for now\n")
    assert names(scan_sources(sources)) == []


def test_a_file_that_goes_away_is_told_of_and_takes_its_servers_along(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"a": {"command": "x"}}}')
    sources = over([file])
    scan_sources(sources)
    file.unlink()
    scan = scan_sources(sources)
    assert names(scan) == []
    assert [str(problem) for problem in scan.problems] == [f"{file}: no longer exists, so its servers are removed"]


SERVERS = {
    "kube": {"command": "kube-server"},
    "told": {"command": "kube-server", "env": {"KUBECONFIG": "${KUBECONFIG}", "AWS_PROFILE": "other"}},
    "box": {"command": "docker", "args": ["run", "-i", "image"]},
    "far": {"url": "https://tools.example.com/mcp"},
}


def test_a_pointer_to_an_account_that_servers_do_not_get_is_remarked_on_without_its_value(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": SERVERS}))
    environ = {"KUBECONFIG": "/secret/staging", "AWS_PROFILE": "hush", "DOCKER_HOST": "ssh://x", "PGHOST": ""}
    sources = Sources([file], environ)
    scan = sources.scan()
    assert scan is not None
    (remark,) = map(str, scan.problems)
    assert remark == (
        f"{file}: AWS_PROFILE, DOCKER_HOST, KUBECONFIG of this environment are not passed to kube, told, box; if a "
        "server's tools need it, set AWS_PROFILE in the server's env to ${AWS_PROFILE}"
    )
    assert sources.scan() is None, "it is told once"


def test_a_pointer_that_every_server_gets_is_not_remarked_on(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"told": SERVERS["told"], "far": SERVERS["far"]}}))
    scan = Sources([file], {"KUBECONFIG": "/k"}).scan()
    assert scan is not None
    assert scan.problems == ()
