"""What an encoder costs at serving, and what its serving form loses.

    python -m training.encoder.served_form [BACKBONE]

exports a backbone with untrained heads and prints size and milliseconds on one core.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ranker.encoder.model import INPUTS, OUTPUTS, EncoderModel
from ranker.encoder.text import padded

if TYPE_CHECKING:
    from ranker.encoder.network import LengthNetwork
    from ranker.encoder.probe import ProbeNetwork

Floats = NDArray[np.float64]

_BATCH = 32


def lost(
    model: EncoderModel, network: LengthNetwork | ProbeNetwork, prompts: Sequence[str]
) -> Mapping[str, float]:
    """How far the scores of ``model`` are from those of the ``network`` it was exported from.

    ``kendall`` (tau-b) and ``spearman`` between the two, 1 when nothing is lost; ``largest``, the
    largest difference in standard deviations of the network's scores. NaN for fewer than 2 prompts
    or scores that are all alike.
    """
    from scipy.stats import kendalltau, spearmanr

    exact, served = _exact(network, model, prompts), model.predict(prompts).scores
    spread = float(exact.std())
    if spread == 0.0:
        return dict.fromkeys(("kendall", "spearman", "largest"), float("nan"))
    return {
        "kendall": float(kendalltau(exact, served).statistic),
        "spearman": float(spearmanr(exact, served).statistic),
        "largest": float(np.abs(exact - served).max()) / spread,
    }


def _exact(
    network: LengthNetwork | ProbeNetwork, model: EncoderModel, prompts: Sequence[str]
) -> Floats:
    import torch

    rows = model.text.ids(prompts)
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    scores = np.zeros(len(rows))
    was_training = network.training
    network.eval()
    try:
        with torch.no_grad():
            for start in range(0, len(order), _BATCH):
                part = order[start : start + _BATCH]
                ids, mask = padded([rows[row] for row in part], model.text.pad)
                number = torch.zeros(len(part), dtype=torch.int64)
                found, _, _ = network(torch.from_numpy(ids), torch.from_numpy(mask), number)
                scores[part] = found.double().numpy()
    finally:
        network.train(was_training)
    return scores


def milliseconds(
    model: EncoderModel, tokens: int, repeats: int, clock: Callable[[], float] = time.perf_counter
) -> Floats:
    """Of ``repeats`` prompts of ``tokens`` tokens, one after the other, after one to warm up."""
    session = model.session()
    words = model.text.tokenizer.get_vocab_size()
    ids = np.random.default_rng(0).integers(0, words, (1, tokens))
    feed = dict(zip(INPUTS, (ids, np.ones_like(ids), np.zeros(1, np.int64)), strict=True))
    session.run(OUTPUTS, feed)
    taken = np.empty(repeats)
    for number in range(repeats):
        start = clock()
        session.run(OUTPUTS, feed)
        taken[number] = 1000.0 * (clock() - start)
    return taken


def _table(backbone: str) -> Iterator[str]:
    import torch

    from ranker.encoder.export import export
    from ranker.encoder.network import LengthNetwork
    from ranker.encoder.text import EncoderText
    from training.encoder.backbone import load_encoder, load_tokenizer, locate

    where = locate(backbone)
    torch.manual_seed(0)
    network = LengthNetwork(load_encoder(where))
    text = EncoderText(load_tokenizer(where))
    yield "      size     128 tokens, best    median   32 tokens, best    median"
    for precision in ("fp32", "int8"):
        model = export(network, text, precision)
        long, short = milliseconds(model, 128, 50), milliseconds(model, 32, 100)
        yield (
            f"{precision} {len(model.network) / 1e6:6.1f} MB {long.min():14.1f} ms "
            f"{np.median(long):6.1f} ms {short.min():14.1f} ms {np.median(short):6.1f} ms"
        )


if __name__ == "__main__":
    for line in _table(*sys.argv[1:2] or ("",)):
        print(line, flush=True)
