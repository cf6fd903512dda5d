"""PP-OCRv6 small in transformers' own classes, with the weights of the ONNX files in the rapidocr wheel.

Converted in memory at each load, 0.4 s a network: a converted copy on disk would have to be checked and locked.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import numpy_helper
from torch import nn
from transformers import (
    AutoModelForObjectDetection,
    AutoModelForTextRecognition,
    PPOCRV6SmallDetConfig,
    PPOCRV6SmallRecConfig,
)

from pipeline.engines.ppocr.runtime import alphabet_of

TENSORS = Path(__file__).with_name("ppocrv6_small.json")
"""Name of each parameter -> name of the ONNX tensor that holds it.

Found once, by comparing values with the published safetensors of the same networks. Files and classes are pinned: the
files by their hash, the classes by the range of transformers.
"""

Tensors = Mapping[str, npt.NDArray[np.float32]]


def detector(path: Path) -> nn.Module:
    """Return the detector of an ONNX file, in evaluation mode. Raises: ValueError, if a tensor is not there."""
    stages = [
        [[3, 48, 48, 1, True], [3, 48, 48, 1, False]],
        [[3, 48, 96, 2, False], [3, 96, 96, 1, True], [3, 96, 96, 1, False]],
        [[3, 96, 192, 2, False], *[[3, 192, 192, 1, residual] for residual in (True, False, True, False)]],
        [[3, 192, 384, 2, False], [3, 384, 384, 1, True], [3, 384, 384, 1, False]],
    ]
    backbone = {
        "model_type": "pp_lcnet_v4",
        "stem_type": "large",
        "stem_channels": [3, 24, 48],
        "block_configs": stages,
        "out_features": ["stage1", "stage2", "stage3", "stage4"],
    }
    config = PPOCRV6SmallDetConfig(backbone_config=backbone, layer_list_out_channels=[48, 96, 192, 384])
    model = AutoModelForObjectDetection.from_config(config)
    return _filled(model, _tensors(onnx.load(path)), "detector")


def recogniser(path: Path) -> tuple[nn.Module, tuple[str, ...]]:
    """Return the recogniser of an ONNX file, in evaluation mode, and its alphabet. Raises: as for `detector`."""
    file = onnx.load(path)
    alphabet = alphabet_of({entry.key: entry.value for entry in file.metadata_props})
    model = AutoModelForTextRecognition.from_config(PPOCRV6SmallRecConfig(head_out_channels=len(alphabet)))
    return _filled(model, _tensors(file), "recogniser"), alphabet


def _tensors(file: onnx.ModelProto) -> Tensors:
    return {name: array.astype(np.float32) for name, array in _arrays(file) if array.dtype.kind == "f"}


def _arrays(file: onnx.ModelProto) -> Iterator[tuple[str, npt.NDArray[np.generic]]]:
    for tensor in file.graph.initializer:
        yield tensor.name, numpy_helper.to_array(tensor)
    for node in file.graph.node:
        if node.op_type == "Constant":
            yield node.output[0], numpy_helper.to_array(node.attribute[0].t)


def _filled(model: nn.Module, tensors: Tensors, network: str) -> nn.Module:
    names: Mapping[str, str] = json.loads(TENSORS.read_text())[network]
    with torch.no_grad():
        for name, parameter in model.state_dict(keep_vars=True).items():
            owner, _, leaf = name.rpartition(".")
            if name not in names:
                parameter.fill_(_folded(leaf))
            elif names[name] not in tensors:
                raise ValueError(f"the {network}'s file holds no tensor {names[name]}, wanted for {name}")
            else:
                array = tensors[names[name]]
                # ONNX multiplies by (in, out), torch by (out, in).
                is_linear = leaf == "weight" and isinstance(model.get_submodule(owner), nn.Linear)
                parameter.copy_(torch.from_numpy(array.T if is_linear else array).reshape(parameter.shape))
    return model.eval()


def _folded(leaf: str) -> float:
    """Return what a parameter is that the file lacks, as export folded each normalisation into its convolution.

    The convolution has the folded weight and the normalisation the folded bias; all else must change nothing.
    """
    values = {"weight": 1.0, "bias": 0.0, "running_mean": 0.0, "running_var": 1.0 - 1e-5, "num_batches_tracked": 0.0}
    return values[leaf]
