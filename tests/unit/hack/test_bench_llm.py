"""The benchmark of model endpoints: its clients check responses, and its goals are ratios within a round."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llm.bench_llm import BARE, LITELLM, OURS, Found, Load, _model, goals, loaded
from rig.harness import Unmeasurable
from rig.processes import Stage


def test_the_clients_time_each_chunk_of_a_model_that_answers() -> None:
    with Stage() as stage:
        model = _model(stage, 0)
        streams = loaded(stage, model, Load(5, 0, 20, connections=2, warmup=4), 0)
        whole = loaded(stage, model, Load(5, 0, 20, stream=False), 0)
        with pytest.raises(Unmeasurable, match="model alone"):
            loaded(stage, replace(model, port=9), Load(5, 0, 1), 0)
    # at the end of the warm-up, the other connection is inside a stream, whose remaining events count
    assert 4 * 20 <= len(streams.delays) <= 5 * 20
    assert all(delay >= 0 for delay in streams.delays)
    assert streams.first > 0
    assert not whole.delays


def test_goals_compare_within_a_round() -> None:
    measured = Found(
        request={OURS: [1, 30], LITELLM: [20, 300]},
        first={OURS: [1.5, 9], BARE: [0.5, 8]},
        late={OURS: [60]},
    )
    by_name = {goal.name: goal for goal in goals(measured)}
    assert by_name["added to the first text, p50"].value == 1
    assert by_name["CPU of a request, of LiteLLM's"].met
    assert by_name["p99 delay of a chunk among 1000 streams"].met is False
    assert by_name["added to each chunk, p50"].met is None
