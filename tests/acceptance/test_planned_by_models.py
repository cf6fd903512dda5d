"""Engines whose models write whole pages, in a whole system of which only the device's host has the model."""

import pytest

from pipeline.domain.batches import BatchBound
from pipeline.domain.memory import DoesNotFit
from pipeline.domain.states import JobState
from pipeline.engines.plugins import absent
from pipeline.engines.registry import memory_of

if missing := absent("torch", "transformers"):
    pytest.skip(f"{', '.join(missing)} not installed (extra torch)", allow_module_level=True)

from tests.page_models import END, built, token
from tests.system import scan
from tests.torch_marks import IN_TORCH
from tests.waiting import eventually

pytestmark = IN_TORCH
TEXT = "# Swan"
NAME = "cuda:0"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    says = {".": [*map(token, TEXT), END]}
    return {name: built(name, tmp_path_factory.mktemp(name), says) for name in ("qianfan-ocr", "unlimited-ocr")}


def bytes_for(options, *, pages):
    """Return the size of a device on which the engine reads so many pages together, and no more."""
    model = memory_of("qianfan-ocr", options)
    most = model.planned_bytes(pages=options["batch_pages"], pixels=1)
    return next(
        size for size in range(most // 10, 2 * most, 4096) if (bound := fitting(model, size)) and bound.pages == pages
    )


def fitting(model, size) -> BatchBound | None:
    try:
        return model.bound(size)
    except DoesNotFit:
        return None


def test_chunks_follow_from_the_memory_of_a_model_that_the_planner_does_not_have(system, models, tmp_path):
    options = {"model": str(models["qianfan-ocr"]), "batch_pages": 4, "tiles": 0, "max_new_tokens": 400}
    told = {
        f"MUNIMENT_DEVICES__ENGINE_OPTIONS__QIANFAN_OCR__{key.upper()}": str(value) for key, value in options.items()
    }
    system.environment["MUNIMENT_DEVICES__ACCELERATOR_ENGINE"] = "qianfan-ocr"
    system.start(slots=0)
    system.spawn(
        "device", "workers.worker", "--device", NAME,
        MUNIMENT_DEVICE_BYTES=str(bytes_for(options, pages=3)),
        MUNIMENT_DEVICES__ENGINE_OPTIONS__UNLIMITED_OCR__MODEL=str(models["unlimited-ocr"]),
        **told,
    )  # fmt: skip
    eventually(lambda: system.rows.sql("SELECT FROM device WHERE needs IS NOT NULL"), within=120)

    fits = system.submit(scan(tmp_path, 9), options={"lane": "gpu"})
    too_large = system.submit(scan(tmp_path, 1, name="large.pdf"), options={"lane": "gpu", "engine": "unlimited-ocr"})
    status = system.finished(too_large)
    assert (status.state, status.error_code) == (JobState.REJECTED, "does_not_fit")
    assert "needs" in status.error_detail
    assert system.finished(fits, within=200).state is JobState.SUCCEEDED
    # By time they would have five and four, and four where there is room for all that the engine reads together.
    chunks = system.rows.sql("SELECT last_page - first_page + 1 AS pages FROM chunk ORDER BY ordinal")
    assert [chunk.pages for chunk in chunks] == [3, 3, 3]
    pages = system.rows.sql("SELECT engine, outcome FROM page ORDER BY number")
    assert [tuple(page) for page in pages] == [("qianfan-ocr", "recognised")] * 9
    assert {page["text"] for page in system.document(fits)["pages"]} == {"Swan"}
    attempts = system.rows.sql("SELECT tokens, planned_bytes FROM chunk_attempt ORDER BY started_at")
    assert sum(attempt.tokens for attempt in attempts) == 9 * len(TEXT)
    assert all(attempt.planned_bytes > 0 for attempt in attempts)
