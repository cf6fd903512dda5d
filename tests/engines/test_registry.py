import pytest

from pipeline.domain.errors import ErrorCode, PipelineError
from pipeline.engines.rapidocr import RapidOcrEngine
from pipeline.engines.registry import create, names
from pipeline.engines.simulated import SimulatedEngine


def test_engines_are_made_by_name() -> None:
    assert isinstance(create("rapidocr"), RapidOcrEngine)
    assert isinstance(create("simulated"), SimulatedEngine)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(PipelineError, match="no engine tesseract") as caught:
        create("tesseract")
    assert caught.value.code is ErrorCode.ENGINE_UNAVAILABLE
    assert all(name in caught.value.message for name in names())
