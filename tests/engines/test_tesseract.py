"""The system's Tesseract: the table that it writes, its bounds, and the program itself where there is one."""

import shutil
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from pipeline.domain.errors import ErrorCode, RecognitionFailed, Transient
from pipeline.engines.plugins import TESSERACT
from pipeline.engines.tesseract import Installed, TesseractEngine, TesseractOptions, lines_of
from tests.pages import error_rate, image, paper, rendered, shared, with_text

HEAD = "level page_num block_num par_num line_num word_num left top width height conf text"
"""As its manual gives it, tabs between."""


def table(*rows: str) -> str:
    return "\n".join(row.replace(" ", "\t", 11) for row in (HEAD, *rows)) + "\n"


TWO_LINES = table(
    "1 1 0 0 0 0 0 0 1000 1400 -1 ",
    "2 1 1 0 0 0 100 90 600 110 -1 ",
    "3 1 1 1 0 0 100 90 600 110 -1 ",
    "4 1 1 1 1 0 100 90 600 40 -1 ",
    "5 1 1 1 1 1 100 90 300 40 96.5 Permit",
    "5 1 1 1 1 2 420 90 280 40 90.5 me",
    "4 1 1 1 2 0 100 150 500 50 -1 ",
    "5 1 1 1 2 1 100 150 500 50 80 introduce",
)


class Program:
    """An executable in the place of Tesseract: answers as that does, and notes how it was called."""

    def __init__(self, folder: Path, body: str) -> None:
        self.calls = folder / "calls"
        self.path = folder / "tesseract"
        self.path.write_text(
            f"#!{sys.executable}\n"
            "import os, resource, sys, time\n"
            "picture = b'' if sys.argv[1].startswith('--') else sys.stdin.buffer.read()\n"
            f"open({str(self.calls)!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
            "if sys.argv[1] == '--version': print('tesseract 5.3.0\\n leptonica-1.82.0'); sys.exit()\n"
            "if sys.argv[1] == '--list-langs': print('Languages (4):\\ndeu\\neng\\nfrk\\nosd'); sys.exit()\n"
            f"{body}\n"
        )
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    def engine(self, **options: object) -> TesseractEngine:
        return TesseractEngine(TesseractOptions.model_validate({"program": str(self.path), **options}))


@pytest.fixture
def two_lines(tmp_path: Path) -> Program:
    return Program(tmp_path, f"sys.stdout.write({TWO_LINES!r})")


class TestTable:
    def test_lines_have_their_words_boxes_and_confidence(self) -> None:
        first, second = lines_of(TWO_LINES)
        assert (first.text, second.text) == ("Permit me", "introduce")
        assert first.polygon == ((100, 90), (700, 90), (700, 130), (100, 130))
        assert first.confidence == pytest.approx((6 * 0.965 + 2 * 0.905) / 8)
        assert second.polygon[0] == (100, 150)

    def test_a_page_without_words_has_no_lines(self) -> None:
        assert list(lines_of(table("1 1 0 0 0 0 0 0 1000 1400 -1 "))) == []
        assert list(lines_of(table("4 1 1 1 1 0 1 1 9 9 -1 ", "5 1 1 1 1 1 1 1 9 9 95  "))) == []

    def test_chinese_characters_are_set_solid(self) -> None:
        words = ["中", "日", "2", "Python", "语"]
        rows = [f"5 1 1 1 1 {number} 1 1 9 9 90 {word}" for number, word in enumerate(words, 1)]
        [line] = lines_of(table("4 1 1 1 1 0 1 1 99 9 -1 ", *rows))
        assert line.text == "中日 2 Python 语"

    @pytest.mark.parametrize("wrong", ["", "nonsense", table("5 1 1")])
    def test_what_is_no_table_fails_its_page(self, wrong: str) -> None:
        if not wrong:
            assert list(lines_of(wrong)) == []
            return
        with pytest.raises(RecognitionFailed, match="none of its table"):
            list(lines_of(wrong + "\nx"))


class TestProgram:
    def test_a_page_goes_in_as_a_picture_with_its_resolution_and_languages(self, two_lines: Program) -> None:
        engine = two_lines.engine(languages=["de-Latf", "eng"])
        engine.warm_up()
        [found] = engine.read([image(paper(), 7)])
        assert (found.number, [line.text for line in found.lines]) == (7, ["Permit me", "introduce"])
        last = two_lines.calls.read_text().splitlines()[-1]
        assert last == "stdin stdout -l frk+eng --psm 3 --dpi 200 tsv"

    def test_a_document_that_names_no_language_is_taken_for_english(self, two_lines: Program) -> None:
        engine = two_lines.engine()
        engine.warm_up()
        list(engine.read([image(paper())]))
        assert "-l eng" in two_lines.calls.read_text()

    def test_it_gets_all_pixels(self, tmp_path: Path) -> None:
        check = f"assert picture == b'P6 3 2 255\\n' + bytes(range(18)); sys.stdout.write({TWO_LINES!r})"
        pixels = np.arange(18, dtype=np.uint8).reshape(2, 3, 3)
        [found] = Program(tmp_path, check).engine().read([image(pixels)])
        assert len(found.lines) == 2

    def test_it_says_what_it_is_and_reads(self, two_lines: Program) -> None:
        english, german = two_lines.engine().identity, two_lines.engine(languages=["de"]).identity
        assert (english.name, english.revision) == ("tesseract", "5.3.0")
        assert english.settings_digest != german.settings_digest

    def test_it_has_one_thread(self, tmp_path: Path) -> None:
        program = Program(tmp_path, f"assert os.environ['OMP_THREAD_LIMIT'] == '1'; sys.stdout.write({TWO_LINES!r})")
        assert len(list(program.engine().read([image(paper())]))) == 1

    def test_time_and_memory_are_bounded(self, tmp_path: Path) -> None:
        body = "print(resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_CPU)); sys.exit(3)"
        pages = (
            Program(tmp_path, f"sys.stdout = sys.stderr; {body}")
            .engine(page_seconds=9, max_bytes=10**9)
            .read([image(paper(), 3)])
        )
        with pytest.raises(RecognitionFailed) as failed:
            next(pages)
        assert "page 3" in failed.value.message
        assert "status 3: (1000000000, 1000000000) (10, 10)" in failed.value.message

    def test_one_that_does_not_end_is_ended_and_the_next_page_is_read(self, tmp_path: Path) -> None:
        marker = tmp_path / "second"
        body = (
            f"marker = {str(marker)!r}\n"
            "if not os.path.exists(marker): open(marker, 'w').write(str(os.getpid())); time.sleep(600)\n"
            f"sys.stdout.write({TWO_LINES!r})"
        )
        pages = Program(tmp_path, body).engine(page_seconds=2).read([image(paper(), 1), image(paper(), 2)])
        with pytest.raises(RecognitionFailed, match="page 1: Tesseract was not done after 2 s") as failed:
            next(pages)
        assert failed.value.code is ErrorCode.ENGINE_FAILED
        assert not Path(f"/proc/{marker.read_text()}").exists()
        assert next(pages).number == 2

    def test_a_failure_holds_on_to_no_pixels(self, tmp_path: Path) -> None:
        pages = Program(tmp_path, "sys.exit(1)").engine().read([image(paper())])
        with pytest.raises(RecognitionFailed) as failed:
            next(pages)
        assert failed.value.__context__ is None or failed.value.__suppress_context__
        frame = failed.value.__traceback__
        while frame:
            assert not [value for value in frame.tb_frame.f_locals.values() if isinstance(value, np.ndarray)]
            frame = frame.tb_next


class TestWhatIsMissing:
    def test_a_system_without_it_says_so(self, tmp_path: Path) -> None:
        problem = TESSERACT.missing({"program": str(tmp_path / "tesseract")})
        assert problem is not None
        assert "not installed" in problem

    def test_a_language_without_data_is_named_with_those_that_are_there(self, two_lines: Program) -> None:
        assert TESSERACT.missing({"program": str(two_lines.path), "languages": ["de", "frk"]}) is None
        problem = TESSERACT.missing({"program": str(two_lines.path), "languages": ["de", "ru"]})
        assert problem == "Tesseract has no data for rus, only for: deu, eng, frk"
        with pytest.raises(Transient) as unavailable:
            two_lines.engine(languages=["ru"]).warm_up()
        assert unavailable.value.code is ErrorCode.ENGINE_UNAVAILABLE

    def test_a_program_that_fails_is_no_tesseract(self, tmp_path: Path) -> None:
        problem = TESSERACT.missing({"program": shutil.which("false") or ""})
        assert problem is not None
        assert "fails" in problem

    @pytest.mark.parametrize("options", [{"languages": []}, {"languages": ["klingon"]}, {"lang": "deu"}])
    def test_wrong_options_are_refused(self, options: dict[str, object]) -> None:
        with pytest.raises(ValidationError):
            TesseractOptions.model_validate(options)
        assert "options" in (TESSERACT.missing(options) or "")


@pytest.fixture
def real() -> Installed:
    """The system's own program; where there is none, the test is skipped."""
    try:
        return Installed.found("tesseract")
    except Transient as error:
        pytest.skip(error.message)


class TestReal:
    def test_it_reads_what_stands_on_a_page(self, real: Installed) -> None:
        pixels = with_text(paper(600, 1654), "harbour ledger of 1843", 200, 300, scale=2)
        engine = TesseractEngine(TesseractOptions(languages=(min(real.data),)))
        engine.warm_up()
        [found] = engine.read([image(pixels)])
        [line] = found.lines
        assert error_rate(line.text, "harbour ledger of 1843") < 0.15
        (left, top), _, (right, bottom), _ = line.polygon
        assert left == pytest.approx(200, abs=15)
        assert top < 300 < bottom + 15
        assert right > 800

    def test_it_reads_fraktur_where_it_has_the_data(self, real: Installed) -> None:
        if "frk" not in real.data:
            pytest.skip("Tesseract has no data for frk")
        name = "a_de_kant_1784_p0020.jp2"
        truth = shared(f"corpus/{name}.gt.txt").read_text()
        engine = TesseractEngine(TesseractOptions(languages=("de-Latf",)))
        [found] = engine.read([rendered(shared(f"corpus/{name}"))])
        assert error_rate("".join(line.text for line in found.lines), truth) < 0.25
