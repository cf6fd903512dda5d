"""The engine in torch reads what the CPU engine reads; these need the extra `torch`."""

import subprocess
import sys
import weakref

import numpy as np
import pytest

from pipeline.domain.batches import BatchBound
from pipeline.domain.errors import ErrorCode, PipelineError, RecognitionFailed, Transient
from pipeline.engines.plugins import absent
from pipeline.engines.ppocr.runtime import Runtime
from pipeline.engines.rapidocr import RapidOcrEngine
from pipeline.engines.registry import check, create
from pipeline.ports.documents import PageImage
from pipeline.ports.engines import ReadPage, Reads, Recogniser
from tests.pages import ROOT, SAMPLE, image, paper, rendered, shared, with_text

if missing := absent("torch", "transformers", "onnx"):
    pytest.skip(f"{', '.join(missing)} not installed (extra torch)", allow_module_level=True)


@pytest.fixture(scope="module")
def engine() -> Recogniser:
    engine = create("ppocr-torch", {})
    engine.warm_up()
    return engine


@pytest.fixture(scope="module")
def reference() -> RapidOcrEngine:
    """In float32, as the engine in torch on a CPU."""
    return RapidOcrEngine(runtimes=[Runtime.ONNXRUNTIME])


def read(engine: Recogniser, *pages: PageImage) -> list[ReadPage]:
    return list(engine.read(pages))


def note(text: str, number: int = 1) -> PageImage:
    return image(with_text(paper(400, 900), text, 100, 200), number=number)


def assert_alike(found: ReadPage, expected: ReadPage) -> None:
    assert [line.text for line in found.lines] == [line.text for line in expected.lines]
    assert (found.number, found.flags, found.angle_deg) == (expected.number, expected.flags, expected.angle_deg)
    for own, other in zip(found.lines, expected.lines, strict=True):
        assert own.confidence == pytest.approx(other.confidence, abs=1e-3)
        assert np.array(own.polygon) == pytest.approx(np.array(other.polygon), abs=1)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("corpus/a_nl_typewriter.png", 1),
        ("corpus/a_zh_vertical_woodblock.png", 1),
        ("corpus/b_four_orientations_4p.pdf", 4),
        ("corpus/f_tiff_g4_400dpi_3p.tiff", 1),
        ("synthetic/zh_bad.jpg", 1),
        (SAMPLE.name, 2),
    ],
)
def test_it_reads_what_the_cpu_engine_reads(
    engine: Recogniser, reference: RapidOcrEngine, name: str, number: int
) -> None:
    page = rendered(SAMPLE if name == SAMPLE.name else shared(name), number, dpi=120)
    [found], [expected] = read(engine, page), read(reference, page)
    assert found.lines
    assert_alike(found, expected)


def test_pages_read_together_are_read_as_each_alone(engine: Recogniser) -> None:
    pages = [note("FIRST 1111", 4), note("SECOND 2222", 5), image(paper(300, 700), number=6), note("THIRD 3333", 9)]
    alone = [found for page in pages for found in read(engine, page)]
    together = read(engine, *pages)
    assert [[line.text for line in found.lines] for found in together] == [
        ["FIRST 1111"],
        ["SECOND 2222"],
        [],
        ["THIRD 3333"],
    ]
    for found, expected in zip(together, alone, strict=True):
        assert_alike(found, expected)


def test_a_bad_page_among_others_fails_alone_and_keeps_no_pixels(engine: Recogniser) -> None:
    bad = PageImage(number=7, pixels=np.zeros((60, 60, 5), np.uint8), dpi=200)
    pixels = weakref.ref(bad.pixels)
    results = engine.read([note("BEFORE", 6), bad, note("AFTER", 8)])
    del bad
    assert [line.text for line in next(results).lines] == ["BEFORE"]
    with pytest.raises(RecognitionFailed, match="page 7") as caught:
        next(results)
    assert (caught.value.code, caught.value.__context__, pixels()) == (ErrorCode.ENGINE_FAILED, None, None)
    assert [line.text for line in next(results).lines] == ["AFTER"]


def test_a_device_out_of_memory_is_said_of_every_page_and_nothing_is_kept(
    engine: Recogniser, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    kept: list[weakref.ref[torch.Tensor]] = []

    def starve(*_: object, **__: object) -> None:
        tensor = torch.zeros(1000)
        kept.append(weakref.ref(tensor))
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    with monkeypatch.context() as patched:
        patched.setattr(torch.nn.Module, "__call__", starve)
        results = engine.read([note("ONE", 1), note("TWO", 2)])
    for number in (1, 2):
        with pytest.raises(RecognitionFailed, match=f"page {number}: .*out of memory") as caught:
            next(results)
        assert caught.value.code is ErrorCode.OUT_OF_MEMORY
    assert [tensor() for tensor in kept] == [None]
    assert [line.text for found in read(engine, note("AGAIN")) for line in found.lines] == ["AGAIN"]


def test_an_error_that_poisons_the_process_is_no_pages_outcome(
    engine: Recogniser, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    def break_down(*_: object, **__: object) -> None:
        raise torch.AcceleratorError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(torch.nn.Module, "__call__", break_down)
    with pytest.raises(Transient, match="device-side assert") as caught:
        list(engine.read([note("ONE", 1), note("TWO", 2)]))
    assert caught.value.code is ErrorCode.DEVICE_BROKEN


def test_it_says_exactly_what_it_is(engine: Recogniser) -> None:
    import torch

    identity = engine.identity
    assert (identity.name, engine.reads) == ("ppocr-torch", Reads.BATCH)
    device = "cuda-bf16" if torch.cuda.is_available() else "cpu-f32"
    assert identity.revision.startswith("ppocrv6-small-det.090f04ab-rec.6f327246-torch-")
    assert identity.revision.endswith(device)


def test_nothing_but_the_process_that_reads_imports_torch() -> None:
    look = (
        "import sys; import workers.child, workers.runner, workers.launcher;"
        "from pipeline.engines.registry import offers;"
        "assert [offer.name for offer in offers({}) if offer.name == 'ppocr-torch' and offer.problem is None];"
        "sys.exit(', '.join({'torch', 'transformers'} & set(sys.modules)) or 0)"
    )
    subprocess.run([sys.executable, "-c", look], check=True, cwd=ROOT, timeout=120)


def test_options_bound_its_batches() -> None:
    usual = create("ppocr-torch", {}).batch
    assert create("ppocr-torch", {"batch_pages": "7"}).batch == BatchBound(pages=7, pixels=usual.pixels)
    with pytest.raises(PipelineError, match="it has no options beads; it has batch_pages, batch_pixels"):
        create("ppocr-torch", {"beads": 3})


@pytest.mark.gpu
def test_an_accelerator_in_half_precision_reads_what_the_cpu_reads(reference: RapidOcrEngine) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no accelerator that torch can use")
    from workers.engines.ppocr_torch import PpocrTorchEngine

    page = rendered(SAMPLE, 2)
    [expected] = read(reference, page)
    for precision in (torch.float32, torch.bfloat16, torch.float16):
        [found] = read(PpocrTorchEngine(device=torch.device("cuda", 0), precision=precision), page)
        assert [line.text for line in found.lines] == [line.text for line in expected.lines], precision


def test_without_torch_it_is_listed_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(PipelineError, match=r"torch not installed: pip install 'muniment\[torch\]', see docs/gpu.md"):
        check("ppocr-torch", {})
