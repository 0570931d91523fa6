"""Archive of sessions: what is stored, what is found, and what survives a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead_servers.archive.opening import EXAMPLE, ArchiveSettings, archive_errors, open_archive
from fairlead_servers.archive.records import BadRecord
from fairlead_servers.archive.searching import find_entities, find_facts, find_sessions, find_turns, summary_of
from fairlead_servers.archive.store import FILE, Archive
from fairlead_servers.definition import SettingError
from fairlead_servers.tool import ToolError

KILLED = """
import os, signal, sys
from pathlib import Path
from fairlead_servers.archive.records import FactRecord
from fairlead_servers.archive.store import Archive

archive = Archive(Path(sys.argv[1]))
archive.ingest_records([FactRecord(type="fact", id="whole", text="taken in as a whole")])

def records():
    for number in range(10_000):
        yield FactRecord(type="fact", id=f"half-{number}", text="taken in by half")
    os.kill(os.getpid(), signal.SIGKILL)

archive.ingest_records(records())
"""


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(tmp_path, ArchiveSettings(example=True))


def test_sessions_are_found_by_their_summaries_and_by_what_was_said(archive: Archive) -> None:
    sessions = find_sessions(archive, "wet footprints", 5).sessions
    assert [(each.session_id, "footprints" in each.excerpt) for each in sessions] == [("harbor-1", True)]
    assert [each.session_id for each in find_sessions(archive, "mother quay", 5).sessions] == ["harbor-3"]
    assert len(find_sessions(archive, "bell", 1).sessions) == 1


def test_entities_are_found_by_name_alias_and_kind(archive: Archive) -> None:
    assert [each.name for each in find_entities(archive, "ysolde", "", 5).entities] == ["Ysolde"]
    assert find_entities(archive, "the warden", "", 5).entities[0].name == "Corvin"
    assert [each.name for each in find_entities(archive, "harbor", "PLACE", 5).entities] == ["Saltmere"]
    assert find_entities(archive, "Corvin", "place", 5).entities == []


def test_facts_and_turns_are_found_with_where_they_are_from(archive: Archive) -> None:
    assert [(each.id, each.session_id) for each in find_facts(archive, "oath lantern", 5).facts] == [
        ("oath", "harbor-2")
    ]
    (hit,) = find_turns(archive, "fifty feet", 5, 2).turns
    assert (hit.session_id, hit.number) == ("harbor-1", 4)
    assert [turn.number for turn in (*hit.before, *hit.after)] == [2, 3, 5]


def test_a_summary_is_there_or_a_sentence_says_what_is(archive: Archive) -> None:
    assert summary_of(archive, "harbor-2").turns == 3
    with pytest.raises(ToolError, match="session 'x' does not exist; the latest are: harbor-3, harbor-2, harbor-1"):
        summary_of(archive, "x")
    with pytest.raises(ToolError, match="'harbor-3' has no summary yet; its 1 turns"):
        summary_of(archive, "harbor-3")


@pytest.mark.parametrize("query", ['bell" OR "x', "NEAR(bell)", "bell AND", "bell*", "(bell", "title:bell", "bell --"])
def test_operators_of_the_index_are_words_like_others(archive: Archive, query: str) -> None:
    assert find_facts(archive, query, 5).facts


def test_a_query_without_words_is_refused(archive: Archive) -> None:
    with pytest.raises(ToolError, match="no words"):
        find_facts(archive, "?!", 5)


def test_a_record_taken_in_again_replaces_the_one_before(archive: Archive, tmp_path: Path) -> None:
    archive.ingest(EXAMPLE)
    assert len(find_facts(archive, "fishers", 20).facts) == 1
    changed = tmp_path / "changed.jsonl"
    changed.write_text('{"type": "fact", "id": "fishers", "text": "All came home."}\n\n')
    assert archive.ingest(changed) == {"fact": 1}
    assert find_facts(archive, "Tam", 5).facts == []
    assert find_facts(archive, "all came home", 5).facts[0].id == "fishers"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nonsense", "line 2 of a.jsonl"),
        ('{"type": "rumor"}', "line 2 of a.jsonl"),
        ('{"type": "fact", "id": "a"}', "text is missing"),
        ('{"type": "turn", "session": "s", "number": -1, "text": "x"}', "greater than or equal to 0"),
        ('{"type": "turn", "session": "s", "number": 9223372036854775808, "text": "x"}', "less than or equal to"),
        ('{"type": "fact", "id": "a", "text": "b", "color": 1}', "color"),
        ("x" * 1_000_001, "more than 1,000,000 bytes"),
    ],
)
def test_a_file_with_a_bad_line_is_refused_as_a_whole(tmp_path: Path, line: str, why: str) -> None:
    archive = Archive(tmp_path)
    file = tmp_path / "a.jsonl"
    file.write_text('{"type": "fact", "id": "good", "text": "good"}\n' + line)
    with pytest.raises(BadRecord, match=why):
        archive.ingest(file)
    assert find_facts(archive, "good", 5).facts == []


def test_a_killed_process_leaves_what_was_taken_in_before_and_nothing_by_half(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    archive = Archive(tmp_path)
    assert [each.id for each in find_facts(archive, "taken in", 20).facts] == ["whole"]
    assert archive.ingest(EXAMPLE).total() > 10


def test_a_file_that_is_not_an_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"this is not a database, and longer than a header of one" * 100)
    with pytest.raises(SettingError, match="cannot be used: file is not a database"):
        Archive(tmp_path)


def test_an_archive_that_breaks_later_is_an_error_of_the_tool(archive: Archive) -> None:
    for file in archive.path.parent.glob(f"{FILE}*"):
        file.unlink()
    archive.path.write_bytes(b"broken" * 1000)
    with pytest.raises(ToolError, match="ingest again"), archive_errors():
        find_facts(archive, "x", 5)


def test_an_archive_of_a_newer_version_is_left_alone(archive: Archive) -> None:
    with archive.connect() as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(SettingError, match="has the newer version"):
        Archive(archive.path.parent)
