"""What a folder says of its documents."""

import json

import pytest

from pipeline.evaluation.truth import CorpusError, read_corpus


@pytest.fixture
def corpus(tmp_path):
    for name in ("b.pdf", "a.png"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "a.png.gt.txt").write_text("one page")
    (tmp_path / "b.pdf.p2.gt.txt").write_text("second page")
    return tmp_path


def test_texts_beside_the_files_are_enough(corpus):
    assert [(known.file, known.truths) for known in read_corpus(corpus)] == [
        ("a.png", {1: "one page"}),
        ("b.pdf", {2: "second page"}),
    ]
    assert [known.file for known in read_corpus(corpus, only="b")] == ["b.pdf"]


def test_a_manifest_adds_what_is_expected_and_documents_without_texts(corpus):
    (corpus / "c.pdf").write_bytes(b"x")
    lines = [
        {"file": "c.pdf", "class": "bad", "expect": {"outcome": "rejected", "also_acceptable": ["partial"]}},
        {"file": "b.pdf", "class": "scan", "expect": {"outcome": "ok", "pages": 2, "blank_pages": [1]}, "notes": "x"},
        {"file": None, "class": "recipe"},
    ]
    (corpus / "manifest.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    bad, scan = read_corpus(corpus)
    assert (bad.kind, bad.expect.outcome, bad.expect.also_acceptable, bad.truths) == (
        "bad",
        "rejected",
        ["partial"],
        {},
    )
    assert (scan.expect.pages, scan.expect.blank_pages, scan.truths) == (2, [1], {2: "second page"})


@pytest.mark.parametrize(
    ("manifest", "complaint"),
    [
        ("not JSON", "line 1"),
        ('{"file": "a.png"}\n{"file": "a.png", "expect": {"pages": "many"}}', r"line 2: expect\.pages"),
        ('{"file": "gone.pdf"}', r"lacks gone\.pdf"),
    ],
)
def test_a_manifest_that_cannot_be_understood_is_refused_with_its_line(corpus, manifest, complaint):
    (corpus / "manifest.jsonl").write_text(manifest)
    with pytest.raises(CorpusError, match=complaint):
        read_corpus(corpus)


def test_a_folder_without_texts_is_no_corpus(tmp_path):
    (tmp_path / "a.png").write_bytes(b"x")
    with pytest.raises(CorpusError, match=r"NAME\.gt\.txt"):
        read_corpus(tmp_path)
