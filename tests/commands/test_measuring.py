"""`bench` and `soak` over the simulated engine, whose time and memory are known."""

import json

import pytest
from click.testing import CliRunner
from PIL import Image

from pipeline.adapters.baselines import NoBaseline, read_baseline
from pipeline.cli import cli
from pipeline.domain.document import Lane
from pipeline.settings import Settings
from tests.device_runs import MODEL_BYTES, PAGE_BYTES, accelerator
from tests.system import scan
from workers.wiring import Wiring

ENGINE = ("--engine", "simulated")


@pytest.fixture
def simulate(monkeypatch, tmp_path):
    def told(**simulation):
        told = {"folder": str(tmp_path), "accelerator": accelerator(), **simulation}
        monkeypatch.setenv("MUNIMENT_SIMULATED", json.dumps(told))

    return told


def muniment(*arguments):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)


def test_bench_measures_time_and_memory_and_planning_counts_with_it(simulate, tmp_path):
    simulate(page_ms=20)
    file = tmp_path / "baseline.json"
    ran = muniment("bench", *ENGINE, "--document", scan(tmp_path, 5), "--repeat", 2, "--baseline", file, "--json")
    told = json.loads(ran.stdout)
    assert (ran.exit_code, told["pages"], told["device"]) == (0, 10, "cuda:0")
    assert 20 <= told["page_ms_p50"] <= told["page_ms_p95"] <= told["page_ms_p99"]
    assert told["pages_per_s"] <= 50
    assert (told["baseline_bytes"], told["peak_bytes"], told["after_bytes"]) == (
        MODEL_BYTES,
        MODEL_BYTES + PAGE_BYTES,
        MODEL_BYTES,
    )
    baseline = read_baseline(file)
    assert baseline.a4_page_ms == told["a4_page_ms"] > 20  # its pages are smaller than A4
    settings = Settings(
        chunks={"baselines": [file], "page_ms": 7},
        devices={"accelerator_engine": "simulated"},
        database={"url": "postgresql+psycopg://nobody@localhost/none"},
        objects={"endpoint": "localhost:1"},
    )
    page_ms_of = Wiring(settings, actor="test").split.page_ms_of
    assert [page_ms_of(Lane.GPU, None), page_ms_of(Lane.CPU, None), page_ms_of(Lane.CPU, "simulated")] == [
        baseline.a4_page_ms,
        7,
        baseline.a4_page_ms,
    ]


def test_bench_says_it_to_people_too(simulate, tmp_path):
    simulate()
    told = muniment("bench", *ENGINE, "--document", scan(tmp_path, 2)).stdout
    assert "engine      simulated 1 on cuda:0" in told
    assert "memory      warm 300 MiB, peak 400 MiB, after 300 MiB" in told


def test_a_document_that_no_engine_reads_is_refused(simulate, tmp_path):
    simulate(faults={"1": "fail"})
    ran = muniment("bench", *ENGINE, "--document", scan(tmp_path, 1))
    assert ran.exit_code == 1
    assert "no page in it that an engine reads" in ran.output


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": 0}', '{"version": 1, "engine": "x"}'])
def test_what_is_no_baseline_is_refused(tmp_path, content):
    file = tmp_path / "baseline.json"
    file.write_text(content)
    with pytest.raises(NoBaseline, match=r"baseline\.json is"):
        read_baseline(file)


def test_soak_tells_what_grows_and_draws_it(simulate, tmp_path):
    simulate(faults=dict.fromkeys(range(1, 7), "leak"), accelerator=accelerator(capacity_bytes=10**11))
    plot = tmp_path / "soak.png"
    ran = muniment(
        "soak", *ENGINE, "--document", scan(tmp_path, 6), "--chunks", 20, "--pages", 3, "--plot", plot, "--json"
    )
    *chunks, trends = map(json.loads, ran.stdout.splitlines())
    assert (ran.exit_code, len(chunks)) == (7, 20)
    assert trends["bytes_per_chunk"]["slope"] == pytest.approx(3 * PAGE_BYTES)
    with Image.open(plot) as picture:
        assert picture.format == "PNG"
        assert picture.size[0] > 500


def test_soak_is_content_with_what_does_not_grow(simulate, tmp_path):
    simulate()
    ran = muniment("soak", *ENGINE, "--document", scan(tmp_path, 4), "--chunks", 10)
    assert ran.exit_code == 0
    assert "+0.00 KiB a chunk (+0.00 to +0.00): not shown to grow" in ran.stdout
