"""How far a labelling run is, and when it will be over."""

from __future__ import annotations

from dataclasses import dataclass, field

from training.label.answer import Label

#: Answers from which a pace is worth telling: the first ones come all at once, and late.
_LEAST = 20


@dataclass(slots=True)
class Tally:
    """Counts of one run that is to make ``total`` labels. ``began``: seconds of the clock that
    ``now`` is read from. ``refused``: keys of prompts; ``answered``: labels with a length."""

    total: int
    began: float
    made: int = 0
    tokens: int = 0
    censored: int = 0
    answered: int = 0
    refused: set[str] = field(default_factory=set)

    def add(self, label: Label) -> None:
        """Count one label."""
        self.made += 1
        if label.refused:
            self.refused.add(label.key)
            return
        self.answered += 1
        self.tokens += label.output_tokens
        self.censored += label.finish_reason.censored

    def rate(self, now: float) -> float:
        """Tokens a second."""
        return self.tokens / max(now - self.began, 1e-9)

    def left_s(self, now: float) -> float | None:
        """Seconds until the end at the pace so far; ``None`` before the first labels."""
        if self.made < min(_LEAST, self.total):
            return None
        return (now - self.began) / self.made * (self.total - self.made)

    def line(self, now: float) -> str:
        """All of it in one line for people."""
        left = self.left_s(now)
        parts = [
            f"{self.made:,} of {self.total:,} answers",
            f"{self.rate(now):,.0f} tokens/s",
            f"{self.censored / self.answered:.0%} censored" if self.answered else "",
            f"{len(self.refused):,} prompts refused" if self.refused else "",
            "" if left is None else f"{_duration(left)} left",
        ]
        return ", ".join(part for part in parts if part)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
