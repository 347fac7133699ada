"""A sheet: a drawing with text, lines, arrows and rings over it, as a PNG. It spares the import of matplotlib, 0.3 to 0.5 s.

Lines and arrows are convex polygons. A pixel is covered by as much as its middle lies within their edges.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFont, PngImagePlugin

from geosim.arrays import Floats
from geosim.show.colors import rgb
from geosim.writing import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure  # slow to import

POINTS_AN_INCH = 72.0  # of text and of the width of lines
LINE_POINTS = 1.5  # width of arrows and rings [1/72 inch]
BACKING = 0.75  # opacity of the ground of a text that lies over the drawing
# Anchors of a text, across and down, as Pillow and as matplotlib name them.
ACROSS, DOWN = ({"l": "left", "m": "center", "r": "right"}, {"a": "top", "m": "center", "s": "baseline", "d": "bottom"})


@lru_cache(maxsize=64)
def _font(pixels: float, bold: bool) -> Any:
    """The font of matplotlib, which comes with it; that package itself is loaded only where it keeps its data elsewhere."""
    name = f"DejaVuSans{'-Bold' * bold}.ttf"
    spec = find_spec("matplotlib")
    path = Path(str(spec.origin if spec else "")).parent / "mpl-data" / "fonts" / "ttf" / name
    if not path.is_file():
        import matplotlib

        path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name
    return ImageFont.truetype(path, pixels)


@dataclass(frozen=True)
class Theme:
    """Colours of a sheet: its paper, what is written, quieter texts, the sentences of doubts, and the rest shape."""

    paper: str
    ink: str
    soft: str
    doubt: str
    rest: str

    def rgb(self, name: str) -> Floats:
        """One of its colours as RGB in 0..1."""
        return rgb(getattr(self, name))


THEMES = {
    "light": Theme("#ffffff", "#000000", "#595959", "#b3541e", "#9ea8b8"),
    "dark": Theme("#14181d", "#f2f4f7", "#a4b0bc", "#f0a070", "#5d6875"),
}


@dataclass(frozen=True)
class Text:
    """A text on a sheet.

    Parameters
    ----------
    place
        Of its anchor [pixels], from the left and from the top.
    said, points, color
        What it says, in which size [1/72 inch] and colour ("#b3541e").
    anchor
        Which point of the text `place` is, a letter across (l, m, r) and one down (a: top, m, s: base line, d: bottom).
    bold, upright
        Whether it is bold, and whether it is read from below.
    """

    place: tuple[float, float]
    said: str
    points: float
    color: str
    anchor: str
    bold: bool
    upright: bool


@dataclass(frozen=True)
class Sheet:
    """A drawing on paper, with what is written and drawn over it.

    Parameters
    ----------
    pixels
        RGB (height, width, 3), uint8.
    middle, pixel_mm
        Where the middle of the drawing is [pixels], and how much of it a pixel shows [mm].
    dpi
        Pixels in an inch.
    theme
        Its colours.
    texts
        Drawn last.
    """

    pixels: Any
    middle: tuple[float, float]
    pixel_mm: float
    dpi: int
    theme: Theme = THEMES["light"]
    texts: list[Text] = field(default_factory=list)

    def at(self, across: float, up: float) -> tuple[float, float]:
        """Pixels of a place in shares of the sheet, from its lower left corner."""
        height, width = self.pixels.shape[:2]
        return across * width, (1.0 - up) * height

    def on(self, x: float, y: float) -> tuple[float, float]:
        """Pixels of a place on the drawing [mm], from its middle to the right and upwards."""
        return self.middle[0] + x / self.pixel_mm, self.middle[1] - y / self.pixel_mm

    def text(
        self,
        place: tuple[float, float],
        said: str,
        points: float,
        color: str = "",
        anchor: str = "ls",
        *,
        bold: bool = False,
        upright: bool = False,
        backing: bool = False,
    ) -> None:
        """Write a text (see `Text`), by default in ink, with a `backing` on a ground of paper."""
        text = Text(place, said, points, color or self.theme.ink, anchor, bold, upright)
        if backing and said:
            left, top, right, bottom = self._font_of(text).getbbox(said, anchor=anchor)
            x, y, pad = *place, 0.3 * points * self.dpi / POINTS_AN_INCH
            corners = [
                (left - pad, top - pad),
                (right + pad, top - pad),
                (right + pad, bottom + pad),
                (left - pad, bottom + pad),
            ]
            self.polygon(np.array(corners) + (x, y), self.theme.paper, BACKING)
        self.texts.append(text)

    def across(
        self,
        up: float,
        said: str,
        points: float,
        color: str = "",
        anchor: str = "ls",
        *,
        bold: bool = False,
        lines: int = 1,
    ) -> None:
        """Write a text (see `text`) between the margins of the sheet, at a share of its height.

        It is broken into at most so many `lines`, written smaller where these do not hold it, and cut off where it would be
        smaller than 7 points.
        """
        margin = 0.03  # of the width
        text = Text(self.at(margin, up), said, points, color or self.theme.ink, anchor, bold, False)
        self.texts.append(self._fitted(text, (1.0 - 2.0 * margin) * self.pixels.shape[1], lines))

    def width_of(self, text: Text) -> float:
        """Width of a text of one line [pixels]."""
        return float(self._font_of(text).getlength(text.said))

    def _fitted(self, text: Text, width: float, lines: int) -> Text:
        """A text that fits: broken into lines, then smaller, then without its end."""
        least_points, least_characters, rest = 7.0, 8, " ..."
        chars = len(text.said)
        while True:
            broken = textwrap.wrap(text.said, max(chars, least_characters), max_lines=lines, placeholder=rest) or [""]
            widest = max(self.width_of(replace(text, said=line)) for line in broken)
            if widest > width and chars > least_characters:
                chars = min(chars - 1, int(chars * width / widest))
            elif broken[-1].endswith(rest) and text.points > least_points:
                text, chars = replace(text, points=text.points - 0.5), len(text.said)
            else:
                return replace(text, said="\n".join(broken))

    def _font_of(self, text: Text) -> Any:
        return _font(text.points * self.dpi / POINTS_AN_INCH, text.bold)

    def line(self, start: Any, end: Any, color: str, points: float) -> None:
        """Draw a straight line between two places [pixels], this wide [1/72 inch]."""
        start, end = np.asarray(start, dtype=float), np.asarray(end, dtype=float)
        along = (end - start) / max(float(np.linalg.norm(end - start)), 1e-9)
        half = 0.5 * points * self.dpi / POINTS_AN_INCH * np.array([-along[1], along[0]])
        self.polygon(np.stack([start + half, start - half, end - half, end + half]), color)

    def arrow(self, start: Any, end: Any, color: str, points: float = LINE_POINTS) -> None:
        """Draw a line that ends in a head, which is 6 times as long as the line is wide and at most as long as the arrow."""
        start, end = np.asarray(start, dtype=float), np.asarray(end, dtype=float)
        length = max(float(np.linalg.norm(end - start)), 1e-9)
        along = (end - start) / length
        head = min(6.0 * points * self.dpi / POINTS_AN_INCH, length)
        across = 0.4 * head * np.array([-along[1], along[0]])
        self.line(start, end - 0.5 * head * along, color, points)
        self.polygon(np.stack([end - head * along + across, end - head * along - across, end]), color)

    def polygon(self, corners: Floats, color: str, opacity: float = 1.0) -> None:
        """Fill a convex polygon (m, 2) [pixels]."""
        edges = np.roll(corners, -1, axis=0) - corners
        normals = np.stack([edges[:, 1], -edges[:, 0]], axis=1)
        normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-9)
        if (normals[0] * (corners.mean(axis=0) - corners[0])).sum() > 0.0:
            normals = -normals
        offsets = (normals * corners).sum(axis=1)
        beyond: Callable[[Any, Any], Any] = lambda x, y: np.max(  # noqa: E731
            [n[0] * x + n[1] * y - offset for n, offset in zip(normals, offsets)], axis=0
        )
        self._fill(beyond, corners.min(axis=0), corners.max(axis=0), color, opacity)

    def ring(self, place: tuple[float, float], radius: float, color: str, points: float = LINE_POINTS) -> None:
        """Draw a circle of this radius [1/72 inch] around a place [pixels]."""
        unit = self.dpi / POINTS_AN_INCH
        beyond: Callable[[Any, Any], Any] = lambda x, y: (  # noqa: E731
            np.abs(np.hypot(x - place[0], y - place[1]) - radius * unit) - 0.5 * points * unit
        )
        reach, middle = (radius + points) * unit, np.asarray(place)
        self._fill(beyond, middle - reach, middle + reach, color, 1.0)

    def _fill(self, beyond: Callable[[Any, Any], Any], low: Floats, high: Floats, color: str, opacity: float) -> None:
        """Colour the pixels of a box by how far [pixels] they are beyond the edge of a figure, negative inside."""
        height, width = self.pixels.shape[:2]
        left, top = (max(int(np.floor(v)) - 1, 0) for v in low)
        right, bottom = min(int(np.ceil(high[0])) + 1, width), min(int(np.ceil(high[1])) + 1, height)
        if left >= right or top >= bottom:
            return
        y, x = np.mgrid[top:bottom, left:right] + 0.5
        cover = opacity * np.clip(0.5 - beyond(x, y), 0.0, 1.0)[:, :, None]
        under = self.pixels[top:bottom, left:right]
        under[:] = np.round(under + cover * (np.array(ImageColor.getrgb(color)) - under))

    def image(self) -> Image.Image:
        """Return all of it as an image of Pillow."""
        image = Image.fromarray(self.pixels)
        for text in self.texts:
            self._write(image, text)
        return image

    def _write(self, image: Image.Image, text: Text) -> None:
        font, spacing = self._font_of(text), 0.25 * text.points * self.dpi / POINTS_AN_INCH
        if not text.upright:
            ImageDraw.Draw(image).text(
                text.place, text.said, fill=text.color, font=font, anchor=text.anchor, spacing=spacing
            )
            return
        left, top, right, bottom = (int(side) for side in font.getbbox(text.said, anchor="ls"))
        mask = Image.new("L", (right - left + 2, bottom - top + 2))
        ImageDraw.Draw(mask).text((1 - left, 1 - top), text.said, fill=255, font=font, anchor="ls")
        mask = mask.rotate(90, expand=True)
        corner = round(text.place[0] - 0.5 * mask.width), round(text.place[1] - 0.5 * mask.height)
        image.paste(Image.new("RGB", mask.size, text.color), corner, mask)

    def png(self) -> bytes:
        """Return it as a PNG."""
        about, file = PngImagePlugin.PngInfo(), io.BytesIO()
        about.add_text("Software", "geosim")
        self.image().save(file, format="PNG", pnginfo=about, dpi=(self.dpi, self.dpi), compress_level=3)
        return file.getvalue()

    def save(self, path: Path) -> Path:
        """Write a PNG; the path is returned."""
        return write_whole(path, self.png())

    def figure(self) -> Figure:
        """Return it as a figure of matplotlib, whose texts are text."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        height, width = self.pixels.shape[:2]
        figure = Figure(figsize=(width / self.dpi, height / self.dpi), dpi=self.dpi)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.imshow(self.pixels, interpolation="nearest", aspect="auto")
        axes.set_axis_off()
        for text in self.texts:
            figure.text(
                text.place[0] / width,
                1.0 - text.place[1] / height,
                text.said,
                fontsize=text.points,
                color=text.color,
                fontweight="bold" if text.bold else "normal",
                ha=ACROSS[text.anchor[0]],
                va=DOWN[text.anchor[1]],
                rotation=90.0 if text.upright else 0.0,
                parse_math=False,
            )
        return figure


def ticks(low: float, high: float, most: int = 7) -> Floats:
    """Round numbers (1, 2, 2.5 or 5 times a power of ten apart) between two, at most so many."""
    least = (high - low) / (most - 1)
    power = 10.0 ** np.floor(np.log10(least))
    step = power * min(m for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= least * (1.0 - 1e-9))
    marks = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1.0)
    return np.asarray(step * marks + 0.0)  # no -0
