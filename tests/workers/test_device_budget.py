"""What a device is given at once, from a plan, from what sufficed before, and from what chunks have shown."""

from dataclasses import dataclass, field, replace

import pytest

from pipeline.domain.batches import BatchBound
from pipeline.domain.document import PageClass
from pipeline.domain.errors import ErrorCode, Transient
from pipeline.domain.pixel_memory import BatchModel, PixelModel
from pipeline.ports.chunks import Measured, PageTask
from tests.builders import ENGINE
from workers.device_budget import DeviceBudget, class_of

MODEL = BatchModel(model=PixelModel(weights_bytes=100_000_000, bytes_per_pixel=100), pages=16)
SCAN = PageClass.SCAN


@dataclass
class InMemory:
    """LearntMemory for one engine."""

    kept: BatchBound | None = None
    factor: float = 1.0
    away: bool = False
    learnt: list = field(default_factory=list)
    others: dict = field(default_factory=dict)

    def bound(self, engine, revision, device, page_class):
        self._answer()
        return self.kept

    def correction(self, engine):
        self._answer()
        return self.factor

    def other_engine(self, misfit):
        self._answer()
        return self.others.get(misfit)

    def learn_other_engine(self, misfit, other):
        self._answer()
        self.others[misfit] = other

    def learn(self, engine, revision, device, page_class, *, lowered, correction):
        self._answer()
        self.learnt.append((lowered, correction))

    def _answer(self):
        if self.away:
            raise Transient(ErrorCode.DATABASE_UNAVAILABLE, "away")


def budget(learnt, *, total=1_000_000_000, model=MODEL):
    return DeviceBudget(device="cuda 1000000000", total_bytes=total, model_of=lambda _: model, learnt=learnt)


def test_a_plan_and_what_sufficed_are_both_kept_to():
    sufficed = BatchBound(pages=2, pixels=10_000_000)
    assert budget(InMemory(kept=sufficed)).bound(ENGINE, SCAN) == BatchBound(
        pages=2, pixels=7_800_000, page_pixels=7_800_000
    )
    assert budget(InMemory(kept=sufficed), total=None).bound(ENGINE, SCAN) == sufficed
    assert budget(InMemory(), model=None).bound(ENGINE, SCAN) is None


def test_a_device_too_small_for_the_plan_is_left_to_the_ladder():
    assert budget(InMemory(), total=150_000_000).bound(ENGINE, SCAN) is None


def test_what_a_batch_took_corrects_the_plan():
    learnt = InMemory(factor=1.0)
    measured = budget(learnt).with_plan(
        ENGINE, Measured(baseline_bytes=110, peak_bytes=600_000_110), pages=1, pixels=4_000_000
    )
    assert measured.planned_bytes == 500_000_000
    budget(learnt).learn(ENGINE, SCAN, measured, None)
    assert learnt.learnt == [(None, 1.5)]


def test_a_chunk_in_which_memory_ran_out_teaches_what_sufficed_and_no_correction():
    learnt, lowered = InMemory(), BatchBound(pages=1, pixels=5)
    measured = Measured(baseline_bytes=0, peak_bytes=600_000_000, planned_bytes=500_000_000)
    budget(learnt).learn(ENGINE, SCAN, measured, lowered)
    assert learnt.learnt == [(lowered, None)]


@pytest.mark.parametrize("missing", ["planned_bytes", "peak_bytes", "baseline_bytes"])
def test_what_was_not_measured_teaches_nothing(missing):
    measured = Measured(baseline_bytes=0, peak_bytes=600_000_000, planned_bytes=500_000_000)
    learnt = InMemory()
    budget(learnt).learn(ENGINE, SCAN, replace(measured, **{missing: None}), None)
    assert learnt.learnt == []


def test_rows_out_of_reach_are_no_trouble():
    away = budget(InMemory(away=True))
    assert away.bound(ENGINE, SCAN) is None
    away.learn(ENGINE, SCAN, Measured(), BatchBound(pages=1, pixels=5))


def test_a_chunk_is_mixed_if_one_of_its_pages_is():
    scan, mixed = (PageTask(number=1, page_class=kind) for kind in (SCAN, PageClass.MIXED))
    assert (class_of((scan, scan)), class_of((scan, mixed))) == (SCAN, PageClass.MIXED)


def test_pages_begin_with_the_engine_that_read_what_this_one_could_not_while_the_settings_name_it():
    learnt = InMemory()
    named = replace(budget(learnt), other_engine_of=lambda _: "other")
    assert named.other_engine(ENGINE, SCAN) is None
    named.learn_other_engine(named.misfit(ENGINE, SCAN), "other")
    assert named.other_engine(ENGINE, SCAN) == "other"
    assert named.other_engine(ENGINE, PageClass.MIXED) is None
    assert named.other_engine(replace(ENGINE, revision="later"), SCAN) is None
    assert replace(named, other_engine_of=lambda _: "third").other_engine(ENGINE, SCAN) is None
    assert replace(named, other_engine_of=lambda _: None).other_engine(ENGINE, SCAN) is None
    learnt.away = True
    assert named.other_engine(ENGINE, SCAN) is None
    named.learn_other_engine(named.misfit(ENGINE, SCAN), "other")
