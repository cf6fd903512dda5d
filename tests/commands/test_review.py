"""`review` over real rows."""

import json

import pytest
from click.testing import CliRunner

from pipeline.cli import cli
from tests.adapters.test_reviews import flags, read
from tests.rows import unknown


@pytest.fixture
def asked(rows, services, database_url, monkeypatch):
    """Run the command over the test's own rows."""
    monkeypatch.setenv("MUNIMENT_DATABASE__URL", database_url)
    monkeypatch.setenv("MUNIMENT_OBJECTS__ENDPOINT", services.objects.endpoint)
    return lambda *arguments: CliRunner().invoke(cli, ["review", *arguments])


def test_it_shows_the_worst_page_first_with_job_number_and_flags(rows, asked):
    job_id = read(rows, flags(blurred=0.6), (), flags(skewed=0.9, no_text_found=None), source_name="box.pdf")
    shown = asked()
    assert shown.stdout.splitlines() == [
        f"0.90  {job_id}  page 3     box.pdf  skewed 0.90, no_text_found",
        f"0.60  {job_id}  page 1     box.pdf  blurred 0.60",
    ]
    assert shown.stderr == ""


def test_programs_get_an_object_a_page_and_go_on_where_it_ended(rows, asked):
    job_id = read(rows, flags(blurred=0.6), flags(skewed=0.9), tenant="museum", label="box-17")
    read(rows, flags(blurred=0.8), tenant="library")
    first = asked("--tenant", "museum", "--limit", "1", "--json")
    [page] = map(json.loads, first.stdout.splitlines())
    assert (page["job_id"], page["number"], page["score"], page["label"]) == (str(job_id), 2, 0.9, "box-17")
    assert page["flags"] == [{"name": "skewed", "score": 0.9}]
    assert page["cursor"] in first.stderr
    rest = asked("--job", str(job_id), "--cursor", page["cursor"], "--json", "--flag", "blurred")
    assert [json.loads(line)["number"] for line in rest.stdout.splitlines()] == [1]


@pytest.mark.parametrize(
    "arguments", [["--job", "17"], ["--cursor", "17"], ["--min-score", "2"], ["--since", "yesterday"]]
)
def test_what_can_not_be_asked_for_is_wrong_usage(asked, arguments):
    assert asked(*arguments).exit_code == 2


def test_a_job_that_is_not_there_has_no_pages(asked):
    assert (asked("--job", str(unknown())).stdout, asked("--job", str(unknown())).exit_code) == ("", 0)
