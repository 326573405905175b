"""Adapts the number of requests to a server that are in flight, as TCP does.

Each answer adds one; an overload error halves the number. Then the effect is checked. A server that
bears `b` requests at once answers a share of `b / n` of `n`, and about twice that share of half as
many. If the share does not change, requests fail by chance, and fewer at once would only take
longer: the limit returns to its size, and for a while as many refusals do not halve it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

_HELD_S = 10.0
"""Seconds during which a host gets no more requests than it was seen to bear."""
_TRUSTED_S = 2.0
"""Seconds for which failures are attributed to chance, before the limit is halved again."""
_BELOW = 0.95
"""Share of that which is asked for meanwhile: others may ask it, too."""
_FEW = 8
"""Answers, at least, that a share is taken of."""
_SURE = 3.0
"""Standard deviations by which more must be refused than by chance."""
_MOSTLY = 0.5
"""Share that must be answered at least of what is refused by chance only."""


@dataclass
class Answered:
    """Counts of requests that were answered, and refused."""

    answered: int = 0
    refused: int = 0

    @property
    def count(self) -> int:
        """Requests."""
        return self.answered + self.refused

    @property
    def value(self) -> float:
        """The share; 1 where nothing was asked for."""
        return self.answered / self.count if self.count else 1.0

    def add(self, *, refused: bool) -> None:
        """Count one more."""
        self.refused += refused
        self.answered += not refused


@dataclass
class RequestLimit:
    """The limit of requests to one host that are in flight."""

    most: int
    limit: float = 0.0
    """So many, for now."""
    least: float = 0.0
    """The fewest that they were."""
    knee: float = math.inf
    """The capacity expected: the limit grows to it fast, and then by one per round."""
    ceiling: float = math.inf
    """The capacity observed before an increase: for a while it bounds the limit."""
    chance: float = 0.0
    """Share of the requests that is refused however few there are."""
    halved: float = -math.inf
    """The time when the limit was last halved."""
    _tried: float | None = None
    """The limit before that, until the effect is known."""
    _before: Answered = field(default_factory=Answered)
    """Counts of the requests that were in flight when it was halved."""
    _since: Answered = field(default_factory=Answered)
    """Counts of requests begun since; later of as many of the latest as are in flight at once."""

    def __post_init__(self) -> None:
        self.limit = self.least = float(self.most)

    def bound(self, most: int) -> None:
        """Set the most that it may be; one that was as wide as could be is so again."""
        wide, never = self.limit >= self.most, self.least >= self.most
        self.most = most
        self.limit = float(most) if wide else min(self.limit, float(most))
        self.least = self.limit if never else min(self.least, self.limit)

    def answered(self, began: float, now: float) -> None:
        """Grow by one with each answer; beyond the knee with each round of answers."""
        self._count(began, now, refused=False)
        if self._tried is None:
            self.limit = min(float(self.most), self.limit + self._more(now))

    def _more(self, now: float) -> float:
        if now - self.halved <= _HELD_S and self.limit + 1 > self.ceiling:
            return 0.0
        return 1.0 if self.limit + 1 <= self.knee else 1.0 / self.limit

    def refused(self, began: float, now: float) -> None:
        """Halve it, once for all requests in flight together, unless that many fail by chance."""
        if now - self.halved > _TRUSTED_S:
            self.chance = 0.0
        self._count(began, now, refused=True)
        if self._tried is None and began >= self.halved and self._too_many():
            self._before = self._since
            self._halve(now)

    def _count(self, began: float, now: float, *, refused: bool) -> None:
        if began < self.halved:
            self._before.add(refused=refused)
            return
        self._since.add(refused=refused)
        if self._since.count < self._full:
            return
        if self._tried is not None:
            self._judge(self._tried, now)
        elif 1 - self._since.value < self.chance:
            self.chance += (1 - self._since.value - self.chance) / 4
        self._since = Answered()

    @property
    def _full(self) -> int:
        return max(_FEW, int(self.limit))

    def _too_many(self) -> bool:
        """Return True if more requests are refused than by chance, of as many as are in flight."""
        mean = self.chance * self._full
        return self._since.refused > mean + _SURE * math.sqrt(mean * (1 - self.chance))

    def _halve(self, now: float) -> None:
        self._tried, self.halved, self._since = self.limit, now, Answered()
        self.limit = max(1.0, self.limit / 2)
        self.least = min(self.least, self.limit)

    def _judge(self, wide: float, now: float) -> None:
        """Say whether halving helped."""
        before, since = self._before.value, self._since.value
        helped = (before + min(1.0, 2 * before)) / 2
        self._tried = None
        if self._since.refused < 2 or (since > 0 and not before):
            crept = wide + 1 > self.knee
            self.knee = max(1.0, _BELOW * wide * (1.0 if crept else max(before, 0.5)))
            self.ceiling = self.knee if crept else math.inf
            self.chance = 0.0
        elif since > 0 and since >= helped:  # it helped, and not yet enough
            self._before = self._since
            self._halve(now)
        elif since >= _MOSTLY and since >= before / 2:
            self.limit, self.knee, self.ceiling, self.chance = wide, math.inf, math.inf, 1 - since
        else:  # others ask it too much, or there is no answer from it at all
            self._before = self._before if since else self._since
            self._halve(now)
            self._tried = wide
