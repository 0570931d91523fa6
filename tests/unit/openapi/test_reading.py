"""Reading of documents: versions, JSON and YAML, limits."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_openapi.compiling.reading import MAX_DEPTH, MAX_DOCUMENT_BYTES, DocumentRefused, read_document


def read_yaml(text: str) -> dict[str, Any]:
    return read_document(f"openapi: 3.1.0\n{text}".encode())


def refusal(data: bytes) -> str:
    with pytest.raises(DocumentRefused) as raised:
        read_document(data)
    return str(raised.value)


def test_dates_times_and_words_of_a_yaml_document_stay_text() -> None:
    document = read_yaml("x: [2026-11-29, 2026-11-29T10:00:00Z, 12:30:45, no, on, y, 1_000, 0x1F, .inf, NaN]")
    assert document["x"] == [
        "2026-11-29",
        "2026-11-29T10:00:00Z",
        "12:30:45",
        "no",
        "on",
        "y",
        "1_000",
        "0x1F",
        ".inf",
        "NaN",
    ]


def test_numbers_booleans_and_null_of_a_yaml_document_have_their_types() -> None:
    document = read_yaml("x: [1, -2, +3, 1.5, 1e3, true, FALSE, null, ~, , 18446744073709551616]".replace("~, ,", "~,"))
    assert document["x"] == [1, -2, 3, 1.5, 1000.0, True, False, None, None, 18446744073709551616]
    assert type(document["x"][-1]) is int


def test_keys_of_a_yaml_document_are_text_as_they_are_written() -> None:
    document = read_yaml("responses: {200: a, 404: b, true: c, 1.10: d, null: e, 2026-01-01: f}")
    assert document["responses"] == {"200": "a", "404": "b", "true": "c", "1.10": "d", "null": "e", "2026-01-01": "f"}


def test_anchors_and_merge_keys_of_a_yaml_document_are_followed() -> None:
    document = read_yaml("base: &base {a: 1, b: 2}\nother: {<<: *base, b: 3}\nsame: *base")
    assert document["other"] == {"a": 1, "b": 3}
    assert document["same"] == {"a": 1, "b": 2}


def test_tagged_dates_and_bytes_of_a_yaml_document_are_text() -> None:
    assert read_yaml("x: [!!timestamp 2026-11-29, !!binary aGk=]")["x"] == ["2026-11-29", "aGk="]


def test_a_tag_that_would_make_an_object_of_python_is_refused() -> None:
    assert "not valid YAML" in refusal(b"openapi: 3.1.0\nx: !!python/object/apply:os.getcwd []")


def test_aliases_that_grow_exponentially_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "with its YAML aliases written out" in refusal("\n".join(["openapi: 3.1.0", *lines]).encode())


def test_an_alias_within_its_own_anchor_is_refused() -> None:
    assert "levels deep" in refusal(b"openapi: 3.1.0\nx: &x {y: *x}")


@pytest.mark.parametrize("data", [b'{"openapi":"3.1.0","x":%s%s}', b"openapi: 3.1.0\nx: %s%s"])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 5_000, 200_000])
def test_a_document_that_is_nested_deeply_is_refused(data: bytes, depth: int) -> None:
    message = refusal(data % (b"[" * depth, b"]" * depth))
    assert "levels deep" in message or "not valid" in message


def test_a_document_of_more_than_32_mib_is_refused() -> None:
    assert refusal(b" " * (MAX_DOCUMENT_BYTES + 1)) == "the document has more than 32 MiB"


def test_swagger_2_is_refused_with_what_to_do() -> None:
    message = refusal(b'{"swagger": "2.0", "paths": {}}')
    assert message.startswith("the document is Swagger 2.0, and only OpenAPI 3.0 and 3.1 are read; convert it")


def test_the_list_of_documents_of_an_api_server_is_refused_with_what_to_take() -> None:
    message = refusal(b'{"paths": {"apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1?hash=A"}}}')
    assert message.startswith(
        "it is the list of an API server's documents, not a document: use the document of one group"
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the document is not an object with `openapi`, `info` and `paths`"),
        (b"[]", "the document is not an object with `openapi`, `info` and `paths`"),
        (b"{}", "the document has no member `openapi`, so it is not an OpenAPI document"),
        (b'{"openapi": "3.2.0"}', "the document is OpenAPI 3.2.0, and only 3.0 and 3.1 are read"),
        (b'{"openapi": "4"}', "the document is OpenAPI 4, and only 3.0 and 3.1 are read"),
        (b"\xff\xfe", "the document is neither JSON nor YAML in UTF-8"),
        (
            b"a: b: c",
            "the document is not valid YAML: mapping values are not allowed in this context, line 1, column 5",
        ),
        *(
            (
                page,
                (
                    "the document is a web page: name the document itself, which such a page links to, "
                    "often as /openapi.json"
                ),
            )
            for page in (b"<html></html>", b"\n<!DOCTYPE html>\n<html><head><title>Swagger UI: x</title></head></html>")
        ),
    ],
)
def test_bytes_that_are_not_a_document_are_refused_with_a_sentence(data: bytes, message: str) -> None:
    assert refusal(data) == message


def test_broken_json_is_named_as_json() -> None:
    assert refusal(b'{"openapi": "3.1.0", "x": [1, 2}').startswith("the document is not valid JSON: ")


def test_a_byte_order_mark_and_an_unquoted_version_are_accepted() -> None:
    assert read_document(b"\xef\xbb\xbf" + b'{"openapi": "3.0.3"}')["openapi"] == "3.0.3"
    assert read_document(b"openapi: 3.1\npaths: {}")["openapi"] == "3.1"


def test_a_mapping_of_yaml_may_begin_with_a_brace() -> None:
    assert read_document(b"{openapi: 3.1.0, paths: {}}")["openapi"] == "3.1.0"
