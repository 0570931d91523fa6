"""Results that are hard to read."""

from __future__ import annotations

import json

import msgspec
import pytest

from fairlead_rest.kept_results import DEEPEST, KeptResult, Reading, read

encode = msgspec.msgpack.Encoder().encode


@pytest.mark.parametrize("depth", [DEEPEST - 3, DEEPEST, 990, 5000])
@pytest.mark.parametrize("as_text", [True, False])
def test_a_result_that_is_nested_however_deeply_hides_no_other_of_its_session(depth: int, as_text: bool) -> None:
    nested = "[" * depth + '"the keel"' + "]" * depth
    if as_text:
        deep = json.dumps({"content": [{"type": "text", "text": nested}]}).encode()
    else:
        deep = b'{"structuredContent":{"k":%b}}' % nested.encode()
    plain = KeptResult("s/2", b'{"content":[{"type":"text","text":"A keel of oak"}]}')
    found = read(encode(Reading([KeptResult("s/1", deep), plain], 2000, query="keel"))).passages
    assert {passage.source for passage in found} == {"s/1", "s/2"}
    (whole,) = read(encode(Reading([KeptResult("s/1", deep)], 9000, grep="keel"))).passages
    assert "the keel" in whole.text
