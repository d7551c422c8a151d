"""An engine tells the rank service of what is under way, over real sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path

from serving.rank_client import RankClientConfig
from serving.reporter import ReporterConfig
from tests.serving.loop_parts import serve_loop
from tests.serving.parts import WordRanker, serve_rank


async def test_open_requests_grow_until_their_outcome_comes(tmp_path: Path) -> None:
    async with serve_rank(WordRanker(sketch=(0.5, -1.25))) as rank:
        reporter = ReporterConfig(
            first_wait_s=0.01, max_wait_s=0.05, name="engine-1", open_every_s=0.02
        )
        ranks = RankClientConfig(rank.address, 10.0, reporter=reporter)
        async with serve_loop(tmp_path, rank=ranks) as running:
            call = running.generate("one two three", request_id="long", tenant="acme")
            await running.until(lambda: running.script.steps > 0)

            async def told(tokens: int) -> None:
                """The last report has so many."""
                async with asyncio.timeout(20):
                    while not (
                        rank.sink.deliveries
                        and (last := rank.sink.deliveries[-1]).open
                        and last.open[0].output_tokens == tokens
                    ):
                        await asyncio.sleep(0.005)

            await told(0)
            running.script.permit.release(2)
            await told(2)
            request = rank.sink.deliveries[-1].open[0]
            assert (request.request_id, request.tenant) == ("long", "acme")
            assert request.forecast is not None
            assert request.forecast.sketch == (0.5, -1.25)
            assert request.arrival < request.seen
            running.script.open()
            async for _ in call:
                pass
            await running.until(lambda: "long" in rank.sink.outcomes)
            outcome = rank.sink.outcomes["long"]
            assert outcome.arrival == request.arrival
            assert outcome.forecast == request.forecast
            assert {d.reporter for d in rank.sink.deliveries} == {"engine-1"}
            metrics = (await running.http.get("/metrics")).text
            assert "shortfirst_report_outcomes_delivered_total" in metrics
