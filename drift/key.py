"""What is monitored together."""

from __future__ import annotations

from dataclasses import dataclass

#: What stands for the tenant of the series that holds everybody who has none of their own. It has
#: no lane, which everybody else has, so a tenant who calls itself that stays another.
OTHER = "(other)"


@dataclass(frozen=True, slots=True)
class Key:
    """One served model and one ranker version: scores compare only within a version.

    ``ranker`` and ``version`` are empty for requests that came before any ranker was seen. With
    ``lane`` and ``tenant`` it is a slice of that version's traffic; both are ``None`` for all, and
    for the rest, everybody without a slice of their own, ``lane`` alone is.
    """

    served_model: str
    ranker: str
    version: str
    lane: str | None = None
    tenant: str | None = None

    @property
    def whole(self) -> Key:
        """The version that this is a slice of."""
        return Key(self.served_model, self.ranker, self.version)

    def part(self, lane: str, tenant: str) -> Key:
        """The slice of its version that ``lane`` and ``tenant`` make."""
        return Key(self.served_model, self.ranker, self.version, lane, tenant)

    @property
    def sliced(self) -> bool:
        return self.tenant is not None

    @property
    def rest(self) -> bool:
        """Whether it is everybody who has no slice of their own."""
        return self.lane is None and self.tenant is not None

    @property
    def label(self) -> str:
        """Which part of the traffic, in words."""
        if self.tenant is None:
            return "all"
        if self.rest:
            return "everybody else"
        parts = (("tenant", self.tenant), ("lane", self.lane))
        return ", ".join(f"{what} {name}" for what, name in parts if name) or "no tenant"
