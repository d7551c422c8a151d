"""The prompt's own log probabilities, whatever pieces it is computed in."""

import pytest
import torch

from engine import scoring
from engine.sampling import SamplingParams
from tests.engine.torch.reference import ROOMY, TIGHT, random_prompts


def expected(network, ids):
    """Of each token but the first, given those before it."""
    with torch.inference_mode():
        logits = network(torch.tensor([ids])).logits[0].double()
    return torch.log_softmax(logits, -1)


@pytest.mark.parametrize("rows", [256, 7], ids=["one pass", "passes"])
@pytest.mark.parametrize("config", [ROOMY, TIGHT], ids=["roomy", "tight"])
def test_a_prompt_is_scored_in_one_piece_and_in_chunks(
    make_network, make_model, make_server, monkeypatch, config, rows
):
    monkeypatch.setattr(scoring, "_ROWS", rows)
    network = make_network()
    prompts = random_prompts(4, 1000, 30, 90)
    server = make_server(make_model(make_network()), config)
    scored = {}
    kept = server.executor.remove

    def remove(name):
        scored[name] = server.executor.prompt(name)
        kept(name)

    server.executor.remove = remove
    asked, run = [], server.executor._runner.run

    def counted(plan, tokens):
        names, logits = run(plan, tokens)
        asked.append(len(names))
        return names, logits

    server.executor._runner.run = counted
    for i, (name, ids) in enumerate(prompts.items()):
        wanted = i if i % 2 else None  # neighbours that do not ask
        sampling = SamplingParams(
            temperature=0.0, max_tokens=3, ignore_eos=True, prompt_logprobs=wanted, logprobs=1
        )
        server.submit(name, ids, sampling)
    server.run()
    # One of each request at least, besides.
    assert max(asked) <= rows + len(prompts)
    for i, (name, ids) in enumerate(prompts.items()):
        whole = expected(network, ids + server.tokens[name])
        assert [token.id for token in scored[name]] == ids
        assert scored[name][0].logprob is None
        if i % 2 == 0:
            assert not any(token.logprob for token in scored[name])
            continue
        for position in range(1, len(ids)):
            token, row = scored[name][position], whole[position - 1]
            assert token.logprob == pytest.approx(row[ids[position]].item(), abs=1e-4)
            assert [each for each, _ in token.top] == row.topk(i).indices.tolist()
        assert server.tokens[name] == [whole[len(ids) - 1 + k].argmax().item() for k in range(3)]
