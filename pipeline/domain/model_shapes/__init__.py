"""From a model's `config.json` to the numbers that its memory follows from: parameters, cache width, activations.

Counts are those of the classes in transformers 5.24, which the torch engines load; a test builds those classes, small
and in full size without memory, and compares. Keys that a configuration leaves out have the class's default.
"""

from pipeline.domain.model_shapes.counting import Config, ImageShape, ModelShape, UnknownArchitecture
from pipeline.domain.model_shapes.deepseek import deepseek_ocr2, unlimited_ocr
from pipeline.domain.model_shapes.encoder_decoder import encoder_decoder
from pipeline.domain.model_shapes.qianfan import qianfan_ocr

__all__ = ["Config", "ImageShape", "ModelShape", "UnknownArchitecture", "shape_of"]


def shape_of(config: Config) -> ModelShape:
    """Return the shape of a model. Raises: UnknownArchitecture."""
    match config.get("model_type"):
        case "deepseek_ocr2":
            return deepseek_ocr2(config)
        case "unlimited_ocr" | "unlimited-ocr":
            return unlimited_ocr(config)
        case "qianfan_ocr":
            return qianfan_ocr(config)
        case "vision-encoder-decoder":
            return encoder_decoder(config)
        case other:
            raise UnknownArchitecture(f"no memory plan for models of type {other!r}")
