from pipeline.adapters.objects import S3Objects
from pipeline.domain import keys
from pipeline.domain.document import Lane
from pipeline.steps.job_step import Next
from pipeline.steps.render import Render


def test_a_message_that_comes_again_renders_only_what_is_not_there_yet(rows, objects):
    store, rendered = S3Objects(objects), []

    def render(path, numbers, dpi, password):
        rendered.append((path.read_bytes(), list(numbers), dpi))
        # The last one can't be rendered.
        return [(number, b"picture") for number in list(numbers)[:-1]]

    job_id, [due] = rows.admitted(3, lane=Lane.GPU, options={"dpi": 150})
    store.put(keys.original("a" * 64), b"original", media_type="application/pdf")
    step = Render(chunks=rows.chunks, objects=store, render=render)
    assert [step(due.chunk_id, due.attempt) for _ in range(2)] == [Next.GO_ON, Next.GO_ON]
    assert rendered == [(b"original", [1, 2, 3], 150.0), (b"original", [3], 150.0)]
    there = [store.size(keys.rendered_page(job_id, due.chunk_id, number, 150)) for number in (1, 2, 3)]
    assert there == [7, 7, None]
    # What lies there for one resolution is not taken for another.
    assert store.size(keys.rendered_page(job_id, due.chunk_id, 1, None)) is None


def test_a_chunk_that_somebody_has_is_not_rendered(rows, objects):
    _, [chunk] = rows.claimed(1)
    step = Render(chunks=rows.chunks, objects=S3Objects(objects), render=lambda *_: [])
    assert step(chunk.claim.chunk_id, 1) is Next.STOP
