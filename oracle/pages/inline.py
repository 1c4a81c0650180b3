"""SVG files made fit to stand inside a page: one root element, names of their own, nothing that acts."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from markupsafe import Markup

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_PLACES = frozenset({"d", "points", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height", "transform"})
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}(?![\de])")
_DROPPED = frozenset({f"{{{SVG}}}{name}" for name in ("metadata", "style", "script", "title", "foreignObject")})


def inline_svg(path: Path, prefix: str, label: str) -> Markup:
    """Read an SVG file of ours as markup.

    Parameters
    ----------
    path
        The file.
    prefix
        Goes before every id in it, so that two figures of a page do not share one.
    label
        What it says to those who cannot see it.
    """
    root = ET.parse(path).getroot()  # comments and the document type are dropped
    for parent in root.iter():
        for child in [child for child in parent if child.tag in _DROPPED]:
            parent.remove(child)
    for element in root.iter():
        _renamed(element, prefix)
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": label}
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", XLINK)
    return Markup(ET.tostring(root, encoding="unicode"))  # ElementTree has escaped every text


def width_of(path: Path) -> float:
    """Width of an SVG file, in CSS pixels."""
    return float(ET.parse(path).getroot().attrib["width"].removesuffix("pt")) * 4 / 3


def _renamed(element: ET.Element, prefix: str) -> None:
    for name, value in list(element.attrib.items()):
        if name == "id":
            element.set(name, f"{prefix}-{value}")
        elif name in ("href", f"{{{XLINK}}}href"):
            if value.startswith("#"):
                element.set(name, f"#{prefix}-{value[1:]}")
            elif not value.startswith("data:image/png;base64,"):
                del element.attrib[name]  # nothing outside the page is ever asked for
        elif name.lower().startswith("on"):
            del element.attrib[name]
        elif name in _PLACES:  # a hundredth of a point is not seen, and half of a page would be digits
            element.set(name, _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), value))
        elif "url(#" in value:
            element.set(name, _REFERENCE.sub(lambda found: f"url(#{prefix}-{found[1]})", value))
