"""Figures on file: what functions return on fixed data, beside what they returned before."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel


def plain(value: object) -> Any:
    """Return a result as JSON has it, with all its fields."""
    match value:
        case BaseModel():
            return plain(value.model_dump())
        case str() | bool() | int() | None:
            return value
        case Mapping():
            return {str(name): plain(one) for name, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case _ if dataclasses.is_dataclass(value):
            return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        case _:
            return float(value)  # type: ignore[arg-type]  # what is left is a number, of NumPy too


def differences(before: Any, now: Any, place: str) -> list[str]:
    """Return where two results differ by more than rounding."""
    if isinstance(before, dict) and isinstance(now, dict) and before.keys() == now.keys():
        return [one for name in before for one in differences(before[name], now[name], f"{place}.{name}")]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = enumerate(zip(before, now, strict=True))
        return [one for n, (a, b) in pairs for one in differences(a, b, f"{place}[{n}]")]
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (before, now))
    same = before == pytest.approx(now, rel=1e-6, abs=1e-9) if numbers else before == now
    return [] if same else [f"{place}: {before!r}, now {now!r}"]


def read(file: Path) -> dict[str, Any]:
    """Return the figures on file; none where there is no file yet."""
    figures: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return figures


def write(file: Path, results: Mapping[str, object]) -> None:
    """Write figures to a file, a line each."""
    lines = [f"{json.dumps(name)}: {json.dumps(plain(result))}" for name, result in sorted(results.items())]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
