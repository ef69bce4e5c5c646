"""Test the mutants of one room; runs in a copy of the tree, in whose `pyproject.toml` mutmut is set up."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import libcst
from mutmut import __main__ as mutmut
from mutmut.mutation import mutators
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir, setup_source_paths, walk_mutatable_files
from mutmut.utils.format_utils import mangled_name_from_mutant_name


def mutate_words(node: libcst.BaseString) -> Iterable[libcst.BaseString]:
    """Mutate a string that is one word, as keys and names are; how a sentence is put is nobody's contract."""
    if isinstance(node, libcst.SimpleString) and not any(letter.isspace() for letter in node.value):
        yield from mutators.operator_string(node)


def mutants() -> dict[str, tuple[SourceFileMutationData, int | None]]:
    """Return what became of each mutant, by its name."""
    files = [SourceFileMutationData(path=path) for path in walk_mutatable_files()]
    for file in files:
        file.load()
    return {name: (file, code) for file in files for name, code in file.exit_code_by_key.items()}


def described(name: str, file: SourceFileMutationData, code: int | None) -> dict[str, Any]:
    """Return a mutant by the lines that it changes, which outlive the numbers that mutmut gives."""
    diff = get_diff_for_mutant(name, path=file.path).splitlines()
    lines = {sign: [line[1:].strip() for line in diff if line.startswith(sign)][1:] for sign in "-+"}
    function = mangled_name_from_mutant_name(name).replace("x_", "", 1).replace("xǁ", "", 1)
    status = status_by_exit_code[code]
    return {
        "where": function.replace("ǁ", "."),
        "was": " ".join(lines["-"]),
        "is": " ".join(lines["+"]),
        "killed": status in ("killed", "timeout", "segfault"),
        "status": status,
    }


def main() -> None:
    """Test a sample of mutants, of the size and seed that are named first; write what became of them to a file."""
    size, seed, out = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    operators: Any = mutators.mutation_operators
    place = next(i for i, (_, operator) in enumerate(operators) if operator is mutators.operator_string)
    operators[place] = (libcst.BaseString, mutate_words)
    Path("mutants").mkdir()
    copy_src_dir()
    copy_also_copy_files()
    setup_source_paths()
    mutmut.create_mutants(1)
    names = sorted(mutants())
    sample = random.Random(seed).sample(names, min(size or len(names), len(names)))
    mutmut._run(sample, 1)
    results = [described(name, *one) for name, one in mutants().items() if name in set(sample)]
    out.write_text(json.dumps({"all": len(names), "tested": results}))


if __name__ == "__main__":
    main()
