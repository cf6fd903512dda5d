from pipeline.domain.recognition import Line
from pipeline.engines.noise import believed
from tests.builders import BOX


def line(text: str, confidence: float | None) -> Line:
    return Line(text=text, polygon=BOX, confidence=confidence)


def test_a_few_doubtful_characters_are_dropped_and_flagged() -> None:
    lines, flags = believed([line("il:", 0.6), line(".", 0.7)])
    assert lines == ()
    assert [flag.name for flag in flags] == ["doubtful_text_dropped"]


def test_a_page_number_that_is_read_well_is_kept() -> None:
    assert believed([line("17", 0.97)]) == ((line("17", 0.97),), ())


def test_doubtful_text_is_kept_where_there_is_more_of_it() -> None:
    lines = (line("hardly legible", 0.6), line("as well", 0.55))
    assert believed(lines) == (lines, ())


def test_lines_that_nobody_guessed_are_kept() -> None:
    assert believed([line("7", None)]) == ((line("7", None),), ())


def test_no_lines_are_no_doubt() -> None:
    assert believed([]) == ((), ())
