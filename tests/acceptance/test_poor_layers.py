"""A scan under the text of a poor recogniser is read, or keeps that text where its job says so."""

import pytest
from PIL import ImageDraw

from tests.adapters.documents.builders import BAD_OCR, Page, image_at, pdf_file, picture, text


@pytest.mark.parametrize(
    ("options", "outcome", "engine"),
    [({}, "recognised", "simulated"), ({"poor_layers": "keep"}, "text_layer", "text-layer")],
)
def test_the_job_says_what_becomes_of_a_poor_text_layer(system, tmp_path, options, outcome, engine):
    system.start()
    scan = picture(850, 1100, shade=250)
    ImageDraw.Draw(scan).text((100, 130), "The harbour office keeps a ledger", fill=0, font_size=30)
    page = Page(image_at("scan", 0, 0, 612, 792) + text(*BAD_OCR, mode=3), images={"scan": scan})
    job_id = system.submit(pdf_file(tmp_path, page), options=options)
    system.finished(job_id)
    [found] = system.document(job_id)["pages"]
    assert (found["outcome"], found["engine"]["name"]) == (outcome, engine)
    assert ("h@rb0ur" in found["text"]) is (outcome == "text_layer")
    assert [flag["name"] for flag in found["flags"]] == ["text_layer_garbled"]
    assert found["flags"][0]["score"] >= 0.5
