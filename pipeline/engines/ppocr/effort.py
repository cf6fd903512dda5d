"""How much trouble is taken over a page: which networks read it, how closely, and which lines are read twice."""

from dataclasses import asdict, dataclass
from typing import Any

from pipeline.domain.profiles import Profile
from pipeline.engines.ppocr.detector import SIDE_LIMIT
from pipeline.engines.ppocr.reader import WIDTH_SHARE, Pass
from pipeline.engines.ppocr.runtime import Net
from pipeline.engines.ppocr.weights import SMALL, TINY, Edition


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How closely a page is looked at."""

    side_limit: int = SIDE_LIMIT
    """Of what the detector sees."""
    passes: tuple[Pass, ...] = (Pass(net=Net.RECOGNISER, width_share=WIDTH_SHARE),)
    """Readings of lines; only those that one is not sure of go on to the next."""

    def settings(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


USUAL = Effort()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Networks, and what is done with them."""

    edition: Edition
    skimming: Edition | None = None
    """The networks whose recogniser reads every line first."""
    effort: Effort = USUAL
    profile: Profile | None = None

    @property
    def revision(self) -> str:
        """Return a short name of exactly these networks, and of the profile that asked for them."""
        first = f"-after.{self.skimming.recogniser_revision}" if self.skimming else ""
        return f"{self.edition.revision}{first}" + (f"-{self.profile}" if self.profile else "")


SMALL_ALONE = Plan(edition=SMALL)
TINY_ALONE = Plan(edition=TINY)


def plan_for(profile: Profile, *, has_tiny: bool, skims: bool = False) -> Plan:
    """Return how a profile is read, with the tiny networks or without.

    Args: skims has what is usual begin with the tiny recogniser, where there is one.

    Measured on the 30 pages of docs/quality.md, OpenVINO on one thread, mean share of wrong characters and CPU seconds
    a page: tiny alone 5.36 %, 0.53; tiny and then small 2.61 %, 1.08; small alone 2.63 %, 1.30; small and again at
    full width 2.46 %, 1.48.
    """
    match profile:
        case Profile.FAST:
            return Plan(edition=TINY if has_tiny else SMALL, effort=Effort(side_limit=960), profile=profile)
        case Profile.BALANCED:
            if not (skims and has_tiny):
                return Plan(edition=SMALL, profile=profile)
            skimmed = Pass(net=Net.SKIMMER, width_share=WIDTH_SHARE)
            effort = Effort(passes=(skimmed, *USUAL.passes))
            return Plan(edition=SMALL, skimming=TINY, effort=effort, profile=profile)
        case Profile.ACCURATE:
            passes = (*USUAL.passes, Pass(net=Net.RECOGNISER, width_share=1.0))
            return Plan(edition=SMALL, effort=Effort(passes=passes), profile=profile)
