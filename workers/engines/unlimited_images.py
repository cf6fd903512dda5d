"""What Unlimited-OCR sees of a page, without torchvision, which the class's own image processor is written for.

Both see a page as DeepSeek-OCR-2 does, but for the size of a tile and for the grid that its tiles come from, which
the model needs to put them beside each other (`UnlimitedOcrImageProcessor` of transformers 5.24).
"""

from typing import Any, ClassVar

import numpy as np
from transformers import BatchFeature
from transformers.image_utils import get_image_size
from transformers.models.deepseek_ocr2.image_processing_pil_deepseek_ocr2 import (
    DeepseekOcr2ImageProcessorPil,
    get_optimal_tiled_canvas,
)


class UnlimitedOcrImageProcessorPil(DeepseekOcr2ImageProcessorPil):  # type: ignore[misc] # transformers' types are not followed
    """A whole page of 1024 pixels, padded to a square, and tiles of 640."""

    max_patches = 32
    tile_size = 640
    model_input_names: ClassVar = ["pixel_values", "num_local_patches", "patches_grid"]

    def _preprocess(
        self,
        images: list[np.ndarray],
        *arguments: Any,
        tile_size: int,
        min_patches: int,
        max_patches: int,
        **named: Any,
    ) -> BatchFeature:
        bounds = {"tile_size": tile_size, "min_patches": min_patches, "max_patches": max_patches}
        made = super()._preprocess(images, *arguments, **bounds, **named)
        made["patches_grid"] = [
            list(get_optimal_tiled_canvas(get_image_size(image), (tile_size, tile_size), min_patches, max_patches))
            if count
            else [1, 1]
            for image, count in zip(images, made["num_local_patches"], strict=True)
        ]
        return made
