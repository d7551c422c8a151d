"""All recipes, in the order of the table."""

from __future__ import annotations

from dataclasses import replace

from training.recipes.buckets import Buckets
from training.recipes.clairvoyant import Clairvoyant
from training.recipes.encoder import EncoderRecipe
from training.recipes.ltr import ListMle
from training.recipes.pars import Margin
from training.recipes.prompt_length import PromptLength
from training.recipes.recipe import Recipe
from training.recipes.ssjf import Classes, Regression
from training.recipes.tie import LogT

#: What differs from the papers in every recipe with a transformer, so that only the recipe does.
SHARED = (
    "Encoder, text (both ends of a long prompt), pooling (mean beside first state), batches "
    "and learning rates are those of our encoder for every recipe that has a transformer."
)
_VLLM_LTR = "arXiv 2408.15792; train/trainer.py of hao-ai-lab/vllm-ltr"
_SSJF = "arXiv 2404.08509; latency_prediction.py of its repository"

LTR = EncoderRecipe(
    "ltr",
    f"{_VLLM_LTR}: ListMLE, label-group-size 10, lists of 32",
    "equal grades share a denominator instead of an order by chance",
    lambda tokens: ListMle(),
)
PARS = EncoderRecipe(
    "pars",
    "arXiv 2510.03243: margin 1, pairs that differ by 20% of the longer",
    "pairs are all of a batch of 32; epochs as for LTR",
    lambda tokens: Margin(),
)

RECIPES: tuple[Recipe, ...] = (
    PromptLength(),
    Clairvoyant(),
    EncoderRecipe(
        "ssjf-l1",
        f"{_SSJF}: regression on token counts, 3 epochs and 3 with the encoder frozen",
        "counts in standard deviations",
        Regression.of,
        epochs=3,
        frozen=3,
        layers=2,
    ),
    EncoderRecipe(
        "ssjf-mse",
        f"{_SSJF}: the same with squared error",
        "counts in standard deviations",
        lambda tokens: Regression.of(tokens, squared=True),
        epochs=3,
        frozen=3,
        layers=2,
    ),
    EncoderRecipe(
        "ssjf-classes",
        f"{_SSJF}: five classes at the 25th, 50th, 75th and 99th percentile",
        "the mean class orders, which ties fewer prompts than the likeliest",
        Classes.of,
        epochs=3,
        frozen=3,
        layers=2,
    ),
    EncoderRecipe(
        "buckets-10",
        f"{_VLLM_LTR}: ten classes of 820 tokens",
        "the mean class orders, which ties fewer prompts than the likeliest",
        lambda tokens: Buckets(820),
    ),
    EncoderRecipe(
        "buckets-of-100",
        f"{_VLLM_LTR}: 82 classes of 100 tokens",
        "the mean class orders, which ties fewer prompts than the likeliest",
        lambda tokens: Buckets(100),
    ),
    EncoderRecipe(
        "tie",
        "arXiv 2604.00499: log-t with 3.5 degrees of freedom, E + 0.1 CVaR; 12 epochs and 8 frozen",
        "likelihood of single lengths, where the paper fits 20 answers a prompt first",
        LogT.of,
        epochs=12,
        frozen=8,
        layers=2,
    ),
    LTR,
    PARS,
    replace(LTR, name="ltr-later", differs=f"{LTR.differs}; later turns train too", later=True),
    replace(PARS, name="pars-later", differs=f"{PARS.differs}; later turns train too", later=True),
)
