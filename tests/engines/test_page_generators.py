"""The engines whose models write whole pages, over tiny models of the same classes that say what they were taught.

They see nothing: what is tested is all around that, which is the code that a published model goes through, too.
"""

import gc
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pipeline.adapters.baselines import read_baseline
from pipeline.cli import cli
from pipeline.domain.errors import ErrorCode, PipelineError, RecognitionFailed
from pipeline.domain.memory import DType, plan_memory
from pipeline.engines.plugins import absent
from pipeline.engines.registry import check, create, memory_of
from pipeline.ports.devices import PagesFinished
from pipeline.ports.documents import PageImage
from pipeline.ports.engines import GeneratingRecogniser, Generation, Reads

if missing := absent("torch", "transformers"):
    pytest.skip(f"{', '.join(missing)} not installed (extra torch)", allow_module_level=True)

import torch

from tests.device_runs import chunk, store, supervisor
from tests.engines.test_memory_of_models import Live, cached
from tests.page_models import END, IMAGE, PAGE, built, token
from tests.system import scan
from tests.torch_marks import IN_TORCH
from workers.engines import generators
from workers.engines.generating import Bounds, generate
from workers.engines.model_folder import digest_of
from workers.engines.page_models import load

pytestmark = IN_TORCH
torch.set_num_threads(1)
NAMES = ("deepseek-ocr2", "qianfan-ocr", "unlimited-ocr")
TEXT = "# Swan"
LOOP = "uvxyzqrst"
ALONE = "!"
"""Ends the prompt for a page alone, where that is to be told from the one for several."""


def spelled(text: str) -> list[int]:
    return [token(character) for character in text]


CHAINS = {
    ".": [*spelled(TEXT), END],
    "?": [*spelled(LOOP), token(LOOP[0])],
    ":": [PAGE, *spelled("ef<PAGE>hi"), END],
    ALONE: [*spelled("klm"), token("\n"), END],
}
"""By the last character of the prompt."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    return {name: built(name, tmp_path_factory.mktemp(name), CHAINS) for name in NAMES}


def made(folders, name, **options) -> GeneratingRecogniser:
    engine = create(name, {"model": str(folders[name]), "max_new_tokens": 400} | options)
    assert isinstance(engine, GeneratingRecogniser)
    return engine


def page(number: int, height: int = 400, width: int = 300) -> PageImage:
    return PageImage(number=number, pixels=np.full((height, width, 3), 200, np.uint8), dpi=100)


def texts(pages):
    return [(read.number, [block.text for block in read.blocks], [flag.name for flag in read.flags]) for read in pages]


@pytest.mark.parametrize("name", NAMES)
def test_pages_of_several_sizes_are_read_together_and_come_back_in_their_order(folders, name):
    engine = made(folders, name, tiles=2)
    engine.warm_up()
    read = list(engine.read([page(3), page(7, 1300, 900)]))
    assert texts(read) == [(3, ["Swan"], []), (7, ["Swan"], [])]
    # A sequence that comes back as one page is read again page by page, and each has generated its share of it.
    once_more = len(TEXT) // 2 if engine.reads is Reads.SEQUENCE else 0
    assert [(one.blocks[0].kind.value, one.tokens) for one in read] == [("heading", len(TEXT) + once_more)] * 2
    assert all(line.confidence > 0.9 for one in read for line in one.blocks[0].lines)
    assert engine.identity.revision.startswith(f"{folders[name].name}.{digest_of(folders[name])[:12]}-torch-")
    assert engine.reads is (Reads.SEQUENCE if name == "unlimited-ocr" else Reads.BATCH)


@pytest.mark.parametrize("name", NAMES)
def test_tokens_that_run_out_are_an_outcome_of_their_own(folders, name):
    engine = made(folders, name, max_new_tokens=4)
    [read] = engine.read([page(1)])
    assert (texts([read]), read.tokens) == ([(1, [TEXT[2:4]], ["truncated"])], 4)
    # Fewer, where the device has not room for them.
    engine.generating(Generation(page_tokens=3))
    assert [read.tokens for read in engine.read([page(1)])] == [3]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_goes_round_in_circles_is_stopped_and_what_it_said_is_kept(folders, name):
    heard = []
    engine = made(folders, name, max_new_tokens=4000, prompt="Again?", no_repeat_ngram=0)
    engine.generating(Generation(progressed=heard.append))
    [read] = engine.read([page(1)])
    assert texts([read]) == [(1, [LOOP], ["repetition"])]
    # Far from all that it may say, and it was heard of on the way.
    assert heard == list(range(64, read.tokens + 1, 64))
    assert read.tokens < 600


def test_of_two_sequences_the_one_in_a_loop_is_stopped_and_the_other_is_whole(folders):
    options = generators.QIANFAN_OCR.told({"model": str(folders["qianfan-ocr"]), "prompt": "Again?"})
    model = load("qianfan-ocr", folders["qianfan-ocr"], options, torch.device("cpu"), torch.float32)
    looping = model.asked([page(1).pixels], 0)
    ending = replace(looping, ids=torch.tensor([*looping.ids[:-1].tolist(), token(".")]))
    bounds = Bounds(max_new_tokens=2000, no_repeat_ngram=0, no_repeat_window=1)
    circles, whole = generate(model, [looping, ending], bounds, lambda _: None)
    assert (circles.is_whole, circles.tokens < 600, circles.said.text[: 2 * len(LOOP)]) == (False, True, 2 * LOOP)
    assert (whole.is_whole, whole.tokens, whole.said.text) == (True, len(TEXT), TEXT)
    never_again = replace(bounds, max_new_tokens=40, no_repeat_ngram=4, no_repeat_window=128)
    [other] = generate(model, [looping], never_again, lambda _: None)
    assert other.said.text.startswith(LOOP + LOOP[:3])
    assert LOOP + LOOP[:4] not in other.said.text


def test_pages_of_one_sequence_are_bound_to_those_that_were_shown(folders):
    engine = made(folders, "unlimited-ocr", sequence_prompt="Pages:", prompt=f"A page{ALONE}")
    assert texts(engine.read([page(4), page(5)])) == [(4, ["ef"], []), (5, ["hi"], [])]


def test_a_sequence_with_another_number_of_pages_is_read_again_page_by_page(folders):
    engine = made(folders, "unlimited-ocr", sequence_prompt="Pages:", prompt=f"A page{ALONE}")
    read = list(engine.read([page(4), page(5), page(6)]))
    assert texts(read) == [(number, ["klm"], []) for number in (4, 5, 6)]
    # Its own, and a third of what was generated in vain.
    assert [one.tokens for one in read] == [len("klm\n") + len(CHAINS[":"][:-1]) // 3] * 3
    bad = PageImage(number=5, pixels=np.zeros((60, 60, 5), np.uint8), dpi=100)
    results = engine.read([bad])
    with pytest.raises(RecognitionFailed, match="page 5") as caught:
        next(results)
    assert caught.value.code is ErrorCode.ENGINE_FAILED


@pytest.mark.parametrize("name", NAMES)
def test_the_cache_is_what_the_plan_says(folders, name):
    engine = made(folders, name, prompt="Again?", no_repeat_ngram=0, max_new_tokens=192, tiles=0)
    engine.warm_up()
    sizes = []
    model = engine._loaded._model.model
    with model.register_forward_hook(lambda _model, _given, made: sizes.append(cached(made.cache))) as _:
        [read] = engine.read([page(1)])
    planned = memory_of(name, {"model": str(folders[name]), "tiles": 0, "max_new_tokens": read.tokens})
    work = planned.alone if name == "unlimited-ocr" else planned.together
    # In 32 bit here, in 16 on the accelerators that are planned for; of a batch of one.
    expected = 2 * plan_memory(planned.config, planned.dtype, type(work)(output_tokens=read.tokens)).cache_bytes
    assert sizes[-1] == pytest.approx(expected, rel=0.1)
    assert (sizes[-1] == sizes[-100]) is (name == "unlimited-ocr")


@pytest.mark.parametrize(("name", "count"), [("deepseek-ocr2", 2), ("qianfan-ocr", 3), ("unlimited-ocr", 4)])
def test_what_is_read_together_takes_what_was_planned_for_it(folders, name, count):
    engine = made(folders, name, max_new_tokens=60, tiles=3)
    engine.warm_up()
    options = {"model": str(folders[name]), "max_new_tokens": 60, "tiles": 3}
    planned = replace(memory_of(name, options), dtype=DType.FLOAT32)
    pages = [page(number, 1754, 1240) for number in range(count)]
    gc.collect()
    with Live() as live:
        if name == "unlimited-ocr":
            engine._loaded.sequence(pages, Generation())
        else:
            engine._loaded.batch(pages, Generation())
    expected = planned.planned_bytes(pages=count, pixels=1) - planned.weights_bytes
    # Pixels of pages that wait on the host are counted here, too.
    assert 0.95 <= expected / live.peak <= 1.8


@pytest.mark.parametrize(("asked", "tokens"), [(None, 1121), (1120, 1121), (1119, 977), (544, 545), (400, 257)])
def test_a_page_is_seen_in_as_many_tokens_as_the_budget_has(folders, asked, tokens):
    options = generators.DEEPSEEK_OCR2.told({"model": str(folders["deepseek-ocr2"])})
    model = load("deepseek-ocr2", folders["deepseek-ocr2"], options, torch.device("cpu"), torch.float32)
    a4 = np.full((2339, 1654, 3), 255, np.uint8)
    prompt = model.asked([a4], generators.most_tiles(options, asked))
    assert int((prompt.ids == IMAGE).sum()) <= tokens
    if tokens in (257, 545, 1121):
        assert int((prompt.ids == IMAGE).sum()) == tokens


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"model": "nobody/has-this"}, "nobody/has-this is not on this host: set the option `model` to a folder"),
        ({"model": "nobody/has-this", "revision": "0" * 40}, "not in the cache of this host: fetch it there once"),
        ({"model": "/nowhere"}, "/nowhere is not the folder of a model"),
        ({"beads": 3}, "its options are not its own: beads"),
    ],
)
def test_without_its_model_it_says_what_to_do(name, options, why):
    with pytest.raises(PipelineError, match=why) as caught:
        check(name, options)
    assert caught.value.code is ErrorCode.ENGINE_UNAVAILABLE


def test_files_that_are_others_than_meant_are_not_loaded(folders):
    name = "qianfan-ocr"
    digest = digest_of(folders[name])
    made(folders, name, digest=digest[:12]).warm_up()
    with pytest.raises(PipelineError, match=f"have the digest {digest}, not {'0' * 64}") as caught:
        made(folders, name, digest="0" * 64).warm_up()
    assert caught.value.code is ErrorCode.ENGINE_UNAVAILABLE


def test_a_folder_of_another_model_is_not_taken_for_it(folders):
    with pytest.raises(PipelineError, match="has a model of type qianfan_ocr, and not deepseek_ocr2") as caught:
        create("deepseek-ocr2", {"model": str(folders["qianfan-ocr"])})
    assert caught.value.code is ErrorCode.ENGINE_UNAVAILABLE


def option(monkeypatch, name, value):
    monkeypatch.setenv(f"MUNIMENT_DEVICES__ENGINE_OPTIONS__QIANFAN_OCR__{name}", str(value))


def test_bench_tells_how_many_tokens_it_makes(folders, monkeypatch, tmp_path):
    option(monkeypatch, "MODEL", folders["qianfan-ocr"])
    file = tmp_path / "baseline.json"
    arguments = ["bench", "--engine", "qianfan-ocr", "--document", scan(tmp_path, 2), "--baseline", file]
    ran = CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)
    assert "tokens      " in ran.stdout
    told = read_baseline(file)
    # Each page says as much as the other.
    assert told.tokens_per_s == pytest.approx(told.pages_per_s * len(TEXT), rel=0.05)


def test_a_runner_reads_with_them(folders, environment, settings, monkeypatch, tmp_path):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    option(monkeypatch, "MODEL", folders["qianfan-ocr"])
    option(monkeypatch, "PROMPT", "Again?")
    pages = replace(chunk(store(settings, scan(tmp_path, 3)), 1, 2, 3), options={"engine": "qianfan-ocr"})
    device = supervisor(tmp_path)
    try:
        with closing(device.read(pages)) as events:
            finished = [page for event in events if isinstance(event, PagesFinished) for page in event.pages]
    finally:
        device.replace()
    assert [(page.number, page.engine, [flag.name for flag in page.flags]) for page in finished] == [
        (number, "qianfan-ocr", ["repetition"]) for number in (1, 2, 3)
    ]
    assert all(64 <= page.tokens < 600 for page in finished)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no accelerator")
@pytest.mark.parametrize("name", NAMES)
def test_on_an_accelerator_it_says_the_same_and_gives_its_memory_back(folders, name):
    engine = made(folders, name)
    engine.warm_up()
    before = engine.gauge.read().held_bytes
    assert texts(engine.read([page(1), page(2)])) == [(1, ["Swan"], []), (2, ["Swan"], [])]
    engine.gauge.give_back()
    assert engine.gauge.read().held_bytes == before
