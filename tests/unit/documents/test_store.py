"""Documents in ConfigMaps: splitting, joining, and the parts that a killed writer leaves behind."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from fairlead_api.documents.store import (
    GZIPPED,
    INDEX,
    PART,
    PLAIN,
    VALUES_LIMIT,
    Blob,
    DocumentAssembler,
    pack,
    part_names,
)


def noise(seed: int, size: int = 3_000_000) -> bytes:
    """Text that hardly compresses, so that it fills several parts."""
    return random.Random(seed).randbytes(size // 2).hex().encode()


def assemble(blobs: list[Blob]) -> bytes | None:
    reader = DocumentAssembler()
    reader.replace(blobs)
    return reader.documents.get("doc")


def test_a_small_document_stands_in_its_head_as_text() -> None:
    (head,) = pack("doc", "catalog", b'{"a":1}', {"extra": "label"})
    assert head.data == {PLAIN: '{"a":1}'}
    assert head.labels["fairlead.dev/document"] == "catalog"
    assert head.labels["extra"] == "label"
    assert assemble([head]) == b'{"a":1}'


def test_a_large_document_that_compresses_is_gzipped_in_its_head() -> None:
    document = b'{"a":"' + b"x" * 2_000_000 + b'"}'
    (head,) = pack("doc", "catalog", document)
    assert set(head.binary) == {GZIPPED}
    assert assemble([head]) == document


def test_a_document_that_does_not_fit_is_cut_into_parts_that_each_fit() -> None:
    document = noise(1)
    *parts, head = pack("doc", "catalog", document)
    assert len(parts) > 1
    assert all(len(part.binary[PART]) <= VALUES_LIMIT for part in parts)
    assert part_names(head) == tuple(part.name for part in parts)
    assert assemble([head, *parts]) == document


@pytest.mark.parametrize("size", [10, 2_000_000, 6_000_000])
def test_packed_documents_are_deterministic(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = pack("doc", "catalog", noise(2, size))
    monkeypatch.setattr("time.time", lambda: 2e9)  # another second, because gzip's header may contain a time
    assert pack("doc", "catalog", noise(2, size)) == before


def test_parts_may_arrive_in_any_order() -> None:
    document = noise(3)
    blobs = pack("doc", "catalog", document)
    for order in itertools.permutations(blobs, len(blobs)):
        reader = DocumentAssembler()
        changes = [change for blob in order for change in reader.put(blob)]
        assert [change.document for change in changes] == [document]
        assert reader.incomplete == []


def test_a_writer_killed_at_any_point_leaves_every_reader_on_a_whole() -> None:
    old = noise(4)
    new = noise(5)
    old_blobs = pack("doc", "catalog", old)
    new_blobs = pack("doc", "catalog", new)
    stored = {blob.name: blob for blob in old_blobs}
    live = DocumentAssembler()
    live.replace(stored.values())
    steps = [("put", blob) for blob in new_blobs] + [("remove", blob) for blob in old_blobs if blob.is_part]
    for number, (action, blob) in enumerate(steps):
        if action == "put":
            stored[blob.name] = blob
            live.put(blob)
        else:
            del stored[blob.name]
            live.remove(blob.name)
        expected = old if number < len(new_blobs) - 1 else new
        assert live.documents["doc"] == expected
        assert assemble(list(stored.values())) == expected


def test_a_part_that_is_deleted_by_hand_changes_nothing_for_a_reader_that_has_the_whole() -> None:
    document = noise(6)
    *parts, head = pack("doc", "catalog", document)
    reader = DocumentAssembler()
    reader.replace([*parts, head])
    assert reader.remove(parts[0].name) == []
    assert reader.put(head) == []
    assert reader.incomplete == ["doc"]
    assert reader.documents["doc"] == document


def test_an_edited_head_is_reported_and_the_old_document_stays() -> None:
    (head,) = pack("doc", "catalog", b'{"a":1}')
    reader = DocumentAssembler()
    reader.put(head)
    for bad in (
        replace(head, data={PLAIN: '{"a":2}'}),
        replace(head, data={}),
        replace(head, data={}, binary={GZIPPED: b"no gzip"}),
        replace(head, data={INDEX: "no json"}),
    ):
        (change,) = reader.put(bad)
        assert change.problem is not None
        assert change.document == b'{"a":1}'
    assert reader.documents == {"doc": b'{"a":1}'}


def test_a_broken_head_is_told_of_when_it_is_mended_and_when_it_goes() -> None:
    (head,) = pack("doc", "catalog", b'{"a":1}')
    bad = replace(head, data={PLAIN: "{junk"})
    reader = DocumentAssembler()
    reader.put(bad)
    (gone,) = reader.remove("doc")
    assert (gone.document, gone.problem) == (None, None)
    for blob in (head, bad):
        reader.put(blob)
    (mended,) = reader.put(head)
    assert (mended.document, mended.problem) == (b'{"a":1}', None)
    assert reader.put(head) == []


def test_a_compressed_document_that_ends_early_is_reported() -> None:
    (head,) = pack("doc", "catalog", b"x" * 2_000_000)
    cut = replace(head, binary={GZIPPED: head.binary[GZIPPED][:-9]})
    (change,) = DocumentAssembler().put(cut)
    assert change.problem == "the compressed document is truncated"


def test_a_head_that_goes_takes_its_document_along_and_a_listing_shows_what_went_meanwhile() -> None:
    (first,) = pack("one", "catalog", b"1")
    (second,) = pack("two", "catalog", b"2")
    reader = DocumentAssembler()
    reader.replace([first, second])
    (change,) = reader.replace([second])
    assert (change.name, change.document) == ("one", None)
    assert reader.replace([second]) == []
    assert reader.documents == {"two": b"2"}
