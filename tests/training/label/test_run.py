"""The client and the run against an endpoint on a socket."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ranker.types import FinishReason
from tests.training.label.endpoint import answer, error, prompt_of, usual
from training.label.answer import Answer, Label
from training.label.backoff import Backoff
from training.label.client import Client, EndpointFailed, PromptRefused
from training.label.journal import Journal
from training.label.prompts import Prompt
from training.label.run import missing, run
from training.label.sampling import Sampling
from training.label.tally import Tally

SAMPLING = Sampling("toy", temperature=0.2, repetition_penalty=1.1, max_tokens=50)
PROMPTS = [Prompt("secret word " * n, f"p{n}", f"c{n}", "test") for n in range(1, 7)]


class Waits:
    """Records how long it was to sleep, and does not."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def client(endpoint, waits=None, **backoff):
    return Client(
        endpoint.url,
        "key",
        rng=random.Random(0),
        sleep=waits or Waits(),
        backoff=Backoff(**backoff),
    )


async def test_what_is_asked_and_what_is_kept(endpoint):
    async with client(endpoint) as made:
        assert await made.models() == ["toy"]
        assert await made.ask("secret a", SAMPLING, 7) == Answer(3, 22, FinishReason.STOP)
        long = Sampling("toy", chat=False, max_tokens=20)
        assert await made.ask("secret a", long, 7) == Answer(3, 20, FinishReason.LENGTH)
    chat, text = endpoint.bodies
    assert chat == {
        "path": "/v1/chat/completions", "model": "toy", "temperature": 0.2, "top_p": 1.0,
        "max_tokens": 50, "seed": 7, "repetition_penalty": 1.1,
        "messages": [{"role": "user", "content": "secret a"}],
    }  # fmt: skip
    assert (text["path"], text["prompt"]) == ("/v1/completions", "secret a")
    assert "repetition_penalty" not in text  # OpenAI's own server refuses what it does not know
    assert endpoint.headers[0]["authorization"] == "Bearer key"


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("stop", "stop"), ("tool_calls", "stop"), ("length", "length"), ("abort", "abort"),
        ("content_filter", "abort"), (None, "abort"),
    ],
)  # fmt: skip
async def test_an_answer_that_did_not_end_by_itself_is_a_bound(endpoint, reason, kept):
    endpoint.reply = lambda body: answer(9, reason)
    async with client(endpoint) as made:
        assert (await made.ask("x", SAMPLING, 0)).finish_reason == kept


async def test_busy_and_broken_endpoints_are_tried_again(endpoint):
    replies = iter([error(429, "busy", retry_after="7"), error(503, "down"), answer(9)])
    endpoint.reply = lambda body: next(replies)
    waits = Waits()
    async with client(endpoint, waits, first_s=0.5) as made:
        assert (await made.ask("x", SAMPLING, 0)).output_tokens == 9
    asked, own = waits.seconds
    assert 7.0 <= asked <= 7.7
    assert own <= 1.0
    assert len(endpoint.bodies) == 3


async def test_an_endpoint_that_stays_away_ends_in_an_error_that_names_it(endpoint):
    endpoint.reply = lambda body: error(503, "down")
    waits = Waits()
    async with client(endpoint, waits, tries=4) as made:
        with pytest.raises(EndpointFailed, match=r"completions: 503 \(down\)"):
            await made.ask("x", SAMPLING, 0)
    assert len(waits.seconds) == 3
    endpoint.url = "http://127.0.0.1:9/v1"
    async with client(endpoint, tries=2) as made:
        with pytest.raises(EndpointFailed, match=r"127\.0\.0\.1:9.*ConnectError"):
            await made.ask("x", SAMPLING, 0)


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (error(401, "invalid_api_key"), EndpointFailed, r"401 \(invalid_api_key\)"),
        (error(404, "model_not_found"), EndpointFailed, r"404 \(model_not_found\)"),
        (error(400, "context_length_exceeded"), PromptRefused, r"400 \(context_length"),
        ((400, {}, {"detail": "secret"}), PromptRefused, r"400 \(no error code\)"),
        ((200, {}, {"choices": []}), EndpointFailed, "lacks"),
        ((200, {}, {"choices": [{"finish_reason": "stop"}]}), EndpointFailed, "lacks"),
    ],
)
async def test_what_will_not_get_better_is_not_tried_again(endpoint, reply, kind, message):
    endpoint.reply = lambda body: reply
    async with client(endpoint) as made:
        with pytest.raises(kind, match=message) as caught:
            await made.ask("secret", SAMPLING, 0)
    assert len(endpoint.bodies) == 1
    assert "secret" not in str(caught.value)


async def test_an_endpoint_that_takes_no_seeds_is_sent_none(endpoint, tmp_path):
    endpoint.reply = lambda body: answer(9)
    unseeded = Sampling("toy", seed=None)
    with Journal(tmp_path / "j", unseeded) as journal:
        async with client(endpoint) as made:
            await run(missing(PROMPTS, 2, []), unseeded, made, journal)
    with Journal(tmp_path / "j", unseeded) as journal:
        assert len(journal.labels) == 12
        assert {label.seed for label in journal.labels} == {None}
    assert all("seed" not in body for body in endpoint.bodies)


@pytest.mark.parametrize("text", ["", "a\0b", "\ud83d", "🙂 שלום", "x" * 1_000_000])
async def test_any_text_reaches_the_endpoint_as_it_is(endpoint, text):
    async with client(endpoint) as made:
        await made.ask(text, SAMPLING, 0)
    assert prompt_of(endpoint.bodies[0]) == text


async def test_an_address_may_leave_v1_out_but_not_the_scheme(endpoint):
    endpoint.url = endpoint.url.removesuffix("/v1") + "/"
    async with client(endpoint) as made:
        await made.ask("x", SAMPLING, 0)
    assert endpoint.bodies[0]["path"] == "/v1/chat/completions"
    for wrong in ("localhost:8000", "", "https://"):
        with pytest.raises(ValueError, match="endpoint must be"):
            Client(wrong)


def test_first_draws_come_first_and_nothing_twice():
    labels = [
        Label(PROMPTS[0].key, "p1", "c1", "test", 0, 0, 1, 1, FinishReason.STOP),
        Label(PROMPTS[1].key, "p2", "c2", "test", 1, 0, 1, 1, FinishReason.LENGTH),
        Label(PROMPTS[2].key, "p3", "c3", "test", 0, 0, 0, 0, FinishReason.ERROR),
    ]
    wanted = [(prompt.id, draw) for prompt, draw in missing(PROMPTS[:4], 2, labels)]
    assert wanted == [("p2", 0), ("p4", 0), ("p1", 1), ("p4", 1)]
    with pytest.raises(ValueError, match="draws"):
        missing(PROMPTS, 0, [])


async def test_a_run_that_breaks_off_goes_on_and_ends_as_one_that_did_not(endpoint, tmp_path):
    async def go(path, draws, concurrency=3):
        with Journal(path, SAMPLING) as journal:
            wanted = missing(PROMPTS, draws, journal.labels)
            async with client(endpoint, tries=1) as made:
                await run(wanted, SAMPLING, made, journal, concurrency=concurrency)
            return {(x.key, x.draw): x for x in journal.labels}

    whole = await go(tmp_path / "whole", 2)
    assert len(whole) == 12
    endpoint.answered.clear()
    left = iter(range(5))
    endpoint.reply = lambda body: usual(body) if next(left, None) is not None else error(500, "x")
    with pytest.raises(EndpointFailed, match="500"):
        await go(tmp_path / "broken", 1, concurrency=1)
    assert sum(endpoint.answered.values()) == 5
    endpoint.reply = usual
    assert len(await go(tmp_path / "broken", 1)) == 6
    assert await go(tmp_path / "broken", 2) == whole
    assert max(endpoint.answered.values()) == 1  # nothing was asked for twice
    assert {x.finish_reason for x in whole.values()} == {FinishReason.STOP, FinishReason.LENGTH}
    assert b"secret" not in (tmp_path / "broken").read_bytes()


async def test_a_run_that_is_over_waits_for_what_is_in_flight(endpoint, tmp_path):
    asked = iter(range(4))
    with Journal(tmp_path / "j", SAMPLING) as journal:
        async with client(endpoint) as made:
            await run(
                missing(PROMPTS, 1, []), SAMPLING, made, journal,
                concurrency=2, over=lambda: next(asked, None) is None,
            )  # fmt: skip
        assert [x.key for x in sorted(journal.labels, key=lambda x: x.id)] == [
            p.key for p in PROMPTS[:4]
        ]
    assert sum(endpoint.answered.values()) == 4


async def test_a_refused_prompt_is_passed_over_but_not_one_after_the_other(endpoint, tmp_path):
    long = PROMPTS[2].text
    endpoint.reply = lambda body: error(400, "long") if prompt_of(body) == long else usual(body)
    with Journal(tmp_path / "j", SAMPLING) as journal:
        async with client(endpoint) as made:
            await run(missing(PROMPTS, 1, []), SAMPLING, made, journal, concurrency=1)
            reasons = [x.finish_reason for x in journal.labels]
            assert reasons.count(FinishReason.ERROR) == 1
            assert len(missing(PROMPTS, 1, journal.labels)) == 0
    with pytest.raises(ValueError, match="concurrency"):
        await run([], SAMPLING, made, journal, concurrency=0)


MANY = [Prompt("secret word " * n, f"p{n}", f"c{n}", "test") for n in range(1, 21)]


def refusing(*refused: Prompt):
    texts = {prompt.text for prompt in refused}
    return lambda body: error(400, "long") if prompt_of(body) in texts else usual(body)


@pytest.mark.parametrize("concurrency", [1, 3, 40])
async def test_a_refused_prompt_is_not_asked_for_its_other_draws(endpoint, tmp_path, concurrency):
    bad = MANY[4], MANY[11]
    endpoint.reply = refusing(*bad)
    told = []
    wanted = missing(MANY, 4, [])
    with Journal(tmp_path / "j", SAMPLING) as journal:
        async with client(endpoint) as made:
            left = await run(
                wanted, SAMPLING, made, journal, concurrency=concurrency, told=told.append
            )  # fmt: skip
        labels = journal.labels
    asked = Counter(prompt_of(body) for body in endpoint.bodies)
    assert all(asked[p.text] == (1 if p in bad else 4) for p in MANY if concurrency == 1)
    assert sum(not label.refused for label in labels) == 4 * 18
    refused = [label.key for label in labels if label.refused]
    assert sorted([*refused, *left]) == sorted(p.key for p in bad)
    # Progress hears of each draw, and ends at the end.
    assert sorted((x.id, x.draw) for x in told) == sorted((p.id, draw) for p, draw in wanted)
    tally = Tally(len(wanted), began=0.0)
    for label in told:
        tally.add(label)
    assert tally.line(1.0).startswith("80 of 80 answers")
    assert "2 prompts refused" in tally.line(1.0)


@pytest.mark.parametrize("draws", [1, 4])
@pytest.mark.parametrize("concurrency", [1, 5])
async def test_a_run_that_is_refused_altogether_marks_no_prompt(
    endpoint, tmp_path, draws, concurrency
):
    endpoint.reply = lambda body: error(400, "unknown_field")
    for _ in range(2):  # the second try does not get further down the list
        endpoint.bodies.clear()
        with Journal(tmp_path / "j", SAMPLING) as journal:
            wanted = missing(MANY, draws, journal.labels)
            assert len(wanted) == draws * len(MANY)
            async with client(endpoint) as made:
                with pytest.raises(EndpointFailed, match=r"8 prompts in a row.*unknown_field"):
                    await run(wanted, SAMPLING, made, journal, concurrency=concurrency)
        asked = {prompt_of(body) for body in endpoint.bodies}
        assert len(asked) >= 8
        assert asked <= {prompt.text for prompt in MANY[: 8 + concurrency]}
    endpoint.reply = usual
    with Journal(tmp_path / "j", SAMPLING) as journal:
        async with client(endpoint) as made:
            await run(missing(MANY, draws, journal.labels), SAMPLING, made, journal)
        assert len({(x.key, x.draw) for x in journal.labels}) == draws * len(MANY)


async def test_an_answer_settles_the_refusals_before_it_and_none_after(endpoint, tmp_path):
    first, last = MANY[2:9], MANY[17:]  # seven in a row are their own fault
    endpoint.reply = refusing(*first, *last)
    with Journal(tmp_path / "j", SAMPLING) as journal:
        async with client(endpoint) as made:
            wanted = missing(MANY, 1, [])
            left = await run(wanted, SAMPLING, made, journal, concurrency=1)
        assert left == {prompt.key for prompt in last}
        refused = [x.key for x in journal.labels if x.refused]
        assert refused == [prompt.key for prompt in first]
        assert [p for p, _ in missing(MANY, 1, journal.labels)] == last
    endpoint.reply = refusing(*first)  # the endpoint was mended
    with Journal(tmp_path / "j", SAMPLING) as journal:
        async with client(endpoint) as made:
            again = missing(MANY, 4, journal.labels)
            assert not await run(again, SAMPLING, made, journal, concurrency=1)
        assert sum(not x.refused for x in journal.labels) == 4 * 13
        assert missing(MANY, 4, journal.labels) == []


async def test_whenever_it_is_killed_no_answer_is_lost_to_a_refusal(endpoint, tmp_path):
    bad = MANY[1:4]
    endpoint.reply = refusing(*bad)
    with Journal(tmp_path / "j", SAMPLING) as journal:
        async with client(endpoint) as made:
            wanted = missing(MANY[:6], 2, [])
            await run(wanted, SAMPLING, made, journal, concurrency=1)
        whole = {(x.key, x.draw): x for x in journal.labels}
    lines = (tmp_path / "j").read_bytes().splitlines(keepends=True)
    for kept in range(1, len(lines) + 1):
        endpoint.answered.clear()
        (tmp_path / "j").write_bytes(b"".join(lines[:kept]) + b'{"key":"torn')
        with Journal(tmp_path / "j", SAMPLING) as journal:
            there = {(x.key, x.draw) for x in journal.labels if not x.refused}
            async with client(endpoint) as made:
                again = missing(MANY[:6], 2, journal.labels)
                await run(again, SAMPLING, made, journal, concurrency=1)
            ended = {(x.key, x.draw): x for x in journal.labels}
        answers = {place: x for place, x in whole.items() if not x.refused}
        assert {place: x for place, x in ended.items() if not x.refused} == answers
        assert {key for key, _ in ended} <= {key for key, _ in whole}
        assert sum(endpoint.answered.values()) == len(answers) - len(there)


async def test_draws_in_flight_of_one_prompt_are_one_refusal(endpoint, tmp_path):
    endpoint.reply = lambda body: error(400, "long")
    with Journal(tmp_path / "j", SAMPLING) as journal:
        async with client(endpoint) as made:
            wanted = missing(PROMPTS[:1], 40, [])
            left = await run(wanted, SAMPLING, made, journal, concurrency=20)
        assert left == {PROMPTS[0].key}
        assert journal.labels == []
    assert len(endpoint.bodies) <= 20
