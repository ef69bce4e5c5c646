"""Draw the weather demo as an animated terminal: `python docs/terminal.py` writes docs/weather.svg from a run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "weather.svg"
COMMAND = "python -m demos.weather"
_COLUMNS = 80
_LINE_S, _ATTEMPT_S, _REST_S = 0.3, 1.2, 6.0
"""Seconds between lines, before each attempt, and after the last line, until it begins again."""

_ERASE = "\x1b[2K"
_MOVES = re.compile(r"\x1b\[(?:\?25[lh]|\d*A)|\r")
"""What a terminal is told of its cursor; what it erases, the word that the demo works, comes before."""

_FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px; \
line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: arial; }}
{styles}
ANIMATION
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />\
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def run_demo() -> str:
    """Return what the demo prints to a terminal with colours."""
    environment = os.environ | {"COLUMNS": str(_COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    command = [sys.executable, *COMMAND.split()[1:]]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True).stdout.decode()  # noqa: S603


def draw(output: str) -> str:
    """Return the terminal as an SVG in which the lines come one by one, where motion is not unwanted."""
    shown = [_MOVES.sub("", line.rpartition(_ERASE)[2]) for line in output.strip("\n").split("\n")]
    output = re.sub(r" in [\d.]+ s,", ",", "\n".join(shown))  # of this run alone
    output = re.sub(r"\n.* working\n", "\n", output)
    console = Console(record=True, width=_COLUMNS, file=StringIO())
    console.print(Text(f"$ {COMMAND}", style="bold"))
    console.print(Text.from_ansi(output))
    picture = console.export_svg(title="selfrefine", code_format=_FORMAT, unique_id="weather")
    lines = [f"$ {COMMAND}", *output.splitlines()]
    return picture.replace("ANIMATION", "\n".join(_animation(lines)))


def _animation(lines: list[str]) -> list[str]:
    starts, now = [], 0.0
    for line in lines:
        now += _ATTEMPT_S if "attempt " in line and "──" in line else _LINE_S
        starts.append(now)
    whole = now + _REST_S
    rules = []
    for number, start in enumerate(starts):
        share = 100 * start / whole
        rules.append(
            f"@keyframes l{number} {{ 0%, {share:.2f}% {{ opacity: 0 }} {share + 0.5:.2f}% {{ opacity: 1 }} }}"
        )
        rules.append(f'[clip-path="url(#weather-line-{number})"] {{ animation: l{number} {whole:.1f}s infinite }}')
    return ["@media (prefers-reduced-motion: no-preference) {", *rules, "}"]


if __name__ == "__main__":
    PICTURE.write_text(draw(run_demo()), encoding="utf-8", newline="\n")
