"""Metrics of the engine's front, read as Prometheus reads them."""

from __future__ import annotations

from tests.serving.engine_parts import WordBackend, serve_front

P = "shortfirst_engine_"


def values(page: str) -> dict[str, float]:
    rows = (line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    return {name.removeprefix(P): float(value) for name, value in rows if name.startswith(P)}


async def test_one_request_is_counted_in_every_phase() -> None:
    async with serve_front() as front:
        body = {"prompt": "one two", "max_tokens": 9}
        await front.client.post("/v1/completions", json=body)
        found = values((await front.client.get("/metrics")).text)
    sums = {
        "request_queue_time_seconds": 0.25,
        "request_prefill_time_seconds": 0.5,
        "request_decode_time_seconds": 1.0,
        "request_inference_time_seconds": 1.5,
        "request_time_per_output_token_seconds": 0.5,
        "request_itl_p99_seconds": 0.75,
        "request_itl_max_seconds": 0.75,
        "request_itl_std_seconds": 0.25,
        "request_itl_variation": 0.5,
        "request_num_preemptions": 0.0,
        "request_prompt_tokens": 2.0,
        "request_output_tokens": 3.0,
        "request_params_max_tokens": 9.0,
        "request_params_n": 1.0,
    }
    assert {name: found[f"{name}_sum"] for name in sums} == sums
    assert {found[f"{name}_count"] for name in sums} == {1.0}
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds"):
        assert found[f"{name}_count"] == 1.0
    assert found["inter_token_latency_seconds_count"] == 2.0
    assert (found["prompt_tokens_total"], found["generation_tokens_total"]) == (2.0, 3.0)
    assert found["requests_in_flight"] == 0.0


async def test_several_answers_to_one_prompt_are_one_request_of_that_many() -> None:
    async with serve_front(WordBackend(context_length=64)) as front:
        body = {"prompt": "one two", "n": 3, "max_tokens": 4}
        answer = await front.client.post("/v1/completions", json=body)
        assert len(answer.json()["choices"]) == 3
        found = values((await front.client.get("/metrics")).text)
    assert (found["request_params_n_sum"], found["request_params_n_count"]) == (3.0, 1.0)
    assert found["request_params_max_tokens_count"] == 1.0
    assert found["generation_tokens_total"] == 9.0
    assert found['requests_total{finish_reason="stop",scored="false"}'] == 3.0


async def test_an_unset_limit_is_not_counted_as_one() -> None:
    async with serve_front() as front:
        messages = [{"role": "user", "content": "one"}]
        await front.client.post("/v1/chat/completions", json={"messages": messages})
        found = values((await front.client.get("/metrics")).text)
    assert found["request_params_max_tokens_count"] == 0.0
    assert found["request_params_n_count"] == 1.0
