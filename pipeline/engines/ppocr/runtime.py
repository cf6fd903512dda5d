"""What runs the two networks: the seam between all that is around them and a runtime, and two runtimes for the CPU."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.engines.ppocr.weights import Weights

CPU_DESCRIPTION = Path("/proc/cpuinfo")
BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})

BLANK = 0
"""The label of CTC's blank."""
PERHAPS = 0.1

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


class Net(StrEnum):
    """The networks."""

    DETECTOR = "detector"
    """Gives each pixel its probability of being text, (height, width)."""
    RECOGNISER = "recogniser"
    """Gives a line the likeliest character of each of its steps."""
    SKIMMER = "skimmer"
    """Another recogniser, with an alphabet of its own: quicker, and right about most lines."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Best:
    """What a line most likely says, step by step."""

    labels: IntArray
    scores: FloatArray
    unsaid: IntArray | None = None
    """Of steps that say nothing, the label of what they might say, with a probability of PERHAPS or more; 0 where there
    is none. None where nobody looked."""


Answer = FloatArray | Best
"""The detector's or the recogniser's, to one image."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nets:
    """Detector and recognisers, loaded; for one thread of one process."""

    run: Callable[[Net, FloatArray], Sequence[Answer]]
    """Takes images of one size, (batch, 3, height, width), BGR from -1 to 1; gives an answer for each."""
    alphabets: Mapping[Net, tuple[str, ...]]
    """The characters that each recogniser's labels stand for; the first is CTC's blank."""
    precision: str
    """What the recogniser computes in: `f32`, or `bf16` and `f16` where the device is faster at them; last digits
    differ."""


def alphabet_of(metadata: Mapping[str, str], file: Path | None = None) -> tuple[str, ...]:
    """Return the alphabet that a file lists or, without one, that the recogniser's ONNX file says it has."""
    listed = file.read_text(encoding="utf-8").removesuffix("\n") if file else metadata["character"]
    return ("", *listed.split("\n"), " ")


class Runtime(StrEnum):
    """Which library runs the networks."""

    OPENVINO = "openvino"
    ONNXRUNTIME = "onnxruntime"

    @property
    def release(self) -> str:
        """Return name and version of the installed library. Raises: PackageNotFoundError."""
        return f"{self.value}-{version(self.value)}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Loaded:
    """One network."""

    run: Callable[[FloatArray], FloatArray]
    """What it returns may be overwritten by the next call."""
    metadata: Mapping[str, str]
    """What the ONNX file says of itself."""
    precision: str


def by_preference(cpu: str) -> tuple[Runtime, ...]:
    """Return the runtimes, the better one for a CPU first; it is described as in Linux's `/proc/cpuinfo`.

    OpenVINO computes in bfloat16 where the CPU can, and takes 0.55 of onnxruntime's time there. Elsewhere it gains
    nothing and takes more memory: 4.5 against 4.3 CPU-seconds a page, 770 against 470 MB (AMD EPYC 7003, by
    `benchmarks/engine.py`).
    """
    if BFLOAT16_FLAGS.isdisjoint(cpu.split()):
        return Runtime.ONNXRUNTIME, Runtime.OPENVINO
    return Runtime.OPENVINO, Runtime.ONNXRUNTIME


def this_cpu() -> str:
    """Return what the system says of its CPU; nothing where it is not Linux."""
    try:
        return CPU_DESCRIPTION.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def load_nets(weights: Weights, runtime: Runtime, *, skimming: Weights | None = None) -> Nets:
    """Load the networks, and of those for skimming the recogniser.

    Raises: ImportError, or whatever the runtime raises on a CPU that it can't use.
    """
    load = _load_openvino if runtime is Runtime.OPENVINO else _load_onnxruntime
    detector = load(weights.detector)
    readers = {Net.RECOGNISER: weights} | ({Net.SKIMMER: skimming} if skimming else {})
    loaded = {net: load(own.recogniser) for net, own in readers.items()}

    def run(net: Net, batch: FloatArray) -> Sequence[Answer]:
        if net is Net.DETECTOR:
            return list(detector.run(batch)[:, 0].copy())
        probabilities = loaded[net].run(batch)
        labels, scores = probabilities.argmax(axis=2), probabilities.max(axis=2)
        steps = zip(labels, scores, unsaid_of(probabilities, labels, scores), strict=True)
        return [Best(labels=own, scores=sure, unsaid=perhaps) for own, sure, perhaps in steps]

    alphabets = {net: alphabet_of(loaded[net].metadata, own.alphabet) for net, own in readers.items()}
    return Nets(run=run, alphabets=alphabets, precision=loaded[Net.RECOGNISER].precision)


def unsaid_of(probabilities: FloatArray, labels: IntArray, scores: FloatArray) -> IntArray:
    """Return what steps might say that say nothing, as in `Best`; of (batch, steps, labels) and each step's best."""
    unsaid = np.zeros_like(labels)
    # Few steps are looked at: another label can have that much only where the blank leaves it.
    steps = np.nonzero((labels == BLANK) & (scores <= 1 - PERHAPS))
    others = probabilities[steps][:, BLANK + 1 :]
    unsaid[steps] = np.where(others.max(axis=1) >= PERHAPS, others.argmax(axis=1) + BLANK + 1, BLANK)
    return unsaid


def _load_openvino(path: Path) -> _Loaded:
    # OpenVINO 2026 tells its makers of each model that it reads, from a process that it forks off this one and that may
    # hang for ever, holding the device's lock. Without this package, which it does not need, it tells nobody.
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    import openvino  # noqa: PLC0415 - takes half a second and is not everywhere

    # Left to itself OpenVINO pins every process's only thread to the same first core, so that two slots share one.
    settings = {"INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1", "ENABLE_CPU_PINNING": False}
    core = openvino.Core()
    model = core.read_model(path)
    said = model.get_rt_info()
    metadata = {key: any_.value for key, any_ in said["framework"].items()} if "framework" in said else {}
    compiled = core.compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()

    def run(batch: FloatArray) -> FloatArray:
        request.infer([batch])
        output: FloatArray = request.get_output_tensor().data
        return output

    return _Loaded(run=run, metadata=metadata, precision=compiled.get_property("INFERENCE_PRECISION_HINT").to_string())


def _load_onnxruntime(path: Path) -> _Loaded:
    import onnxruntime  # noqa: PLC0415 - likewise

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # the arena would keep the largest page's memory for good
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    def run(batch: FloatArray) -> FloatArray:
        output: FloatArray = session.run(None, {name: batch})[0]
        return output

    return _Loaded(run=run, metadata=session.get_modelmeta().custom_metadata_map, precision="f32")
