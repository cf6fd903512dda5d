"""Makes `harbour-ledger.pdf`: two scanned pages of our own, so that a first run has something to read.

    python samples/make_sample.py

The letter and everyone in it are invented. Both fonts lie inside OpenCV 5 (Rubik, WenQuanYi Micro Hei), so the same
pages come out anywhere; the PDF holds their pixels alone, no font and no text layer.
"""

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pikepdf
from pikepdf import Array, Dictionary, Name

TARGET = Path(__file__).with_name("harbour-ledger.pdf")
DPI = 150
PAGE_PX = (1240, 1754)
"""A4."""
INK = 52
PAPER = 236

Grey = npt.NDArray[np.uint8]

ENGLISH = (
    (150, 34, "ALDERWICK HARBOUR OFFICE"),
    (196, 22, "Quay Street 7, Alderwick"),
    (290, 24, "14 March 1931"),
    (370, 24, "To the Keeper of the County Records"),
    (450, 24, "Dear Mr Penhale,"),
    (514, 24, "We return the ledger of 1874 that your office lent us in January."),
    (554, 24, "Of its 212 leaves, 209 are sound. Leaves 31, 32 and 118 were under"),
    (594, 24, "water in the spring flood and can be read only in slanting light."),
    (658, 24, "The entries that you asked about are these:"),
    (722, 24, "Gudrun of Bergen, 3 April, timber, harbour dues 4 pounds 12"),
    (762, 24, "Two Brothers, 9 April, slate and lime, harbour dues 1 pound 18"),
    (802, 24, "Hai Yan of Amoy, 17 April, tea, harbour dues 6 pounds 5"),
    (866, 24, "The third of them is copied on the next sheet as her own master"),
    (906, 24, "wrote it. No other ship from that port is named before 1880."),
    (970, 24, "Should the commission wish to have the whole volume photographed,"),
    (1010, 24, "we can spare the reading room on Tuesdays until the end of May."),
    (1090, 24, "Yours faithfully,"),
    (1190, 24, "E. Marrable, Harbour Master"),
)

CHINESE = (
    (160, 40, "海燕号入港登记"),
    (260, 28, "船名：海燕号　　船籍：厦门"),
    (316, 28, "入港日期：一八七四年四月十七日"),
    (372, 28, "货物：红茶三百二十箱，瓷器四十箱"),
    (428, 28, "港口税：六镑五先令"),
    (528, 28, "本船三月二日离开厦门，途中遇风暴两次，"),
    (584, 28, "损失帆布一面，船员二十三人全部平安。"),
    (640, 28, "卸货需要四天，其后装运石板与羊毛返航。"),
    (740, 28, "以上内容由船长亲笔填写，港务处核对无误。"),
    (840, 28, "船长：林远舟"),
    (896, 28, "登记编号：0417-26"),
)


def written(lines: tuple[tuple[int, int, str], ...], font: str) -> Grey:
    """Return a clean page with the lines: baseline and height in pixels, text."""
    width, height = PAGE_PX
    page = np.full((height, width, 3), 255, np.uint8)
    face = cv2.FontFace(font)
    for baseline, size, text in lines:
        cv2.putText(page, text, (130, baseline), (0, 0, 0), face, size)
    return page[..., 0].copy()


def scanned(page: Grey, *, angle_deg: float, seed: int) -> Grey:
    """Return the page as a scanner would see it: askew, a little soft and grainy, one side darker."""
    height, width = page.shape
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), angle_deg, 1.0)
    turned = cv2.warpAffine(page, turn, (width, height), flags=cv2.INTER_CUBIC, borderValue=(255,))
    soft = cv2.GaussianBlur(turned, (0, 0), 0.7).astype(np.float32) / 255
    shade = np.linspace(-6, 5, width, dtype=np.float32)[None, :]
    grain = np.random.default_rng(seed).normal(0, 3.0, page.shape).astype(np.float32)
    grain = cv2.GaussianBlur(grain, (0, 0), 0.8) * 1.6
    return np.clip(INK + soft * (PAPER - INK) + shade + grain, 0, 255).astype(np.uint8)


def add_page(pdf: pikepdf.Pdf, page: Grey) -> None:
    """Append a page that is this picture and nothing else."""
    height, width = page.shape
    done, jpeg = cv2.imencode(".jpg", page, (cv2.IMWRITE_JPEG_QUALITY, 60))
    if not done:
        raise RuntimeError("the page could not be written as JPEG")
    image = pikepdf.Stream(
        pdf,
        jpeg.tobytes(),
        Type=Name.XObject,
        Subtype=Name.Image,
        Width=width,
        Height=height,
        ColorSpace=Name.DeviceGray,
        BitsPerComponent=8,
        Filter=Name.DCTDecode,
    )
    size = (width * 72 / DPI, height * 72 / DPI)
    contents = b"q %.2f 0 0 %.2f 0 0 cm /Scan Do Q" % size
    leaf = Dictionary(
        Type=Name.Page,
        MediaBox=Array([0, 0, *size]),
        Resources=Dictionary(XObject=Dictionary(Scan=pdf.make_indirect(image))),
        Contents=pdf.make_stream(contents),
    )
    pdf.pages.append(pikepdf.Page(pdf.make_indirect(leaf)))


def main() -> None:
    """Write the file beside this script."""
    with pikepdf.new() as pdf:
        add_page(pdf, scanned(written(ENGLISH, "sans"), angle_deg=0.6, seed=1))
        add_page(pdf, scanned(written(CHINESE, "uni"), angle_deg=-0.4, seed=2))
        pdf.save(TARGET, deterministic_id=True)


if __name__ == "__main__":
    main()
