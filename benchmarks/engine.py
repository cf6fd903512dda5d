"""What the CPU engine costs and how well it reads, in each runtime: pages with known text, one process, one thread.

    .venv/bin/python benchmarks/engine.py [FOLDER]

FOLDER holds images or one-page PDFs, each beside a `NAME.gt.txt` (or `NAME.EXT.gt.txt`) with its text; default is
`../shared/synthetic`, else the sample document, without known text. Errors are wrong characters in percent, white space
apart: in the order that the engine finds lines in, and in reading order. Memory is the peak of the whole process.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SYNTHETIC = ROOT.parent / "shared" / "synthetic"
SAMPLE = ROOT / "samples" / "harbour-ledger.pdf"
SUFFIXES = {".png", ".jpg", ".jp2", ".tif", ".tiff", ".webp", ".pdf"}


def known_text(path: Path) -> str | None:
    for beside in (path.with_suffix(".gt.txt"), path.with_name(path.name + ".gt.txt")):
        if beside.exists():
            return beside.read_text(encoding="utf-8")
    return None


def documents(folder: Path | None) -> list[Path]:
    chosen = folder or (SYNTHETIC if SYNTHETIC.exists() else None)
    if chosen is None:
        return [SAMPLE]
    return sorted(path for path in chosen.iterdir() if path.suffix in SUFFIXES and known_text(path) is not None)


def error_percent(found: str, truth: str | None) -> float | None:
    from rapidfuzz.distance import Levenshtein

    if truth is None:
        return None
    found, truth = ("".join(unicodedata.normalize("NFKC", text).split()) for text in (found, truth))
    return 100 * Levenshtein.distance(found, truth) / max(1, len(truth))


def measure(runtime: str, paths: list[Path]) -> Iterator[dict[str, object]]:
    from pipeline.adapters.documents.opener import FileOpener
    from pipeline.domain.reading_order import order
    from pipeline.engines.ppocr.runtime import Runtime
    from pipeline.engines.rapidocr import RapidOcrEngine
    from pipeline.settings import LimitSettings

    started = time.perf_counter()
    engine = RapidOcrEngine(runtimes=[Runtime(runtime)])
    engine.warm_up()
    yield {"revision": engine.identity.revision, "warm_up_s": time.perf_counter() - started}
    opener = FileOpener(LimitSettings().for_documents())
    for path in paths:
        with opener.open(path) as document:
            for number in range(1, document.page_count + 1):
                image = document.render(number)
                before = time.process_time()
                [found] = engine.read([image])
                spent = time.process_time() - before
                blocks = order(found.lines, image.width_px, image.height_px)
                truth = known_text(path)
                yield {
                    "page": path.name if document.page_count == 1 else f"{path.name} {number}",
                    "lines": len(found.lines),
                    "raw": error_percent("\n".join(line.text for line in found.lines), truth),
                    "ordered": error_percent("\n".join(block.text for block in blocks), truth),
                    "cpu_s": spent,
                }
    yield {"peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def show(runtime: str, records: list[dict[str, object]]) -> None:
    head, *pages, foot = records
    print(f"\n{head['revision']}: ready after {head['warm_up_s']:.1f} s, peak {foot['peak_mb']:.0f} MB")
    print(f"{'page':36} {'lines':>5} {'raw %':>7} {'ordered %':>9} {'CPU s':>6}")
    for page in pages:
        raw, ordered = ("" if page[key] is None else f"{page[key]:.2f}" for key in ("raw", "ordered"))
        print(f"{page['page']:36} {page['lines']:5} {raw:>7} {ordered:>9} {page['cpu_s']:6.2f}")
    spent = [float(str(page["cpu_s"])) for page in pages]
    print(f"{runtime + ', mean':36} {'':5} {'':7} {'':9} {sum(spent) / len(spent):6.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="pages beside their texts")
    parser.add_argument("--runtime", help="measure this one, in this process, and print a JSON object a line")
    options = parser.parse_args()
    if options.runtime:
        for record in measure(options.runtime, documents(options.folder)):
            print(json.dumps(record), flush=True)
        return 0
    for runtime in ("openvino", "onnxruntime"):
        # A process for each: peak memory is that of a process.
        command = [sys.executable, __file__, "--runtime", runtime, *([str(options.folder)] if options.folder else [])]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            print(f"\n{runtime}: could not be measured")
        else:
            show(runtime, [json.loads(line) for line in done.stdout.splitlines()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
