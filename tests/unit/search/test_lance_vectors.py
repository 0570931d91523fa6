"""Vectors in a LanceDB: effects of a restart, another process, another model and a damaged disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairlead_search.backends import RETRY_SECONDS
from fairlead_search.index_cache import HYBRID, IndexedCatalogs, StoredRequest
from fairlead_search.index_interfaces import BackendFault
from fairlead_search.indexed_tool import IndexedTool
from fairlead_search.row_filter import MAX_PARTS
from fairlead_search.vectors import decode, encode
from vectorplaces import LANCEDB, WHY, VectorPlace, tool, tool_vector

if TYPE_CHECKING:
    from fairlead_search.lance_vectors import LanceVectors

pytestmark = pytest.mark.skipif(find_spec("lancedb") is None, reason=WHY)

EAST = encode([1, 0])
NORTH = encode([0, 1])
TOOLS = [tool("a", "send_mail", EAST), tool("b", "list_files", NORTH)]

WITH_SUPPORT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
FULL_DISK = """
import logging, resource, sys
from fairlead_search.vectors import encode
from vectorplaces import LANCEDB, VectorPlace, tool
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
logging.basicConfig()
place = VectorPlace(LANCEDB, sys.argv[1])
tools = [tool(str(n), f"mail_{n}", encode([n == each for each in range(300)])) for n in range(300)]
found = place.search("one", "zebra", tools[7].vector.vector, base="", added=tools)
print(found.hits[0][0].key, found.ranking)
print(found.note)
"""
"""Program that searches while no file can grow beyond 100 kB."""


def open_vectors(folder: Path) -> LanceVectors:
    from fairlead_search.lance_vectors import LanceVectors  # takes a second, also where tests are only collected

    return LanceVectors(str(folder))


@pytest.fixture
def vectors(tmp_path: Path) -> Iterator[LanceVectors]:
    opened = open_vectors(tmp_path)
    yield opened
    opened.close()


def of_circle(count: int, first: int = 0) -> dict[str, bytes]:
    return {str(n): encode([1, n]) for n in range(first, first + count)}


def test_vectors_are_there_after_a_restart_and_are_found_by_their_texts(tmp_path: Path) -> None:
    first = VectorPlace(LANCEDB, tmp_path)
    first.keys("zebra", EAST, TOOLS)
    first.close()
    again = VectorPlace(LANCEDB, tmp_path)
    request = StoredRequest(["text of b", "text of nothing"], again.folder)
    assert again.catalogs.read_stored(request).vectors == {"text of b": NORTH}
    assert again.keys("zebra", NORTH, TOOLS)[0] == "b"
    again.close()


def test_a_vector_that_is_there_is_not_written_again(vectors: LanceVectors) -> None:
    vectors.add(of_circle(3))
    before = dict(vectors.numbers)
    vectors.add(of_circle(5))
    assert before.items() <= vectors.numbers.items()
    assert sorted(vectors.numbers.values()) == [0, 1, 2, 3, 4]


def test_another_process_is_refused_and_told_which_one_has_the_folder(vectors: LanceVectors) -> None:
    program = (
        f"from fairlead_search.lance_vectors import LanceVectors; LanceVectors({vectors.folder!r}, lock_timeout_s=0.0)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "is in use by another process" in ended.stderr
    assert "configure a different folder for each gateway" in ended.stderr


def test_a_search_goes_on_in_memory_while_another_has_the_folder_and_takes_it_later(tmp_path: Path) -> None:
    now = 0.0
    holder = open_vectors(tmp_path)
    store = VectorPlace(LANCEDB, tmp_path)
    store.catalogs = IndexedCatalogs(clock=lambda: now)
    answer = store.search("one", "zebra", NORTH, base="", added=TOOLS)
    assert answer.hits[0][0].key == "b"
    assert answer.note.startswith("vectors of tools are stored in memory only: the folder ")
    assert "in use by another process" in answer.note
    holder.close()
    assert store.search("one", "zebra", NORTH).note
    now = RETRY_SECONDS
    assert store.search("one", "zebra", NORTH).cached_catalogs == []
    answer = store.search("one", "zebra", NORTH, base="", added=TOOLS)
    assert (answer.note, answer.ranking, answer.hits[0][0].key) == ("", HYBRID, "b")
    store.close()


def test_a_search_goes_on_in_memory_when_the_files_are_damaged(tmp_path: Path) -> None:
    store = VectorPlace(LANCEDB, tmp_path)
    store.keys("zebra", EAST, TOOLS)
    for file in tmp_path.rglob("*.lance"):
        if file.is_file():
            file.write_bytes(b"nothing")
    store.close()
    again = VectorPlace(LANCEDB, tmp_path)
    answer = again.search("one", "zebra", NORTH, base="", added=TOOLS)
    assert answer.hits[0][0].key == "b"
    assert f"the folder {tmp_path} cannot be" in answer.note
    again.close()


def test_a_search_goes_on_in_memory_when_the_disk_is_full(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=True, env=WITH_SUPPORT
    )
    answer, note = ended.stdout.splitlines()
    assert answer == "7 hybrid"
    assert f"the folder {tmp_path} cannot be written" in note
    assert note in ended.stderr


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    file = tmp_path / "taken"
    file.write_text("")
    with pytest.raises(BackendFault, match=r"taken cannot be used: .*exists"):
        open_vectors(file)
    store = VectorPlace(LANCEDB, file)
    assert store.put({"a": EAST}) == 1


def test_vectors_of_another_number_of_dimensions_replace_those_on_disk(tmp_path: Path, vectors: LanceVectors) -> None:
    vectors.add(of_circle(3))
    vectors.add({"new": encode([1, 2, 3])})
    assert list(vectors.numbers) == ["new"]
    assert vectors.nearest(decode(EAST), [0, 1, 2, 3], 5) == {}
    assert vectors.cosines(decode(EAST), [0]) == {}
    with pytest.raises(BackendFault, match="dimensions cannot be mixed"):
        vectors.add({"a": EAST, "b": encode([1, 2, 3])})
    vectors.close()
    again = open_vectors(tmp_path)
    assert list(again.numbers) == ["new"]
    again.close()


def test_many_writes_leave_few_files(tmp_path: Path, vectors: LanceVectors) -> None:
    from fairlead_search.lance_vectors import WRITES

    for n in range(3 * WRITES):
        vectors.add(of_circle(1, n))
    assert len(vectors) == 3 * WRITES
    assert len([*tmp_path.rglob("data/*.lance")]) < WRITES
    assert vectors.get(["7", "8", "odd"]).keys() == {"7", "8"}


def test_numbers_far_apart_are_searched_exactly(vectors: LanceVectors) -> None:
    vectors.add(of_circle(3 * MAX_PARTS))
    even = [number for number in vectors.numbers.values() if number % 2 == 0]
    nearest = vectors.nearest(decode(EAST), even, 3)
    assert list(nearest) == [0, 2, 4]
    assert nearest[2] == pytest.approx(5**-0.5, abs=1e-3)
    assert list(vectors.nearest(decode(EAST), [1, 3], 3)) == [1, 3]
    assert vectors.cosines(decode(EAST), [2, 4]) == pytest.approx({2: 5**-0.5, 4: 17**-0.5}, abs=1e-3)


def test_vectors_that_no_catalog_uses_go_when_there_are_too_many(tmp_path: Path) -> None:
    from fairlead_search.lance_index import LanceBackend

    backend = LanceBackend(str(tmp_path), max_rows=4)
    index = backend.index([IndexedTool("a", "send_mail", "s"), IndexedTool("b", "list_files", "s")])

    def count_after(**vectors: bytes) -> int:
        backend.put({key: tool_vector(key, vector) for key, vector in vectors.items()})
        backend.sweep(lambda: index.keys())
        return len(backend)

    assert count_after(a=EAST, b=NORTH, c=EAST, d=EAST) == 4
    assert count_after(e=EAST) == 2
    assert index.search("zebra", decode(NORTH), 5)[0].key == "b"
    assert count_after(c=EAST) == 3
    backend.close()
