"""Pages shown smaller than they are, for an engine that has too little memory for all their pixels."""

import math

import cv2
import numpy as np

from pipeline.ports.documents import PageImage


def smaller(page: PageImage, most_pixels: int) -> PageImage:
    """Return the page with no more pixels than that, each the mean of those it stands for; or as it is."""
    scale = math.sqrt(most_pixels / (page.width_px * page.height_px))
    if scale >= 1:
        return page
    size = (max(1, int(page.width_px * scale)), max(1, int(page.height_px * scale)))
    pixels = np.asarray(cv2.resize(page.pixels, size, interpolation=cv2.INTER_AREA), np.uint8)
    return PageImage(number=page.number, pixels=pixels, dpi=page.dpi * scale)
