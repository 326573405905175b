"""Trace a monoid's functions: call each once with symbols of some dtypes, and keep the trees.

Kernels fold these trees, caches hash them, and workers receive them; the functions stay where they
were declared.
"""

from __future__ import annotations

import functools
import inspect
import operator
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from chunkfold.kernels.dtypes import EXACT, field_dtype, is_table
from chunkfold.kernels.errors import MonoidError
from chunkfold.kernels.expressions import operations
from chunkfold.kernels.expressions.library import as_symbol
from chunkfold.kernels.expressions.meanings import verify
from chunkfold.kernels.expressions.nodes import BOOL, INDEX, Node, constant, field_node, walk
from chunkfold.kernels.expressions.symbols import ComplexSymbol, Symbol
from chunkfold.kernels.monoid.accumulate import Accumulate
from chunkfold.kernels.monoid.trees import (
    FieldTrees,
    StateTrees,
    Traced,
    element_symbol,
    is_missing,
)

if TYPE_CHECKING:
    from chunkfold.kernels.monoid.monoid import Monoid

_OF_KINDS = {"f": "f8", "i": "i8", "u": "u8", "c": "c16", "m": "m8[s]", "M": "M8[s]", "b": "?"}
"""A dtype of each kind of elements, the likeliest first."""
_TEXT = "OpenCL C text; write a function of symbols, as lift=lambda x: x * x (docs/monoids.md)"


class SymbolFields:
    """An accumulator or a state, as functions see it: each field is a symbol."""

    def __init__(self, holder: str, dtypes: Mapping[str, str]) -> None:
        self.__dict__.update(
            {
                name: Symbol(field_node(holder, name, np.dtype(d)))
                for name, d in dtypes.items()
                if d != EXACT
            }
        )

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"no field is called {name!r}; fields: {', '.join(self.__dict__)}")


def first_kind(monoid: Monoid) -> np.dtype:
    """Return the dtype with which a monoid's functions are tried when it is declared."""
    return next(kinds_tried(monoid))


def kinds_tried(monoid: Monoid) -> Iterator[np.dtype]:
    """Yield a dtype of each of a monoid's kinds of elements, the likeliest first."""
    found = [dtype for kind, dtype in _OF_KINDS.items() if kind in monoid.kinds]
    yield from map(np.dtype, found or ["f8"])


def traced(monoid: Monoid, values: Sequence[np.dtype], *, fp64: bool = True) -> Traced:
    """Return the trees of a monoid for inputs of some dtypes; of masks, too, behind its own.

    Raises
    ------
    MonoidError
        If a function raises, or gives something else than expressions of its fields.
    """
    held = operations.has_float64.set(fp64)
    try:
        return _Trace(monoid, values, fp64).traced()
    finally:
        operations.has_float64.reset(held)


class _Trace:
    """Calls the functions of one monoid."""

    def __init__(self, monoid: Monoid, values: Sequence[np.dtype], fp64: bool) -> None:
        self._monoid, self._fp64, self._value = monoid, fp64, values[0]
        self._values = values[: monoid.inputs]
        every = [element_symbol(number, dtype) for number, dtype in enumerate(values)]
        self._elements, self._masks = every[: monoid.inputs], every[monoid.inputs :]
        self._index = Symbol(INDEX)
        self.dtypes = {name: self._dtype(rule) for name, rule in monoid.fields.items()}

    def _dtype(self, rule: str) -> str:
        if rule == EXACT:
            return EXACT
        return "int64" if is_table(rule) else field_dtype(rule, self._value, self._fp64)

    def traced(self) -> Traced:
        ways = tuple(self._state(one) for one in self._monoid.accumulates)
        lift, adds = self._lift()
        found = Traced(self.dtypes, lift, self._op(), ways, self._ignored(), adds)
        verify(found.trees)
        return found

    def _ignored(self) -> Node | None:
        """Return the condition that an element is missing, or left out by `where` or a mask."""
        pairs = list(zip(self._elements, self._values, strict=True))
        slots = self._monoid.slots
        own = len(pairs) - self._monoid.weights - slots
        found = [is_missing(one, dtype) for one, dtype in pairs[:own]]
        beside = [one for one in self._masks if isinstance(one, Symbol)]
        maps = [one for one in beside if one.dtype != BOOL]
        masks = [one for one in found if one is not None] if self._monoid.skipna else []
        if self._monoid.where is not None:
            elements = *self._elements[: len(pairs) - slots], *maps
            there = self._called("where", self._monoid.where, *elements)
            if maps and not (isinstance(there, Symbol) and maps[0].node in walk([there.node])):
                raise self._error(
                    "where ignores the map given with it: use its last parameter, as in "
                    "lambda x, y: x > y"
                )
            if not isinstance(there, (Symbol, bool, np.bool_)):
                raise self._error(f"where gives {there!r}; give a condition, as lambda x: x > 0")
            masks.append(
                ~there.astype(BOOL) if isinstance(there, Symbol) else as_symbol(not there, BOOL)
            )
        masks += [~mask.astype(BOOL) for mask in beside if mask.dtype == BOOL]
        ignored = functools.reduce(operator.or_, masks).node if masks else None
        return None if ignored is constant(False, BOOL) else ignored

    def _lift(self) -> tuple[FieldTrees, Mapping[str, tuple[tuple[Node, Node], ...]]]:
        lift = self._monoid.lift
        if isinstance(lift, Mapping):
            made: Any = {name: self._of_element("lift", one) for name, one in lift.items()}
        else:
            made = self._of_element("lift", lift)
        if len(self.dtypes) == 1 and not isinstance(made, Mapping):
            made = {next(iter(self.dtypes)): made}
        adds = {}
        for name, given in made.items() if isinstance(made, Mapping) else ():
            if isinstance(given, list) and is_table(self._monoid.fields.get(name, "")):
                adds[name] = self._adds(name, given)
        firsts = {name: pairs[0][0] for name, pairs in adds.items()}
        plain = made | {n: Symbol(one) for n, one in firsts.items()} if adds else made
        return self._trees("lift", plain, self.dtypes, bare=True), adds

    def _adds(self, name: str, given: list[Any]) -> tuple[tuple[Node, Node], ...]:
        """Return the pairs of a counter's number and what is added to it."""
        if not given or not all(isinstance(one, tuple) and len(one) == 2 for one in given):
            raise self._error(
                f"lift gives table {name!r} {given!r}; give a counter's number, or a list of "
                "pairs: a counter's number, and the integer that is added to it"
            )
        with self._errors(f"lift of {name!r}"):
            return tuple(
                (_converted(number, "int64").node, _converted(amount, "int64").node)
                for number, amount in given
            )

    def _op(self) -> Mapping[str, str | Node]:
        op, names = self._monoid.op, self._monoid.fields
        if isinstance(op, str):
            return dict.fromkeys(names, op)
        a, b = (SymbolFields(side, self.dtypes) for side in "ab")
        if not isinstance(op, Mapping):
            return self._trees("op", self._called("op", op, a, b), self.dtypes, bare=True)
        made: dict[str, str | Node] = {}
        for name, one in op.items():
            if isinstance(one, str):
                made[name] = one
            else:
                given = {name: self._called(f"op[{name!r}]", one, a, b)}
                made |= self._trees(f"op[{name!r}]", given, {name: self.dtypes[name]})
        return made

    def _state(self, given: Accumulate) -> StateTrees:
        dtypes = {n: field_dtype(r, self._value, self._fp64) for n, r in given.state.items()}
        s, part = SymbolFields("s", dtypes), self._part
        first = part("first", self._of_element("accumulate.first", given.first), dtypes)
        stepped = {name: dtype for name, dtype in dtypes.items() if name not in first}
        step = self._of_element("accumulate.step", given.step, s)
        if isinstance(given.end, Mapping):
            end = {n: self._called("accumulate.end", one, s) for n, one in given.end.items()}
        else:
            end = self._called("accumulate.end", given.end, s)
        return StateTrees(
            dtypes,
            self._trees("accumulate.step", step, stepped),
            part("end", end, self.dtypes),
            first,
            part("carry", self._called("accumulate.carry", given.carry, s), dtypes),
        )

    def _of_element(self, what: str, function: Any, *state: SymbolFields) -> Any:
        """Call a function of elements, and of the index if it has a parameter for it."""
        if not callable(function):
            return self._called(what, function)
        given = [*state, *self._elements]
        if _parameters(function) > len(given):
            given.append(self._index)
        return self._called(what, function, *given)

    def _called(self, what: str, function: Any, *given: Any) -> Any:
        """Call a function; a number is what it would return, and None nothing at all."""
        if function is None or (isinstance(function, (int, float)) and what.startswith("lift")):
            return {} if function is None else function
        if not callable(function):
            raise self._error(f"{what} is {function!r}, " + self._remedy(function))
        with self._errors(what):
            return function(*given)

    @staticmethod
    def _remedy(given: object) -> str:
        return _TEXT if isinstance(given, str) else "which is not a function of symbols"

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Say where in the user's function what went wrong."""
        try:
            yield
        except MonoidError:
            raise
        except Exception as error:
            raise self._error(f"{what} failed{_place(error)}: {error}") from error

    def _error(self, text: str) -> MonoidError:
        dtypes = " and ".join(map(str, self._values))
        return MonoidError(f"monoid {self._monoid.name!r} of {dtypes}: {text}")

    def _part(self, part: str, given: Any, dtypes: Mapping[str, str]) -> FieldTrees:
        """Return an optional part of an `Accumulate`, which may name some of the fields."""
        what = f"accumulate.{part}"
        if not isinstance(given, Mapping):
            raise self._error(f"{what} gives {given!r}; give a mapping of fields and expressions")
        unknown = set(given) - set(dtypes)
        if unknown:
            raise self._error(f"{what} names {sorted(unknown)}; the fields are {', '.join(dtypes)}")
        return self._trees(what, given, {name: dtypes[name] for name in given})

    def _trees(
        self, what: str, given: Any, dtypes: Mapping[str, str], *, bare: bool = False
    ) -> FieldTrees:
        """Return the trees of expressions, converted to the fields' dtypes."""
        if bare and len(dtypes) == 1 and not isinstance(given, Mapping):
            given = {next(iter(dtypes)): given}
        if not isinstance(given, Mapping):
            raise self._error(
                f"{what} gives {given!r}; give a mapping of {', '.join(dtypes)} and expressions"
            )
        if set(given) != set(dtypes):
            raise self._error(f"{what} names {sorted(given)}, but should name {sorted(dtypes)}")
        made = {}
        for name, dtype in dtypes.items():
            one = given[name]
            if isinstance(one, ComplexSymbol):
                raise self._error(f"{what} gives {name!r} a complex number; give .real or .imag")
            if isinstance(one, str):
                raise self._error(f"{what} gives {name!r} {one!r}, {_TEXT}")
            with self._errors(f"{what} of {name!r}"):
                made[name] = _converted(one, dtype).node
        return made


def _converted(one: Symbol | float, dtype: str) -> Symbol:
    """Return a value as a field takes it; what is summed exactly stays what it is."""
    if dtype == EXACT:
        return one if isinstance(one, Symbol) else as_symbol(one, np.dtype(np.float64))
    return as_symbol(one, np.dtype(dtype))


def _parameters(function: Callable[..., Any]) -> int:
    """Return how many parameters a function can be given by position; 0 if it does not tell."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in plain and one.default is one.empty for one in found)


_OWN = (__file__, str(Path(operations.__file__).parent))
"""Files whose lines are none of the user's."""


def _place(error: Exception) -> str:
    """Return where the user's function was when it failed."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_OWN)
    ]
    if not frames:
        return ""
    last = frames[-1]
    return f' at {last.filename}:{last.lineno}, "{last.line}"' if last.line else ""
