"""Questions that share a read."""

import asyncio
import threading

import pytest

from pipeline.api.gathering import Gathered, in_thread


class Shelf:
    """Reads when it is let, and remembers what was asked of it each time."""

    def __init__(self):
        self.reads = []
        self.let = threading.Semaphore(0)

    def __call__(self, questions):
        self.reads.append(list(questions))
        assert self.let.acquire(timeout=10)
        if "broken" in questions:
            raise LookupError("broken")
        return [question.upper() for question in questions]


async def asked(gathered, *questions):
    tasks = [asyncio.create_task(gathered.ask(question)) for question in questions]
    await asyncio.sleep(0)
    return tasks


async def begun(shelf, reads):
    async with asyncio.timeout(10):
        while len(shelf.reads) < reads:
            await asyncio.sleep(0)


def test_what_is_asked_during_a_read_is_answered_by_the_next_together():
    async def run():
        shelf = Shelf()
        gathered = Gathered(in_thread(shelf))
        first = await asked(gathered, "a")
        await begun(shelf, 1)
        rest = await asked(gathered, "b", "c", "b")
        shelf.let.release(2)
        return shelf.reads, await asyncio.gather(*first, *rest)

    reads, answers = asyncio.run(run())
    assert reads == [["a"], ["b", "c", "b"]]
    assert answers == ["A", "B", "C", "B"]


def test_reads_may_rest_between_two_so_that_the_next_answers_more():
    async def run():
        shelf = Shelf()
        gathered = Gathered(in_thread(shelf), rest_s=0.02)
        [first] = await asked(gathered, "a")
        await begun(shelf, 1)
        during = await asked(gathered, "b")
        shelf.let.release(2)
        await first
        after = await asked(gathered, "c")
        return shelf.reads, await asyncio.gather(*during, *after)

    reads, answers = asyncio.run(run())
    assert reads == [["a"], ["b", "c"]]
    assert answers == ["B", "C"]


def test_an_error_is_raised_where_it_was_asked_and_the_next_read_goes_on():
    async def run():
        shelf = Shelf()
        shelf.let.release(2)
        gathered = Gathered(in_thread(shelf))
        with pytest.raises(LookupError):
            await gathered.ask("broken")
        return await gathered.ask("a")

    assert asyncio.run(run()) == "A"


def test_who_asks_and_goes_away_keeps_nobody_from_his_answer():
    async def run():
        shelf = Shelf()
        gathered = Gathered(in_thread(shelf))
        gone, stays = await asked(gathered, "a", "b")
        await begun(shelf, 1)
        gone.cancel()
        shelf.let.release()
        return await stays

    assert asyncio.run(run()) == "B"
