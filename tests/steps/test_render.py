from pipeline.adapters.objects import S3Objects
from pipeline.domain import keys
from pipeline.domain.document import Lane
from pipeline.domain.profiles import Profile
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
    step = Render(chunks=rows.chunks, objects=store, render_for=lambda _: render)
    assert [step(due.chunk_id, due.attempt) for _ in range(2)] == [Next.GO_ON, Next.GO_ON]
    assert rendered == [(b"original", [1, 2, 3], 150.0), (b"original", [3], 150.0)]

    def size(number, dpi, profile):
        return store.size(keys.rendered_page(job_id, due.chunk_id, number, dpi, profile))

    assert [size(number, 150, Profile.BALANCED) for number in (1, 2, 3)] == [7, 7, None]
    # What lies there for one resolution is not taken for another; one that was asked for goes before the profile's.
    assert (size(1, None, Profile.BALANCED), size(1, 150, Profile.FAST)) == (None, 7)


def test_pages_are_rendered_as_the_profile_has_it(rows, objects):
    store = S3Objects(objects)
    job_id, [due] = rows.admitted(1, lane=Lane.GPU, options={"profile": "fast"})
    store.put(keys.original("a" * 64), b"original", media_type="application/pdf")
    render_for = {Profile.FAST: lambda *_: [(1, b"picture")]}.__getitem__
    assert Render(chunks=rows.chunks, objects=store, render_for=render_for)(due.chunk_id, due.attempt) is Next.GO_ON
    assert store.size(keys.rendered_page(job_id, due.chunk_id, 1, None, Profile.FAST)) == 7


def test_a_chunk_that_somebody_has_is_not_rendered(rows, objects):
    _, [chunk] = rows.claimed(1)
    step = Render(chunks=rows.chunks, objects=S3Objects(objects), render_for=lambda _: lambda *_: [])
    assert step(chunk.claim.chunk_id, 1) is Next.STOP
