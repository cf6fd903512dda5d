"""What is learnt of the memory that engines take, over real rows."""

from dataclasses import replace
from datetime import timedelta

import pytest

from pipeline.adapters.engine_memory import PostgresEngineMemory
from pipeline.domain.batches import BatchBound, Misfit
from pipeline.domain.document import PageClass

SMALL = BatchBound(pages=2, pixels=8_000_000, page_pixels=None)
OF = ("engine", "1", "cuda 100", PageClass.SCAN)


MISFIT = Misfit(engine="engine", revision="1", device="cuda 100", page_class=PageClass.SCAN)


@pytest.fixture
def memory(rows):
    return PostgresEngineMemory(rows.engine, keep_bounds=timedelta(minutes=1))


def test_what_sufficed_is_kept_for_engine_revision_device_and_class(memory):
    assert memory.bound(*OF) is None
    memory.learn(*OF, lowered=SMALL, correction=None)
    assert memory.bound(*OF) == SMALL
    others = [("other", *OF[1:]), ("engine", "2", *OF[2:]), ("engine", "1", "cuda 200", OF[3])]
    assert [memory.bound(*other) for other in (*others, (*OF[:3], PageClass.MIXED))] == [None] * 4


def test_a_bound_is_kept_for_a_while_and_a_correction_leaves_it_alone(memory, rows):
    memory.learn(*OF, lowered=SMALL, correction=None)
    memory.learn(*OF, lowered=None, correction=1.5)
    assert (memory.bound(*OF), memory.correction("engine")) == (SMALL, 1.5)
    rows.sql("UPDATE engine_memory SET lowered_at = lowered_at - interval '2 minutes'")
    assert (memory.bound(*OF), memory.correction("engine")) == (None, 1.5)


def test_what_read_instead_is_kept_for_a_while_for_engine_revision_device_and_class(memory, rows):
    memory.learn(*OF, lowered=SMALL, correction=1.5)
    assert memory.other_engine(MISFIT) is None
    memory.learn_other_engine(MISFIT, "other")
    assert (memory.other_engine(MISFIT), memory.bound(*OF), memory.correction("engine")) == ("other", SMALL, 1.5)
    for other in ({"engine": "other"}, {"revision": "2"}, {"device": "cpu"}, {"page_class": PageClass.MIXED}):
        assert memory.other_engine(replace(MISFIT, **other)) is None
    rows.sql("UPDATE engine_memory SET other_at = other_at - interval '2 minutes'")
    assert memory.other_engine(MISFIT) is None


def test_the_last_correction_of_an_engine_counts(memory):
    assert memory.correction("engine") == 1.0
    memory.learn(*OF, lowered=None, correction=1.5)
    memory.learn("engine", "2", "cuda 100", PageClass.MIXED, lowered=None, correction=1.25)
    assert memory.correction("engine") == 1.25
    assert memory.correction("other") == 1.0
