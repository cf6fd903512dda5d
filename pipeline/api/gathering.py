"""Answers many questions of one kind with few reads: what is asked during a read is answered by the next, together.

Nobody is told anything older than his question, and nobody waits longer than for two reads and the rest between them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from starlette.concurrency import run_in_threadpool

Question = TypeVar("Question")
Answer = TypeVar("Answer")
_AT_ONCE = 500


def in_thread(
    read: Callable[[Sequence[Question]], Sequence[Answer]],
) -> Callable[[Sequence[Question]], Awaitable[Sequence[Answer]]]:
    """Return a read that blocks as one that does not."""

    async def ask(questions: Sequence[Question]) -> Sequence[Answer]:
        return await run_in_threadpool(read, questions)

    return ask


class Gathered(Generic[Question, Answer]):
    """A read that is shared. Lives in one event loop."""

    def __init__(
        self, read: Callable[[Sequence[Question]], Awaitable[Sequence[Answer]]], *, rest_s: float = 0.0
    ) -> None:
        """Args: read gives an answer to each question, in their order; rest_s lies between two reads.

        A read costs about the same for one question as for ten: where many ask, a rest lets the next answer more.
        """
        self._read = read
        self._rest_s = rest_s
        self._asked: list[tuple[Question, asyncio.Future[Answer]]] = []
        self._reading: asyncio.Task[None] | None = None

    async def ask(self, question: Question) -> Answer:
        """Return the answer. Raises: what the read raises."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked.append((question, answer))
        if self._reading is None:
            self._reading = asyncio.create_task(self._until_all_are_answered())
        return await answer

    async def _until_all_are_answered(self) -> None:
        try:
            while self._asked:
                now, self._asked = self._asked[:_AT_ONCE], self._asked[_AT_ONCE:]
                await self._answer(now)
                await asyncio.sleep(self._rest_s)
        finally:
            self._reading = None

    async def _answer(self, asked: list[tuple[Question, asyncio.Future[Answer]]]) -> None:
        try:
            found = await self._read([question for question, _ in asked])
        except Exception as error:
            for _, answer in asked:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (_, answer), value in zip(asked, found, strict=True):
            # Whoever asked may have gone.
            if not answer.done():
                answer.set_result(value)
