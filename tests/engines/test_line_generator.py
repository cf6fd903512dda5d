"""A model that generates text reads real lines; these need the extra `torch`.

`tests/fixtures/tiny-trocr-mono` has a million parameters and was trained for minutes on one font of one size: it reads
what is printed like `mono-lines.png`, and nothing else.
"""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.domain.errors import ErrorCode, PipelineError, RecognitionFailed
from pipeline.domain.recognition import Flag
from pipeline.engines.plugins import absent
from pipeline.engines.registry import check, create
from pipeline.ports.documents import PageImage
from pipeline.ports.engines import Reads, Recogniser
from tests.pages import image, paper

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
MODEL = str(FIXTURES / "tiny-trocr-mono")
LINES = ["Invoice No. 2026", "Total: 1,284.56", "Hello OCR World", "0123456789", "page (17) of 240"]

if missing := absent("torch", "transformers", "onnx"):
    pytest.skip(f"{', '.join(missing)} not installed (extra torch)", allow_module_level=True)


@pytest.fixture(scope="module")
def engine() -> Recogniser:
    engine = create("transformers", {"model": MODEL, "window": "true", "lines_at_once": "3"})
    engine.warm_up()
    return engine


def page(number: int = 1) -> PageImage:
    pixels = np.asarray(Image.open(FIXTURES / "mono-lines.png").convert("RGB"))
    return image(np.ascontiguousarray(pixels), number=number)


def test_lines_are_read_in_batches_and_come_back_in_their_places(engine: Recogniser) -> None:
    first, empty, last = engine.read([page(3), image(paper(300, 700), number=4), page(5)])
    for found, number in ((first, 3), (last, 5)):
        assert (found.number, [line.text for line in found.lines], found.flags) == (number, LINES, ())
        assert all(line.confidence and line.confidence > 0.99 for line in found.lines)
        tops = [line.polygon[0][1] for line in found.lines]
        assert tops == pytest.approx([80, 190, 300, 410, 520], abs=4)
    assert (empty.number, empty.lines) == (4, ())


def test_a_bad_page_among_others_fails_alone(engine: Recogniser) -> None:
    bad = PageImage(number=2, pixels=np.zeros((60, 60, 5), np.uint8), dpi=200)
    results = engine.read([bad, page(3)])
    with pytest.raises(RecognitionFailed, match="page 2") as caught:
        next(results)
    assert caught.value.code is ErrorCode.ENGINE_FAILED
    assert [line.text for line in next(results).lines] == LINES


def test_tokens_that_run_out_are_said_and_not_passed_off_as_the_text() -> None:
    engine = create("transformers", {"model": MODEL, "window": True, "max_new_tokens": 11})
    [found] = engine.read([page()])
    assert [line.text for line in found.lines] == [text[:11].strip() for text in LINES]
    # Only the ten digits and their end fit.
    assert found.flags == (Flag(name="truncated", score=0.8),)


def test_it_says_exactly_what_it_is(engine: Recogniser) -> None:
    assert engine.identity.revision.startswith("tiny-trocr-mono.")
    assert (engine.identity.name, engine.reads, engine.batch.pages) == ("transformers", Reads.BATCH, 4)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "no model: set its option `model`"),
        ({"model": "/nowhere"}, "/nowhere is not the folder of a model"),
    ],
)
def test_without_a_model_it_says_what_is_missing(options: dict[str, str], why: str) -> None:
    with pytest.raises(PipelineError, match=why) as caught:
        check("transformers", options)
    assert caught.value.code is ErrorCode.ENGINE_UNAVAILABLE


def test_options_that_it_does_not_have_are_refused() -> None:
    with pytest.raises(PipelineError, match="beads") as caught:
        create("transformers", {"model": MODEL, "beads": 3})
    assert caught.value.code is ErrorCode.ENGINE_UNAVAILABLE


def test_a_model_that_can_not_be_loaded_is_said(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(PipelineError) as caught:
        create("transformers", {"model": tmp_path}).warm_up()
    assert caught.value.code is ErrorCode.ENGINE_UNAVAILABLE
