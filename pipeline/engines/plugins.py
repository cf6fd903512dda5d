"""The engines of this package that need no torch, as the entry points of `pyproject.toml` name them."""

from importlib.util import find_spec

from pydantic import TypeAdapter

from pipeline.domain.errors import Transient
from pipeline.domain.languages import Language, all_languages
from pipeline.domain.pixel_memory import BatchModel
from pipeline.domain.profiles import Profile
from pipeline.engines.ppocr.weights import SMALL, TINY, Edition, installed_folder, verified_weights
from pipeline.ports.engines import EngineOptions, EnginePlugin, Reads, Recogniser


def absent(*modules: str) -> list[str]:
    """Return those of the top-level modules that are not installed, importing none."""
    return [module for module in modules if not _is_installed(module)]


def weights_problem(edition: Edition = SMALL) -> str | None:
    """Say what is wrong with the PP-OCRv6 weights of this installation, if something is."""
    try:
        verified_weights(installed_folder(edition), edition)
    except Transient as error:
        return error.message
    return None


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ValueError:  # it was set to nothing in sys.modules
        return False


def no_options(options: EngineOptions) -> None:
    """Refuse any. Raises: ValueError."""
    if options:
        raise ValueError(f"it takes no options, got {', '.join(options)}")


def ppocr_languages(_options: EngineOptions) -> frozenset[Language]:
    """Return what the networks can spell: their alphabet lacks other scripts, and the marks of Vietnamese vowels."""
    scripts = {"Latin", "Han", "Japanese"}
    return frozenset(known for known in all_languages() if known.script in scripts and known.code != "vi")


def _ppocr_problem(edition: Edition) -> str | None:
    runtimes = absent("openvino", "onnxruntime")
    missing = absent("cv2") + (["openvino or onnxruntime"] if len(runtimes) == 2 else [])
    if missing:
        return f"{', '.join(missing)} not installed: pip install 'muniment[cpu]'"
    return weights_problem(edition)


def _rapidocr(options: EngineOptions) -> Recogniser:
    from pipeline.engines.ppocr.effort import plan_for
    from pipeline.engines.rapidocr import RapidOcrEngine

    no_options({name: value for name, value in options.items() if name not in ("profile", "skim")})
    profile = Profile(options.get("profile", Profile.BALANCED))
    return RapidOcrEngine(plan=plan_for(profile, has_tiny=weights_problem(TINY) is None, skims=_skims(options)))


def _skims(options: EngineOptions) -> bool:
    """Whether lines are to be read by the tiny recogniser first, where it is installed. Raises: ValueError."""
    return TypeAdapter(bool).validate_python(options.get("skim", True))


def _rapidocr_problem(options: EngineOptions) -> str | None:
    return _ppocr_problem(SMALL) or (weights_problem(TINY) if options.get("skim") else None)


def _ppocr_fast(options: EngineOptions) -> Recogniser:
    from pipeline.engines.ppocr.effort import TINY_ALONE
    from pipeline.engines.rapidocr import RapidOcrEngine

    no_options(options)
    return RapidOcrEngine(name=PPOCR_FAST.name, plan=TINY_ALONE)


def _tesseract_problem(options: EngineOptions) -> str | None:
    from pipeline.engines.tesseract import Installed, TesseractOptions

    try:
        asked = TesseractOptions.model_validate(options)
        Installed.found(asked.program).check(asked.languages)
    except Transient as error:
        return error.message
    except ValueError as error:
        return f"its options are not its own: {error}"
    return None


def _tesseract_languages(options: EngineOptions) -> frozenset[Language] | None:
    from pipeline.engines.tesseract import Installed, TesseractOptions

    try:
        data = Installed.found(TesseractOptions.model_validate(options).program).data
    except (Transient, ValueError):
        return None
    return frozenset(known for known in all_languages() if known.tesseract in data)


def _tesseract(options: EngineOptions) -> Recogniser:
    from pipeline.engines.tesseract import TesseractEngine, TesseractOptions

    return TesseractEngine(TesseractOptions.model_validate(options))


def _simulated(options: EngineOptions) -> Recogniser:
    from pipeline.engines.simulated import SimulatedEngine, Simulation

    no_options(options)
    return SimulatedEngine(Simulation.from_environment())


def _simulated_memory(_options: EngineOptions) -> BatchModel | None:
    from pipeline.engines.simulated import Simulation

    return Simulation.from_environment().memory()


def _openai_server_problem(options: EngineOptions) -> str | None:
    if not options.get("url"):
        return "no server: set its option `url` (devices.engine_options), such as http://gpu-1:8000/v1"
    return None


def _openai_server(options: EngineOptions) -> Recogniser:
    from pipeline.engines.openai_server import OpenAiServerEngine, ServerOptions

    return OpenAiServerEngine(ServerOptions.model_validate(options))


RAPIDOCR = EnginePlugin(
    name="rapidocr",
    reads=Reads.PAGE,
    runs_on=("cpu",),
    needs="extra cpu, which brings the weights; quicker with the extra fast",
    revision=SMALL.revision,
    missing=_rapidocr_problem,
    create=_rapidocr,
    languages=ppocr_languages,
    is_told_profile=True,
)
PPOCR_FAST = EnginePlugin(
    name="ppocr-fast",
    reads=Reads.PAGE,
    runs_on=("cpu",),
    needs="extras cpu and fast, which bring the weights",
    revision=TINY.revision,
    missing=lambda _options: _ppocr_problem(TINY),
    create=_ppocr_fast,
    languages=ppocr_languages,
)
TESSERACT = EnginePlugin(
    name="tesseract",
    reads=Reads.PAGE,
    runs_on=("cpu",),
    needs="the system's Tesseract with data for the languages asked for (option languages)",
    revision="the program's version",
    missing=_tesseract_problem,
    create=_tesseract,
    languages=_tesseract_languages,
    is_told_languages=True,
)
SIMULATED = EnginePlugin(
    name="simulated",
    reads=Reads.PAGE,
    runs_on=("cpu",),
    needs="nothing; it reads nothing, and is for drills",
    revision="1",
    missing=lambda _options: None,
    create=_simulated,
    repeats_itself=False,
    memory=_simulated_memory,
)
OPENAI_SERVER = EnginePlugin(
    name="openai-server",
    reads=Reads.BATCH,
    runs_on=("cpu",),
    needs="a server with an API like OpenAI's, such as vLLM or SGLang (option url)",
    revision="the model's name",
    missing=_openai_server_problem,
    create=_openai_server,
)
