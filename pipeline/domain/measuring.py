"""What is said of a series of measurements: percentiles of times, and whether something grows (pure)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, mean

CONFIDENCE = 0.95


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least so large a share of all does not exceed (nearest rank).

    Raises: ValueError, if there is no value or the share is not within (0, 1].
    """
    if not values or not 0 < share <= 1:
        raise ValueError(f"no percentile {share} of {len(values)} values")
    return sorted(values)[math.ceil(share * len(values)) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """By how much a series rises from one measurement to the next, with its confidence interval."""

    slope: float
    low: float
    high: float

    @property
    def is_growth(self) -> bool:
        """Whether it grows, as far as can be told: the whole interval lies above zero."""
        return self.low > 0


def trend(values: Sequence[float], *, confidence: float = CONFIDENCE) -> Trend:
    """Return the straight line through a series, by least squares.

    The interval takes the measurements for independent; where each depends on the one before it, as memory does, it is
    narrower than it should be, and growth is said rather too early than too late.

    Raises: ValueError, for less than three values.
    """
    count = len(values)
    if count < 3:
        raise ValueError(f"no trend in {count} measurements")
    middle_x, middle_y = (count - 1) / 2, mean(values)
    spread = sum((x - middle_x) ** 2 for x in range(count))
    slope = sum((x - middle_x) * (y - middle_y) for x, y in enumerate(values)) / spread
    rest = sum((y - middle_y - slope * (x - middle_x)) ** 2 for x, y in enumerate(values))
    error = math.sqrt(rest / (count - 2) / spread)
    reach = _student(1 - (1 - confidence) / 2, count - 2) * error
    return Trend(slope=slope, low=slope - reach, high=slope + reach)


def _student(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5, to the third term; within 1 % for three
    degrees of freedom or more, exact for one and two.
    """
    if freedom == 1:
        return math.tan(math.pi * (probability - 0.5))
    if freedom == 2:
        return (2 * probability - 1) * math.sqrt(2 / (1 - (2 * probability - 1) ** 2))
    z = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + math.fsum(term / float(freedom) ** power for power, term in enumerate(terms, start=1))
