"""`muniment evaluate` as its user sees it: tables, a saved evaluation, and an exit code when results became worse."""

import json

import pytest

from tests.acceptance.test_run import environment, home, muniment
from tests.system import scan

__all__ = ["environment", "home"]


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    scan(folder, 2, name="a.pdf")
    # The simulated engine reads the number of the page from it.
    (folder / "a.pdf.p1.gt.txt").write_text("page 1\n")
    (folder / "a.pdf.p2.gt.txt").write_text("page 2\n")
    return folder


def test_results_that_became_worse_end_it_with_a_code_of_its_own(environment, corpus, tmp_path):
    saved = tmp_path / "before.json"
    first = muniment(environment, "evaluate", "--corpus", corpus, "--save", saved)
    assert first.returncode == 0, first.stderr
    assert "| all | 2 | 0.00% | 0.00% | 0.00% |" in first.stdout
    assert [page["cer"] for page in json.loads(saved.read_text())["pages"]] == [0, 0]

    (corpus / "a.pdf.p2.gt.txt").write_text("page two hundred\n")
    second = muniment(environment, "evaluate", "--corpus", corpus, "--against", saved)
    assert second.returncode == 7, second.stderr
    assert "worse: all: CER 0.0000 -> " in second.stderr


def test_what_is_no_corpus_is_wrong_usage(environment, tmp_path):
    ended = muniment(environment, "evaluate", "--corpus", tmp_path)
    assert ended.returncode == 2
    assert "no document with a text beside it" in ended.stderr
