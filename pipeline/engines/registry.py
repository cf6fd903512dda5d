"""The engines by name; each is imported when it is made, so that one need not be installed for another to work."""

from collections.abc import Callable

from pipeline.domain.errors import ErrorCode, PipelineError
from pipeline.ports.engines import Recogniser


def names() -> tuple[str, ...]:
    """Return the names of all engines, installed or not."""
    return tuple(_ENGINES)


def create(name: str) -> Recogniser:
    """Return an engine that has not loaded anything yet.

    Raises: PipelineError (`engine_unavailable`), if there is no such engine or it is not installed.
    """
    if name not in _ENGINES:
        raise PipelineError(ErrorCode.ENGINE_UNAVAILABLE, f"there is no engine {name}; there are {', '.join(_ENGINES)}")
    try:
        return _ENGINES[name]()
    except ImportError as error:
        raise PipelineError(
            ErrorCode.ENGINE_UNAVAILABLE, f"engine {name} is not installed ({error.name}): pip install 'muniment[cpu]'"
        ) from error


def _rapidocr() -> Recogniser:
    from pipeline.engines.rapidocr import RapidOcrEngine

    return RapidOcrEngine()


def _simulated() -> Recogniser:
    from pipeline.engines.simulated import SimulatedEngine, Simulation

    return SimulatedEngine(Simulation.from_environment())


_ENGINES: dict[str, Callable[[], Recogniser]] = {"rapidocr": _rapidocr, "simulated": _simulated}
