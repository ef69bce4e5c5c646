"""Elements of a page. Whatever is text is escaped when the page is written, wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree.ElementTree import Element, tostring

Child = Element | str | None | Iterable["Element | str | None"]

_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def h(tag: str, /, *children: Child, **attributes: str | float | None) -> Element:
    """Return an element.

    Args:
        tag: Its name.
        children: Texts, elements, or several of them; None is nothing.
        attributes: Its attributes. `class_` is `class`, and `aria_label` is `aria-label`; None leaves one out.
    """
    element = Element(tag)
    for name, value in attributes.items():
        if value is not None:
            element.set(name.rstrip("_").replace("_", "-"), clean(_attribute(value)))
    for child in children:
        for part in [child] if child is None or isinstance(child, str | Element) else child:
            _append(element, part)
    return element


def _attribute(value: str | float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _append(element: Element, part: Element | str | None) -> None:
    if part is None:
        return
    if not isinstance(part, str):
        element.append(part)
    elif len(element):
        element[-1].tail = (element[-1].tail or "") + clean(part)
    else:
        element.text = (element.text or "") + clean(part)


def clean(text: str) -> str:
    """Return a text without characters that a page cannot hold."""
    return _NOT_TEXT.sub("\ufffd", text)


def html(element: Element) -> str:
    """Return an element as HTML. The texts of `script` and `style` are written as they are."""
    return tostring(element, encoding="unicode", method="html")
