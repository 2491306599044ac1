"""The door of every metric: arrays come in checked, or an `InputError` says what is wrong."""

import operator
from typing import Any, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from howsure.errors import InputError

Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


def array(what: str, values: ArrayLike, *, ndim: int) -> NDArray[Any]:
    """A non-empty array with `ndim` axes."""
    try:
        found = np.asarray(values)
    except (
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:  # tensors with a gradient, on a GPU, in bfloat16; ragged lists
        fix = "pass an array, or tensor.detach().float().cpu()"
        raise InputError(what, expected="something numpy.asarray takes", got=f"{error}", fix=fix) from error
    if found.ndim != ndim:
        raise InputError(what, expected=f"{ndim} axes", got=f"shape {found.shape}")
    if found.size == 0:
        raise InputError(
            what, expected="at least one value", got=f"shape {found.shape}", fix="there is nothing to judge"
        )
    return found


def numeric(what: str, values: ArrayLike, *, ndim: int = 1) -> NDArray[Any]:
    """Numbers without NaN, in the dtype they came in. Infinity is a legal score: it only has to rank."""
    found = array(what, values, ndim=ndim)
    if found.dtype.kind not in "biuf":
        raise InputError(what, expected="numbers", got=f"dtype {found.dtype}")
    if np.isnan(found).any():
        fix = "find out where they come from before measuring anything"
        raise InputError(what, expected="no NaN", got=f"{int(np.isnan(found).sum())} NaN of {found.size}", fix=fix)
    return found


def scores(what: str, values: ArrayLike) -> Floats:
    """One float per item, without NaN."""
    return numeric(what, values).astype(np.float64)


def flags(what: str, values: ArrayLike, *, ndim: int = 1) -> Bools:
    """True or false per item; 0 and 1 are taken as such, any other number is a mistake."""
    found = numeric(what, values, ndim=ndim)
    wrong = found[(found != 0) & (found != 1)]
    if wrong.size:
        fix = "pass true or false (0 or 1) for each, not labels or scores"
        raise InputError(what, expected="booleans", got=f"the value {wrong[0]}", fix=fix)
    return found.astype(np.bool_)


def both_classes(what: str, values: ArrayLike) -> Bools:
    """Flags of which at least one is true and one is false."""
    found = flags(what, values)
    if found.all() or not found.any():
        only = "only true ones" if found.all() else "only false ones"
        fix = "the metric is undefined with one class; add items of the other"
        raise InputError(what, expected="both true and false ones", got=only, fix=fix)
    return found


def probabilities(what: str, values: ArrayLike) -> Floats:
    """One number in [0, 1] per item."""
    found = scores(what, values)
    wrong = found[(found < 0) | (found > 1)]
    if wrong.size:
        fix = "calibrate scores to probabilities first"
        raise InputError(what, expected="probabilities in [0, 1]", got=f"the value {wrong[0]}", fix=fix)
    return found


def names(what: str, values: ArrayLike, *, ndim: int = 1) -> NDArray[Any]:
    """Ids or labels: all text, or all numbers."""
    found = array(what, values, ndim=ndim)
    if found.dtype.kind == "O" and all(isinstance(value, str) for value in found.flat):
        found = found.astype(np.str_)
    if found.dtype.kind == "U":
        return found
    return numeric(what, found, ndim=ndim)


def comparable(what: str, first: NDArray[Any], second: NDArray[Any]) -> None:
    """Text never equals a number, so comparing them would quietly find nothing."""
    if (first.dtype.kind == "U") != (second.dtype.kind == "U"):
        fix = "use text on both sides or numbers on both"
        raise InputError(what, expected="one type", got=f"{first.dtype} and {second.dtype}", fix=fix)


def same_length(**arrays: NDArray[Any]) -> None:
    """Arrays that speak of the same items have the same first axis."""
    lengths = {what: len(values) for what, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{length} {what}" for what, length in lengths.items())
        raise InputError(" and ".join(lengths), expected="one entry per item in each", got=got)


def positive_int(what: str, value: int) -> int:
    """A whole number of at least 1."""
    try:
        found = operator.index(value)
    except TypeError:
        raise InputError(what, expected="a whole number", got=repr(value)) from None
    if found < 1:
        raise InputError(what, expected="at least 1", got=str(found))
    return found


def fraction(what: str, value: float, *, zero: bool) -> float:
    """A number in [0, 1], or in (0, 1] without `zero`."""
    if not (0 < value <= 1 or (zero and value == 0)):
        raise InputError(what, expected=f"a number in {'[' if zero else '('}0, 1]", got=repr(value))
    return float(value)


def choice(what: str, value: str, choices: Any) -> None:
    """One of the values of a `Literal`."""
    if value not in get_args(choices):
        raise InputError(what, expected=" or ".join(map(repr, get_args(choices))), got=repr(value))
