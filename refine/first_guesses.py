"""What to say where somebody guesses at the parts of a refiner, or at what it can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from graphs.setting_guesses import GENERATORS, JUDGES
from judges.first_guesses import OF_A_REFINER, HintsAtGuesses

_PARTS = {"generator": GENERATORS, "judge": JUDGES}


class NamesItsParts(HintsAtGuesses):
    """An object that is made of a generator and a judge, and says so where they are given by other names."""

    _guesses = OF_A_REFINER

    if not TYPE_CHECKING:  # type checkers read the signature of __init__

        def __new__(cls, *parts: object, **settings: object) -> Self:
            """Return a new one.

            Raises:
                TypeError: If a part is missing and something is given by a name that one may guess for it.
            """
            missing = [part for part in tuple(_PARTS)[len(parts) :] if part not in settings]
            for part in missing:
                guess = next((name for name in settings if name in _PARTS[part]), None)
                if guess is not None:
                    also = ", which takes a list of judges, too" if part == "judge" else ""
                    raise TypeError(f"{cls.__name__}() has no argument {guess!r}; it is {part}=... here{also}")
            return super().__new__(cls)
