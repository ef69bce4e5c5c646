"""Chains of outcomes in a database: each carries a hash of itself and of the one before it.

A writing process has a chain of its own. What is hashed is what is stored: every column of an outcome and its
attempts that is not empty, after redaction. Labels, which come later, are not part of it. The last link of each
chain is kept beside the outcomes, as its anchor; what retention removes leaves a gap that is sealed too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, fields, replace
from itertools import chain as joined
from itertools import groupby, islice
from math import isfinite
from operator import itemgetter
from typing import Any, TypeVar
from uuid import uuid4

import orjson
import sqlalchemy as sa

from judges import ConfigurationError
from refine.record.rows import OutcomeRows, now_ms
from refine.record.schema import (
    ANCHOR,
    ATTEMPT,
    GAP,
    OUTCOME,
    SEAL,
    SEALED_FROM_THE_FIRST,
    STATE,
    SUMS_OF_ALL,
    Stored,
    lock_tables,
)
from refine.record.seals import KEY_VARIABLE, Row, Verification, digest_of, digest_of_bytes

_SLICE = 500
_GRACE_MS = 24 * 60 * 60 * 1_000
"""How long a process of an older version may go on writing without seals beside newer ones."""


_KEYED = "keyed"
"""Name of the state that says from which chain on all are under the key; those before it had none."""
_FORM = "2:"
"""How the hashes of outcomes begin that are of values in the order of the columns; others are of names, too."""


class _SealedColumns:
    """The columns of a table that a hash is of.

    Args:
        table: The table.
    """

    def __init__(self, table: sa.Table) -> None:
        columns = [column for column in table.columns if column.name not in SEAL]
        self._names = tuple(column.name for column in columns)
        self._values_of = itemgetter(*self._names)
        self._floats = tuple(at for at, column in enumerate(columns) if isinstance(column.type, sa.Float))

    def values(self, row: Stored) -> list[Any]:
        """Return what the table holds of a row, but for what is empty at its end: later columns change no hash."""
        # a row that was not written yet, a dict, may leave out what is empty
        values = list(map(row.get, self._names) if type(row) is dict else self._values_of(row))
        for at in self._floats:
            value = values[at]
            if value is not None and (type(value) is not float or not value or not isfinite(value)):
                values[at] = _stored_float(value)
        while values[-1] is None:  # the id is there always
            values.pop()
        return values

    def named(self, row: Stored) -> Row:
        """Return what the table holds of a row by name, as records before version 0.10 hashed it."""
        values: Row = {name: value for name in sorted(self._names) if (value := row[name]) is not None}
        for name in (self._names[at] for at in self._floats):
            if isinstance(value := values.get(name), int | float):
                values[name] = value + 0.0
        return values


def _stored_float(value: object) -> object:
    """Return a number as it comes back: a float, -0.0 as 0.0; infinity, which JSON has not, as a text."""
    if not isinstance(value, int | float):
        return value
    return value + 0.0 if isfinite(value) else repr(value)


_OUTCOME = _SealedColumns(OUTCOME)
_ATTEMPT = _SealedColumns(ATTEMPT)


def _hash_of(
    key: bytes, link: Sequence[Any], outcome: Stored, attempts: Iterable[Stored], form: str = _FORM
) -> str:
    """Return the hash of an outcome at its place in a chain.

    Args:
        key: Key of the seals.
        link: Its chain, its position in it, and the hash of the one before.
        outcome: Its row; a column that it leaves out is empty.
        attempts: The rows of its attempts, in order; likewise.
        form: The hash that it has, in the form of which it is made.
    """
    if not form.startswith(_FORM):
        return digest_of(key, *link, _OUTCOME.named(outcome), list(map(_ATTEMPT.named, attempts)))
    parts = [*link, _OUTCOME.values(outcome), list(map(_ATTEMPT.values, attempts))]
    try:
        whole = orjson.dumps(parts, default=repr)
    except TypeError:  # a number above 64 bits, or half a character
        return f"{_FORM}{digest_of(key, *parts)}"
    return f"{_FORM}{digest_of_bytes(key, whole)}"


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Anchor:
    """The last link of a chain, as the database keeps it.

    Args:
        chain: Id of the chain.
        number: The how manieth chain of the record it is, so that none can vanish between others.
        begun: When it began, in milliseconds since the epoch.
        position: Of its last outcome; 0 while there is none.
        hash: Of its last outcome; empty while there is none.
        keyed: Whether its seals are under a key.
    """

    chain: str
    number: int
    begun: int
    position: int = 0
    hash: str = ""
    keyed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gap:
    """Outcomes of a chain that were removed on purpose: by retention, or replaced once a person had decided.

    Args:
        chain: Id of the chain.
        first: Position of the first of them.
        last: Position of the last of them.
        previous: Hash of the outcome before.
        hash: Hash of the last of them.
        at: When they were removed.
    """

    chain: str
    first: int
    last: int
    previous: str
    hash: str
    at: int


_Entry = TypeVar("_Entry", _Anchor, _Gap)


_ANCHOR, _GAP = "anchor", "gap"
_FIRST_ANCHOR = "anchor of a record that is sealed from the first outcome on"
"""What the seal of such a record's anchors says: the note of it in the state is not sealed itself."""


def _seal_of(entry: _Anchor | _Gap, key: bytes, kind: str) -> str:
    """Return the seal of an anchor or a gap."""
    return digest_of(key, kind, *astuple(entry))


def _seal_of_first(number: int, key: bytes) -> str:
    """Return the seal of the number from which on all chains are under the key."""
    return digest_of(key, _KEYED, number)


def _row_of(entry: _Anchor | _Gap, key: bytes, kind: str) -> Row:
    """Return the row of an anchor or a gap, with a seal of its own."""
    return {**asdict(entry), "seal": _seal_of(entry, key, kind)}


def _read(kind: type[_Entry], row: sa.RowMapping) -> _Entry:
    """Return the anchor or gap of a row; what is no number any more, as SQLite allows, is 0: no seal fits."""
    ways: dict[object, Callable[[object], Any]] = {"int": _number, "str": str, "bool": bool}
    return kind(**{one.name: ways[one.type](row[one.name]) for one in fields(kind)})


class Chain:
    """The chain of one writing process.

    Args:
        key: Key of the seals; empty for none.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._id = uuid4().hex
        self._anchor: _Anchor | None = None
        self._kind = _ANCHOR

    @contextmanager
    def extended(self, connection: sa.Connection) -> Iterator[Links]:
        """Yield what seals outcomes in a transaction; the anchor moves with it.

        After a failure the database says where the chain stands: a transaction may have been kept or not.
        """
        anchor, self._anchor = self._anchor or self._read(connection), None
        links = Links(anchor, self._key)
        yield links
        if links.anchor is not anchor:
            changed = connection.execute(
                sa.update(ANCHOR).where(ANCHOR.c.chain == self._id).values(**self._row_of(links.anchor))
            )
            if not changed.rowcount:
                connection.execute(ANCHOR.insert().values(**self._row_of(links.anchor)))

    def keep(self, links: Links) -> None:
        """Remember where the chain stands, once a transaction is kept."""
        self._anchor = links.anchor

    def _row_of(self, anchor: _Anchor) -> Row:
        return _row_of(anchor, self._key, self._kind)

    def _read(self, connection: sa.Connection) -> _Anchor:
        sealed = connection.execute(sa.select(STATE.c.id).filter_by(name="sealed")).scalar()
        self._kind = _FIRST_ANCHOR if sealed else _ANCHOR
        row = connection.execute(sa.select(ANCHOR).where(ANCHOR.c.chain == self._id)).mappings().first()
        if row is not None:
            return _read(_Anchor, row)
        lock_tables(connection)  # two processes that begin at once have different numbers
        number = connection.execute(sa.select(sa.func.coalesce(sa.func.max(ANCHOR.c.number), 0))).scalar_one() + 1
        if self._key and connection.execute(sa.select(STATE).filter_by(name=_KEYED)).first() is None:
            bare = sa.select(sa.func.coalesce(sa.func.max(ANCHOR.c.number), 0)).where(~ANCHOR.c.keyed)
            first = connection.execute(bare).scalar_one() + 1
            connection.execute(STATE.insert().values(name=_KEYED, at=first, id=_seal_of_first(first, self._key)))
        anchor = _Anchor(chain=self._id, number=number, begun=now_ms(), keyed=bool(self._key))
        connection.execute(ANCHOR.insert().values(**self._row_of(anchor)))
        return anchor


class Links:
    """Seals outcomes, one after the other, within a transaction.

    Args:
        anchor: Where the chain stands.
        key: Key of the seals.
    """

    def __init__(self, anchor: _Anchor, key: bytes) -> None:
        self.anchor, self.key = anchor, key

    def seal(self, rows: OutcomeRows) -> _Anchor:
        """Put the next seal into an outcome's row; return where the chain stands once that is written."""
        position = self.anchor.position + 1
        return replace(self.anchor, position=position, hash=self._put(rows, position, self.anchor.hash))

    def seal_all(self, batch: Iterable[OutcomeRows]) -> None:
        """Put seals into the rows of outcomes that are all going to be written."""
        position, last_hash = self.anchor.position, self.anchor.hash
        for rows in batch:
            position += 1
            last_hash = self._put(rows, position, last_hash)
        self.anchor = replace(self.anchor, position=position, hash=last_hash)

    def _put(self, rows: OutcomeRows, position: int, previous: str) -> str:
        outcome, link = rows.outcome, (self.anchor.chain, position, previous)
        outcome_hash = _hash_of(self.key, link, outcome, rows.attempts)
        outcome["chain"], outcome["position"], outcome["previous"], outcome["hash"] = *link, outcome_hash
        return outcome_hash


def leave_gaps(connection: sa.Connection, identifiers: Sequence[str], key: bytes) -> None:
    """Note that outcomes are about to be removed, so that their places in the chains are known to be empty."""
    columns = (OUTCOME.c[name] for name in SEAL)
    chosen = sa.select(*columns).where(OUTCOME.c.id.in_(identifiers), OUTCOME.c.chain.is_not(None))
    ordered = chosen.order_by(OUTCOME.c.chain, OUTCOME.c.position)
    gaps: list[_Gap] = []
    for chain, position, previous, outcome_hash in connection.execute(ordered):
        before = gaps[-1] if gaps else None
        if before and (before.chain, before.last + 1) == (chain, position):
            gaps[-1] = replace(before, last=position, hash=outcome_hash)
        else:
            gaps.append(
                _Gap(chain=chain, first=position, last=position, previous=previous, hash=outcome_hash, at=now_ms())
            )
    for gap in gaps:
        _save_gap(connection, gap, key)


def _save_gap(connection: sa.Connection, gap: _Gap, key: bytes) -> None:
    """Write a gap, joined with those that it touches."""
    touching = sa.or_(GAP.c.last == gap.first - 1, GAP.c.first == gap.last + 1)
    touching_gaps = sa.select(GAP).where(GAP.c.chain == gap.chain, touching)
    for row in connection.execute(touching_gaps).mappings().all():
        other = _read(_Gap, row)
        if _seal_of(other, key, _GAP) != row["seal"]:
            continue  # not ours, and not to be vouched for
        connection.execute(sa.delete(GAP).where(GAP.c.chain == other.chain, GAP.c.first == other.first))
        if other.last < gap.first:
            gap = replace(gap, first=other.first, previous=other.previous)
        else:
            gap = replace(gap, last=other.last, hash=other.hash)
    connection.execute(GAP.insert().values(**_row_of(gap, key, _GAP)))


def verify_record(
    connection: sa.Connection, key: bytes, heads: Mapping[str, Sequence[Any]] | None = None
) -> Verification:
    """Return whether every outcome in a database is as it was written, and none is missing.

    Args:
        connection: Of a transaction that sees one state of the database.
        key: Key of the seals.
        heads: Those of an earlier verification; every chain must still lead through them.

    Raises:
        ConfigurationError: If the seals are under a key, and none is given, or another one.
    """
    result = Verification()
    anchors, fits, is_first = _anchors(connection, key, result)
    keys = {chain: key if anchor.keyed else b"" for chain, anchor in anchors.items()}
    gaps: dict[str, list[_Gap]] = defaultdict(list)
    for row in connection.execute(sa.select(GAP).order_by(GAP.c.chain, GAP.c.first)).mappings():
        gap = _read(_Gap, row)
        gaps[gap.chain].append(gap)
        if row["seal"] not in {_seal_of(gap, one, _GAP) for one in (key, keys.get(gap.chain, key))}:
            result.add(f"a gap was changed: outcomes {gap.first} to {gap.last} of chain {gap.chain[:8]}")
    sealed_chains = groupby(_outcomes(connection), key=lambda pair: str(pair[0]["chain"]))
    for chain, outcomes in joined(sealed_chains, ((chain, iter(())) for chain in anchors)):
        if chain in result.heads:
            continue
        anchor, sealed, intact = anchors.get(chain), result.sealed, result.sealed - result.changed
        walk = _Walk(chain, keys.get(chain, key), result, dict(heads or {}))
        walk.along(outcomes, gaps.get(chain, []))
        walk.end(anchor)
        if anchor is None or anchor.keyed:
            fits = fits or result.sealed - result.changed > intact
        else:
            result.unkeyed += result.sealed - sealed
    for chain in sorted({*gaps, *(heads or {})} - result.heads.keys()):
        result.add(f"all of chain {chain[:8]} is missing")
    if not fits and result.sealed and (result.keyed or key):
        wanted = (
            f"set {KEY_VARIABLE} to the one that it was written with" if result.keyed else f"unset {KEY_VARIABLE}"
        )
        raise ConfigurationError(f"no seal of this record fits the key: {wanted}")
    result.chains = len(anchors)
    _look_at_the_rest(connection, result, is_first=is_first)
    return result


def _anchors(connection: sa.Connection, key: bytes, result: Verification) -> tuple[dict[str, _Anchor], bool, bool]:
    """Return the anchors by chain, whether any fits the key, and whether any says that every outcome is sealed.

    Those that were changed or are missing are noted.
    """
    rows = connection.execute(sa.select(ANCHOR).order_by(ANCHOR.c.number)).mappings().all()
    anchors = {row["chain"]: _read(_Anchor, row) for row in rows}
    state = connection.execute(sa.select(STATE.c.at, STATE.c.id).filter_by(name=_KEYED)).first()
    first = state.at if state is not None and state.id == _seal_of_first(state.at, key) else 1
    fits = is_first = False
    for row in rows:
        anchor = anchors[row["chain"]]
        seals = {kind: _seal_of(anchor, key if anchor.keyed else b"", kind) for kind in (_ANCHOR, _FIRST_ANCHOR)}
        is_first |= row["seal"] == seals[_FIRST_ANCHOR]
        if row["seal"] not in seals.values():
            result.add(f"the anchor of chain {anchor.chain[:8]} was changed")
        elif anchor.keyed:
            fits = True
        elif key and anchor.number >= first:
            result.add(f"chain {anchor.chain[:8]} is sealed without the key, unlike those before it")
    result.keyed = any(anchor.keyed for anchor in anchors.values())
    numbers = {anchor.number for anchor in anchors.values()}
    missing = (number for number in range(1, max(numbers, default=0)) if number not in numbers)
    for number in islice(missing, _SLICE):  # a changed number may be a huge one
        result.add(f"chain number {number} is missing, with all its outcomes")
    return anchors, fits, is_first


def _outcomes(connection: sa.Connection) -> Iterator[tuple[sa.RowMapping, list[sa.RowMapping]]]:
    """Yield the sealed outcomes with their attempts, chain by chain, in the order of the chains."""
    last: tuple[str, int, str] | None = None
    place = sa.tuple_(OUTCOME.c.chain, OUTCOME.c.position, OUTCOME.c.id)
    while True:
        query = sa.select(OUTCOME).where(OUTCOME.c.chain.is_not(None), OUTCOME.c.position.is_not(None))
        if last is not None:
            query = query.where(OUTCOME.c.chain >= last[0], place > last)  # the first part uses the index
        ordered = query.order_by(OUTCOME.c.chain, OUTCOME.c.position, OUTCOME.c.id).limit(_SLICE)
        rows = connection.execute(ordered).mappings().all()
        if not rows:
            return
        attempts = _attempts_of(connection, [row["id"] for row in rows])
        yield from ((row, attempts[row["id"]]) for row in rows)
        last = (rows[-1]["chain"], rows[-1]["position"], rows[-1]["id"])


def _attempts_of(connection: sa.Connection, identifiers: Sequence[str]) -> dict[str, list[sa.RowMapping]]:
    attempts: dict[str, list[sa.RowMapping]] = defaultdict(list)
    query = sa.select(ATTEMPT).where(ATTEMPT.c.outcome.in_(identifiers))
    for row in connection.execute(query.order_by(ATTEMPT.c.outcome, ATTEMPT.c.number)).mappings():
        attempts[row["outcome"]].append(row)
    return attempts


class _Walk:
    """Goes along one chain.

    Args:
        chain: Id of the chain.
        key: Key of the seals.
        result: Where faults are noted.
        heads: Where the chain stood at an earlier verification.
    """

    def __init__(self, chain: str, key: bytes, result: Verification, heads: Mapping[str, Sequence[Any]]) -> None:
        self._chain, self._key, self._result = chain, key, result
        self._position, self._hash = 0, ""
        self._follows = True
        head = heads.get(chain)
        self._head = None if head is None else (int(head[0]), str(head[1]))

    def along(self, outcomes: Iterator[tuple[sa.RowMapping, list[sa.RowMapping]]], gaps: Sequence[_Gap]) -> None:
        """Go along outcomes and gaps in the order of their positions."""
        gaps_ahead = list(gaps)
        for row, attempts in outcomes:
            while gaps_ahead and gaps_ahead[0].first <= _number(row["position"]):
                self._pass(gaps_ahead.pop(0))
            self._pass_outcome(row, attempts)
        for gap in gaps_ahead:
            self._pass(gap)

    def end(self, anchor: _Anchor | None) -> None:
        """Compare the end of the chain with its anchor."""
        result, name = self._result, self._chain[:8]
        result.heads[self._chain] = (self._position, self._hash)
        if anchor is None:
            result.add(f"the anchor of chain {name} is missing")
        elif anchor.position > self._position:
            result.add(f"outcomes {self._position + 1} to {anchor.position} of chain {name}, its end, are missing")
        elif (anchor.position, anchor.hash) != (self._position, self._hash):
            result.add(f"the anchor of chain {name} does not fit its last outcome")
        if self._head is not None and self._head[0] > self._position:
            result.add(f"chain {name} ended at {self._head[0]} when it was last verified, now at {self._position}")

    def _pass(self, gap: _Gap) -> None:
        self._result.removed += gap.last - gap.first + 1
        self._step(gap.first, gap.last, gap.previous, gap.hash, f"the gap {gap.first} to {gap.last}")

    def _pass_outcome(self, row: sa.RowMapping, attempts: Sequence[sa.RowMapping]) -> None:
        self._result.sealed += 1
        link = (row["chain"], row["position"], row["previous"])
        outcome_hash = str(row["hash"])
        self._result.older += not outcome_hash.startswith(_FORM)
        if _hash_of(self._key, link, row, attempts, outcome_hash) != outcome_hash:
            self._result.changed += 1
            self._result.add(f"outcome {row['id']} was changed")
        position = _number(row["position"])
        self._step(position, position, row["previous"], row["hash"], f"outcome {row['id']}")

    def _step(self, first: int, last: int, previous: str | None, outcome_hash: str | None, name: str) -> None:
        result, chain = self._result, self._chain[:8]
        if first <= self._position:
            result.add(f"{name} is not at its place in chain {chain}")
            return
        if first > self._position + 1:
            result.add(f"outcomes {self._position + 1} to {first - 1} of chain {chain} are missing")
        elif previous != self._hash:
            result.add(f"{name} does not follow the one before it in chain {chain}")
        self._position, self._hash = last, outcome_hash or ""
        if self._head is not None and last == self._head[0] and outcome_hash != self._head[1]:
            result.add(f"chain {chain} is another one up to {name} than when it was last verified")


_STATES = ("sealed", "summed")


def _look_at_the_rest(connection: sa.Connection, result: Verification, *, is_first: bool) -> None:
    """Count outcomes without a seal, and note those that are younger than seals are; likewise lone attempts."""
    bare = OUTCOME.c.chain.is_(None)
    kept = sa.select(STATE).where(STATE.c.name.in_(_STATES))
    states = {name: (_number(at), identifier) for name, at, identifier in connection.execute(kept)}
    for name in set(_STATES) - states.keys():
        result.add(f"the record does not say any more since when, or how far, it is {name}")
    at, identifier = states.get("sealed", (now_ms(), "unknown"))
    summed_at, summed_id = states.get("summed", (0, ""))
    if identifier not in {"", "unknown", SEALED_FROM_THE_FIRST} or summed_at > SUMS_OF_ALL - (summed_id != ""):
        result.add("the record says what it never wrote of since when, or how far, it is sealed or summed")
    if is_first and not identifier:
        result.add("the record says that it was not sealed from the first outcome on, as it was")
    result.unsealed = connection.execute(sa.select(sa.func.count()).where(bare)).scalar_one()
    begun = connection.execute(sa.select(ANCHOR.c.begun)).scalars()  # sealed itself, unlike the state
    since = min([at, *map(_number, begun)])
    late = sa.true() if identifier or is_first else OUTCOME.c.at > since + _GRACE_MS
    if young := connection.execute(sa.select(sa.func.count()).where(bare, late)).scalar_one():
        result.add(f"{young} outcomes have no seal, though they are younger than the record's seals")
    for table in (OUTCOME, ATTEMPT) if connection.dialect.name == "sqlite" else ():
        truths = [sa.type_coerce(one, sa.Integer) for one in table.columns if isinstance(one.type, sa.Boolean)]
        odd = sa.select(sa.func.count()).select_from(table).where(sa.or_(*(one.not_in((0, 1)) for one in truths)))
        if number := connection.execute(odd).scalar_one():  # a 2 is read as sa.true, and no query finds it
            result.add(f"{number} rows of {table.name} have a truth that is neither 0 nor 1")
    alone = (
        sa.select(sa.func.count())
        .select_from(ATTEMPT)
        .where(~sa.exists().where(OUTCOME.c.id == ATTEMPT.c.outcome))
    )
    if lone := connection.execute(alone).scalar_one():
        result.add(f"{lone} attempts belong to no outcome")
