from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from ranker.encoder.model import EncoderModel
from ranker.types import LEVELS

ODD = (
    "",
    " ",
    "plain words",
    "مرحبا بالعالم",
    "日本語のテキスト",
    "🙂🙃" * 40,
    "def f(x):\n\treturn x\0",
    "\ud800 a lone surrogate \udfff",
    "a b c " * 200_000,
)


def test_any_text_gets_finite_numbers(encoder):
    found = encoder.predict(ODD)
    assert found.scores.shape == (len(ODD),)
    assert found.quantiles.shape == (len(ODD), len(LEVELS))
    assert found.embeddings.shape == (len(ODD), 64)
    for array in (found.scores, found.quantiles, found.embeddings):
        assert array.dtype == np.float64
        assert np.all(np.isfinite(array))
    assert np.all(found.quantiles >= 0)
    assert np.all(np.diff(found.quantiles, axis=1) >= 0)


def test_no_prompts_no_rows(encoder):
    found = encoder.predict([])
    assert (len(found.scores), found.quantiles.shape, found.embeddings.shape) == (
        *(0, (0, len(LEVELS))),
        (0, 64),
    )


def test_a_prompt_says_the_same_in_any_company(encoder):
    together = encoder.predict(ODD, "b")
    for row, prompt in enumerate(ODD):
        alone = encoder.predict([prompt], "b")
        assert alone.scores[0] == together.scores[row]
        assert np.array_equal(alone.quantiles[0], together.quantiles[row])
        assert np.array_equal(alone.embeddings[0], together.embeddings[row])


def test_served_models_are_told_apart_and_an_unknown_one_gets_what_they_share(encoder):
    scores = {name: encoder.predict(["a b c"], name).scores[0] for name in ("", "a", "b", "other")}
    assert scores[""] == scores["other"]
    assert len(set(scores.values())) == 3


def test_threads_share_one_session(encoder):
    fresh = replace(encoder)
    assert fresh == encoder
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: fresh.predict(ODD[:7]).scores, range(16)))
        sessions = set(map(id, pool.map(lambda _: fresh.session(), range(16))))
    assert len(sessions) == 1
    assert all(np.array_equal(scores, found[0]) for scores in found)


@pytest.mark.parametrize("network", [b"", b"\0" * 100, b"no network at all"])
def test_what_is_no_network_is_refused(reading, network):
    with pytest.raises(ValueError, match="not a network that ONNX Runtime runs"):
        EncoderModel(network, reading).predict(["a"])


def test_serving_loads_no_torch():
    code = (
        "import sys, ranker.encoder.model, ranker.artifact, ranker.blend;"
        "print([m for m in ('torch', 'transformers', 'onnx', 'mlflow') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
