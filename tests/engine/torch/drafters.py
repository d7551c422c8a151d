"""Drafters that stand in for real ones: they know the truth, or nothing, or break."""

import random

from engine.core.speculation import SpeculationConfig

#: Room for drafts in every step: none costs anything, and what is refused changes no rate.
ALWAYS = SpeculationConfig(
    max_drafts=4, memory=10**9, own_memory=10**9, steps=((1, 1.0), (10**6, 1.0))
)


class Scripted:
    """``propose`` by a function of a sequence and how many are wanted; remembers what it gave."""

    def __init__(self, guess):
        self.guess = guess
        self.wanted = []
        self.gone = []

    def propose(self, wanted):
        self.wanted.append({each.sequence.id: each.most for each in wanted})
        return [self.guess(each.sequence, each.most) for each in wanted]

    def forget(self, request_id):
        self.gone.append(request_id)


def oracle(expected, vocabulary=1000):
    """Knows each answer, and makes things up behind its end."""
    draw = random.Random(0)

    def guess(sequence, most):
        rest = expected[sequence.id][sequence.output_tokens :][:most]
        return rest + [draw.randrange(vocabulary) for _ in range(most - len(rest))]

    return Scripted(guess)


def unreliable(expected, seed=0, vocabulary=1000):
    """Knows each answer, but now and then says less, something else, or nonsense."""
    draw = random.Random(seed)

    def guess(sequence, most):
        rest = expected[sequence.id][sequence.output_tokens :][: draw.randint(0, most)]
        at = draw.randint(0, 8)
        if at < len(rest):
            rest[at] = draw.choice([draw.randrange(vocabulary), vocabulary, -1, 10**9])
        return rest + [draw.randrange(vocabulary)] * draw.randint(0, 3)

    return Scripted(guess)
