"""The engines in torch, as the entry points of `pyproject.toml` name them. Torch is imported when one is made."""

import os
from pathlib import Path

from pipeline.domain.pixel_memory import BatchModel
from pipeline.engines.plugins import absent, ppocr_languages, weights_problem
from pipeline.engines.ppocr.weights import SMALL
from pipeline.ports.engines import EngineOptions, EnginePlugin, Reads, Recogniser
from workers.engines import generators
from workers.engines.generators import Family
from workers.engines.ppocr_batches import memory_on_accelerator


def _torch_problem(*needed: str) -> str | None:
    if missing := absent(*(needed or ("torch", "transformers", "onnx", "cv2"))):
        return f"{', '.join(missing)} not installed: pip install 'muniment[torch]', see docs/gpu.md"
    return None


def _stay_offline() -> None:
    """Keep transformers from asking a hub; it looks when it is imported."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    _tell_nothing()


def _tell_nothing() -> None:
    """Keep a hub from being told of more than the files that it is to give."""
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"


def _bounds(options: EngineOptions) -> dict[str, int]:
    """Return the options that bound a batch as numbers. Raises: ValueError."""
    if unknown := set(options) - {"batch_pages", "batch_pixels"}:
        raise ValueError(f"it has no options {', '.join(sorted(unknown))}; it has batch_pages, batch_pixels")
    return {name: int(value) for name, value in options.items()}


def _ppocr_torch(options: EngineOptions) -> Recogniser:
    _stay_offline()
    from workers.engines.ppocr_torch import PpocrTorchEngine

    return PpocrTorchEngine(**_bounds(options))


def _ppocr_memory(options: EngineOptions) -> BatchModel:
    return memory_on_accelerator(_bounds(options).get("batch_pages"))


def _transformers_problem(options: EngineOptions) -> str | None:
    if problem := _torch_problem() or weights_problem():
        return problem
    if not options.get("model"):
        return "no model: set its option `model` to the folder of one (devices.engine_options)"
    if not (Path(options["model"]) / "config.json").is_file():
        return f"{options['model']} is not the folder of a model: it has no config.json"
    return None


def _transformers(options: EngineOptions) -> Recogniser:
    _stay_offline()
    from workers.engines.line_generator import LineGeneratorEngine, LineGeneratorOptions

    return LineGeneratorEngine(LineGeneratorOptions.model_validate(options))


def _generator(family: Family) -> EnginePlugin:
    """Return the plugin of an engine whose model writes down whole pages."""

    def create(options: EngineOptions) -> Recogniser:
        from workers.engines.page_generator import PageGeneratorEngine

        return PageGeneratorEngine(family, family.told(options))

    def missing(options: EngineOptions) -> str | None:
        # Before anything of the hub is imported, which asks for it then.
        if options.get("online"):
            _tell_nothing()
        else:
            _stay_offline()
        return _torch_problem("torch", "transformers", "PIL") or family.problem(options)

    return EnginePlugin(
        name=family.name,
        reads=family.reads,
        runs_on=("cuda", "cpu"),
        needs="extra torch, and its model in a folder or in the hub's cache (options model, revision)",
        revision="the hash of the model's files",
        missing=missing,
        create=create,
        memory=family.memory,
    )


DEEPSEEK_OCR2 = _generator(generators.DEEPSEEK_OCR2)
QIANFAN_OCR = _generator(generators.QIANFAN_OCR)
UNLIMITED_OCR = _generator(generators.UNLIMITED_OCR)
PPOCR_TORCH = EnginePlugin(
    name="ppocr-torch",
    reads=Reads.BATCH,
    runs_on=("cpu", "cuda"),
    needs="extra torch, which brings the weights",
    revision=SMALL.revision,
    missing=lambda _options: _torch_problem() or weights_problem(),
    create=_ppocr_torch,
    languages=ppocr_languages,
    memory=_ppocr_memory,
)
TRANSFORMERS = EnginePlugin(
    name="transformers",
    reads=Reads.BATCH,
    runs_on=("cpu", "cuda"),
    needs="extra torch, and the folder of a model that reads single lines, such as TrOCR (option model)",
    revision="the hash of the model's files",
    missing=_transformers_problem,
    create=_transformers,
)
