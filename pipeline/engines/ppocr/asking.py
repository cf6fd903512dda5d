"""Reading a page as a dialogue: what is done around the networks asks, and whoever runs them answers.

So pages are read side by side, and what they ask at the same time goes through a network in one batch, while the code
around it reads as if there were one page. An asking is a generator: it yields a `Question`, is sent an answer for each
of its images, and returns what it found out.
"""

from collections import defaultdict
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from pipeline.domain.errors import RecognitionFailed
from pipeline.engines.failures import failure_of
from pipeline.engines.ppocr.runtime import Answer, FloatArray, Net, Nets
from pipeline.ports.documents import Pixels

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """What a network makes of some images, each (3, height, width)."""

    net: Net
    images: Sequence[FloatArray]


Asking = Generator[Question, Any, T]


def answer(askings: Sequence[Asking[T]], nets: Nets, *, most_pixels: int) -> list[T | RecognitionFailed]:
    """Return what each asking comes to, or why it failed; no failure keeps pixels or tensors alive.

    Those fail together whose images were in a batch that a network failed on: it may be due to any of them.

    Args: most_pixels bounds what goes through a network at once; an image always goes, if need be alone.
    Raises: Transient (`device_broken`).
    """
    outcomes: list[T | RecognitionFailed | None] = [None] * len(askings)
    questions: dict[int, Question] = {}

    def advance(index: int, answers: Sequence[Answer] | None) -> None:
        try:
            questions[index] = askings[index].send(answers)
        except StopIteration as done:
            outcomes[index] = done.value
        except Exception as error:
            outcomes[index] = failure_of(error)

    for index in range(len(askings)):
        advance(index, None)
    while questions:
        answers = _answers(questions, nets, most_pixels)
        questions.clear()
        for index, own in answers.items():
            if isinstance(own, RecognitionFailed):
                askings[index].close()
                outcomes[index] = own
            else:
                advance(index, own)
    return [outcome for outcome in outcomes if outcome is not None]


def normalised(pixels: Pixels) -> FloatArray:
    """Return an image as the networks take it."""
    bgr = pixels[:, :, ::-1].astype(np.float32) / 127.5 - 1.0
    return np.ascontiguousarray(bgr.transpose(2, 0, 1))


def _answers(
    questions: dict[int, Question], nets: Nets, most_pixels: int
) -> dict[int, list[Answer] | RecognitionFailed]:
    """Return the answers to each question, images of one size going through their network together."""
    alike: dict[tuple[Net, tuple[int, ...]], list[tuple[int, int]]] = defaultdict(list)
    for index, question in questions.items():
        for place, image in enumerate(question.images):
            alike[question.net, image.shape].append((index, place))
    found: dict[tuple[int, int], Answer] = {}
    failures: dict[int, RecognitionFailed] = {}
    for (net, (_, height, width)), places in alike.items():
        count = max(1, most_pixels // (height * width))
        for start in range(0, len(places), count):
            together = places[start : start + count]
            images = [questions[index].images[place] for index, place in together]
            try:
                found.update(zip(together, nets.run(net, np.stack(images)), strict=True))
            except Exception as error:
                failures.update({index: failure_of(error) for index, _ in together})
    return {
        index: failures.get(index) or [found[index, place] for place in range(len(question.images))]
        for index, question in questions.items()
    }
