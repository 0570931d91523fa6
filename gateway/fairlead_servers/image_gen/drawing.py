"""Draws a picture without a model: colours and shapes are derived from the words of the prompt, and the picture also
shows these words. Does no I/O.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import textwrap
from random import Random
from typing import Final

from PIL import Image, ImageDraw, ImageFilter, ImageFont

PALETTES: Final[dict[str, tuple[tuple[int, int, int], tuple[int, int, int], tuple[int, int, int]]]] = {
    "ink": ((246, 241, 228), (208, 198, 176), (38, 34, 30)),
    "night": ((16, 20, 48), (52, 44, 96), (236, 214, 142)),
    "oil": ((74, 46, 30), (168, 104, 52), (240, 212, 160)),
    "sketch": ((252, 252, 250), (226, 226, 222), (70, 70, 72)),
    "watercolor": ((226, 238, 242), (150, 190, 204), (60, 92, 120)),
}
"""Colours of sky, ground and shapes by style. Any other style gets the colours of one of these styles, by a hash of its
name."""
MOST_CAPTION: Final = 160
"""Maximum number of characters of the prompt in the picture."""


def draw(prompt: str, style: str, width: int, height: int) -> bytes:
    """Draw a PNG with a width and height in pixels. Equal words give equal pictures."""
    seed = hashlib.sha256(f"{style}\0{prompt}".encode()).digest()
    random = Random(seed)
    sky, ground, ink = PALETTES.get(style) or PALETTES[sorted(PALETTES)[seed[0] % len(PALETTES)]]
    picture = Image.new("RGB", (width, height), sky)
    draw = ImageDraw.Draw(picture)
    for row in range(height):
        share = row / height
        draw.line(
            [(0, row), (width, row)], fill=tuple(round(a + (b - a) * share) for a, b in zip(sky, ground, strict=True))
        )
    _light(draw, random, picture.size, ink)
    for layer in range(3):
        _hills(draw, random, picture.size, layer, ground, ink)
    picture = picture.filter(ImageFilter.GaussianBlur(min(width, height) / 700))
    _caption(picture, prompt, sky, ink)
    png = io.BytesIO()
    picture.save(png, "PNG", optimize=True)
    return png.getvalue()


def work(encoded: bytes) -> bytes:
    """Draw a PNG. `encoded`: JSON array with the arguments of `draw`."""
    prompt, style, width, height = json.loads(encoded)
    return draw(prompt, style, width, height)


def _light(draw: ImageDraw.ImageDraw, random: Random, size: tuple[int, int], ink: tuple[int, int, int]) -> None:
    """Draw a sun or moon, and a few stars."""
    width, height = size
    side = min(size)
    radius = side * random.uniform(0.05, 0.11)
    x, y = width * random.uniform(0.2, 0.8), height * random.uniform(0.12, 0.3)
    draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=ink)
    for _ in range(random.randint(5, 25)):
        a, b = random.uniform(0, width), random.uniform(0, height * 0.45)
        draw.ellipse([a, b, a + side / 200, b + side / 200], fill=ink)


def _hills(
    draw: ImageDraw.ImageDraw,
    random: Random,
    size: tuple[int, int],
    layer: int,
    far: tuple[int, int, int],
    near: tuple[int, int, int],
) -> None:
    """Draw one range of hills; nearer ranges are darker."""
    width, height = size
    share = (layer + 1) / 4
    colour = tuple(round(a + (b - a) * share) for a, b in zip(far, near, strict=True))
    base, waves = height * (0.45 + 0.12 * layer), [(random.uniform(1, 5), random.uniform(0, 6.3)) for _ in range(3)]
    line = [
        (x, base + sum(math.sin(x / width * frequency * 2 + phase) for frequency, phase in waves) * height * 0.035)
        for x in range(0, width + 8, 8)
    ]
    draw.polygon([(0, height), *line, (width, height)], fill=colour)


def _caption(picture: Image.Image, prompt: str, paper: tuple[int, int, int], ink: tuple[int, int, int]) -> None:
    width, height = picture.size
    words = " ".join(prompt.split())
    caption = words if len(words) <= MOST_CAPTION else words[: MOST_CAPTION - 1] + "…"
    text = "\n".join(textwrap.wrap(caption, 44))
    font = ImageFont.load_default(width / 32)
    draw = ImageDraw.Draw(picture)
    margin = width / 24
    _, top, _, bottom = draw.multiline_textbbox((0, 0), text, font=font)
    top_edge = height - (bottom - top + margin)
    draw.rectangle([0, top_edge, width, height], fill=paper)
    draw.multiline_text((margin / 2, top_edge + margin / 2 - top), text, font=font, fill=ink)
