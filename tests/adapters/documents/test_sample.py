from pathlib import Path

from pipeline.adapters.documents.opener import FileOpener
from pipeline.domain.document import PageClass
from tests.adapters.documents.builders import limits

SAMPLE = Path(__file__).parents[3] / "samples" / "harbour-ledger.pdf"


def test_the_sample_is_two_scanned_pages_and_small() -> None:
    assert SAMPLE.stat().st_size < 300_000
    with FileOpener(limits()).open(SAMPLE) as document:
        facts = [document.facts(number) for number in range(1, document.page_count + 1)]
    assert [(page.page_class, round(page.dpi)) for page in facts] == [(PageClass.SCAN, 150)] * 2
