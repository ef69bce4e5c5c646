"""Verifying: does a text support numbered claims? One model call, shared by all judges of a sample."""

from __future__ import annotations

from judges.asking import Question
from judges.shapes.items import Marks, Supports

SUPPORT: Question[Supports] = Question(prompt="support", reply=Supports, shared=True)
"""Find where each of `claims` stands by `contexts`: supported, contradicted or absent."""

MARKED: Question[Marks] = Question(prompt="support", reply=Marks, written=(Supports, Marks.like), shared=True)
"""The same with marks for `variant="compat"`: any number but 0 is a yes."""
