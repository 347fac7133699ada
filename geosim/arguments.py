"""One guard for what is public: an argument of an impossible kind is an `InputError` that names it, not a traceback.

The allowed arguments are in the annotations. They are read only after a call has failed, so a call that goes well costs
nothing, and what an object says about its own values comes first. A failure while all arguments are of their kinds is a fault
of geosim (or of a user's callable) and goes on as it is.
"""

from __future__ import annotations

import datetime
import difflib
import functools
import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from geosim.arrays import shown
from geosim.errors import GeosimError, InputError

T = TypeVar("T")


class Kind(NamedTuple):
    """What may stand for an argument that has no type of its own: whether a value is one, and what messages call it."""

    fits: Callable[[Any], bool]
    called: str


MAX_INTEGER, MAX_FLOAT = 2**63, sys.float_info.max  # numbers that numpy holds
# What Python, numpy and scipy raise where a value is of another kind than they work with.
MISFIT_ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
# Kinds that annotations name -> whether a value is one, and what messages call it.
PLAIN_KINDS: dict[Any, Kind] = {
    bool: Kind(lambda v: isinstance(v, (bool, np.bool_)), "True or False"),
    int: Kind(
        lambda v: isinstance(v, Integral) and not isinstance(v, bool) and -MAX_INTEGER <= int(v) < MAX_INTEGER,
        "a whole number",
    ),
    float: Kind(lambda v: isinstance(v, Real) and not isinstance(v, bool) and _is_finite(v), "a finite number"),
    str: Kind(lambda v: isinstance(v, str) and "\0" not in v, "a text"),
    Path: Kind(lambda v: isinstance(v, os.PathLike), "a path"),
    types.NoneType: Kind(lambda v: v is None, "None"),
    np.ndarray: Kind(lambda v: _is_numeric(v), "an array of numbers"),
    ArrayLike: Kind(lambda v: _is_numeric(v), "an array of numbers"),
    Any: Kind(lambda v: not _is_odd(v), "of another kind"),
}
# No argument of geosim is one of these; what a user's own class is, the function itself has to say.
REFUSED_TYPES = (
    complex,
    bytes,
    bytearray,
    set,
    slice,
    range,
    type,
    BaseException,
    datetime.date,
    Decimal,
    types.EllipsisType,
)
_CALLABLE = typing.get_origin(Callable[..., Any])
MAX_CHECKED_ITEMS = 1000  # items of a sequence that are looked at


# Words that users write -> what the same is called here, where the spelling does not lead there.
OTHER_NAMES = {
    "kpa": ("pressure_kpa", "pressure"),
    "kilopascal": ("pressure_kpa", "pressure"),
    "ratio": ("volume_ratio",),
    "volume": ("volume_ratio",),
    "under": ("below",),
    "max": ("below", "upper"),
    "over": ("above",),
    "min": ("above", "lower"),
    "from_stl": ("from_surfaces",),
    "from_step": ("from_surfaces",),
    "from_mesh": ("from_tets",),
    "from_msh": ("from_tets",),
    "from_vtu": ("from_tets",),
    "ball": ("sphere",),
    "size": ("radius",),
    "file": ("surface",),
    "fixed": ("fixed_vertices",),
    "material": ("rod_material",),
    "wall": ("plane",),
    "floor": ("plane",),
}


def suggestion(given: str, known: Iterable[str]) -> str:
    """Return ", did you mean 'x'?" for the nearest known word, or nothing."""
    words = list(known)
    near = [name for name in OTHER_NAMES.get(given.lower(), ()) if name in words]
    near = near or difflib.get_close_matches(given, words, n=1, cutoff=0.5)
    return f", did you mean {near[0]!r}?" if near else ""


class Suggesting(type):
    """The type of a class that answers a wrong name of an attribute with the nearest one that it has."""

    def __getattr__(cls, name: str) -> Any:
        hint = "" if name.startswith("_") else suggestion(name, (n for n in dir(cls) if not n.startswith("_")))
        raise AttributeError(f"{cls.__name__} has no {name!r}{hint}", name=name, obj=None)


def guarded(public: T) -> T:
    """Guard a public function, or all public methods of a class and its construction."""
    if not isinstance(public, type):
        return typing.cast(T, _guarded(typing.cast(Any, public), getattr(public, "__name__", "")))
    for name, member in list(vars(public).items()):
        if name.startswith("_") and name not in ("__init__", "__call__"):
            continue
        owner = public.__name__ if name == "__init__" else f"{public.__name__}.{name}"
        if isinstance(member, (staticmethod, classmethod)):
            setattr(public, name, type(member)(_guarded(member.__func__, owner)))
        elif inspect.isfunction(member):
            setattr(public, name, _guarded(member, owner))
    return public


def _guarded(function: Callable[..., Any], owner: str) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except GeosimError:
            raise
        except MISFIT_ERRORS as error:
            _check_names(owner, function, signature, kwargs)
            wrong = _misfit(function, signature, args, kwargs)
            if wrong is None:
                raise
            raise InputError(f"{owner}: {wrong} ({type(error).__name__}: {error})") from error

    call.guarded = True  # type: ignore[attr-defined]
    return call


def _check_names(
    owner: str, function: Callable[..., Any], signature: inspect.Signature, kwargs: Mapping[str, Any]
) -> None:
    """Raise a `TypeError`, as Python does, that says which argument does not exist and what it is called."""
    known = [name for name in signature.parameters if name != "self"]
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            options = _keywords(_resolved(parameter.annotation, function))
            if not options:  # whatever is given goes on
                return
            known = [*(name for name in known if name != parameter.name), *options]
    for key in kwargs:
        if key not in known:
            unit = " [Pa]" if "kpa" in key.lower() and "pressure" in known else ""
            said = f"{owner}: there is no argument {key!r}{suggestion(key, known)}{unit}; there are {', '.join(known)}"
            raise TypeError(said) from None


def _misfit(
    function: Callable[..., Any], signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str | None:
    """Say which argument is of an impossible kind; None if none is, or if arguments are missing or too many."""
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None
    for name, value in bound.items():
        parameter = signature.parameters[name]
        if value is parameter.default:  # whatever its annotation says
            continue
        kind = _resolved(parameter.annotation, function)
        if parameter.kind is parameter.VAR_KEYWORD:
            known = _keywords(kind)
            given = {key: (item, known.get(key, Any)) for key, item in value.items()}
        elif parameter.kind is parameter.VAR_POSITIONAL:
            given = {f"{name}[{i}]": (item, kind) for i, item in enumerate(value)}
        else:
            given = {name: (value, kind)}
        for key, (item, wanted) in given.items():
            if not _fits(item, wanted):
                return f"{key} = {shown(item)} must be {_called(wanted)}"
    return None


def _resolved(annotation: Any, function: Callable[..., Any]) -> Any:
    """Return what an annotation says; one that cannot be read here (it is imported for type checkers alone) says nothing."""
    if not isinstance(annotation, str):
        return Any if annotation is inspect.Parameter.empty else annotation
    try:
        return eval(annotation, function.__globals__)
    except (NameError, TypeError):
        return Any


def _keywords(kind: Any) -> dict[str, Any]:
    """Return the kinds of `**options: Unpack[Options]`."""
    inner = typing.get_args(kind)
    return typing.get_type_hints(inner[0]) if inner and typing.is_typeddict(inner[0]) else {}


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind; of a kind that is not known every value is one."""
    if kind in PLAIN_KINDS:
        return PLAIN_KINDS[kind].fits(value)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is None:
        return _is_one(value, kind)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, part) for part in inner)
    if origin is typing.Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if origin is np.ndarray:
        return _is_numeric(value)
    return _fits_container(value, origin, inner) if isinstance(origin, type) else True


def _fits_container(value: Any, origin: type, inner: tuple[Any, ...]) -> bool:
    """Whether a value is of a class with parameters, and what it holds of the kinds that those name."""
    if getattr(origin, "_is_protocol", False):
        return _is_one(value, origin)
    if origin is tuple and inner[-1:] != (...,):
        return isinstance(value, (list, tuple)) and len(value) == len(inner) and all(map(_fits, value, inner))
    if origin is type:
        return isinstance(value, type)
    single = isinstance(value, (str, bytes, bytearray)) or (isinstance(value, np.ndarray) and value.ndim == 0)
    if single or not isinstance(value, (list, tuple) if origin is tuple else origin):
        return origin is _CALLABLE and callable(value)
    return _all_fit(value, inner[:1] if origin is tuple else inner)


def _all_fit(value: Any, inner: tuple[Any, ...]) -> bool:
    """Whether what a mapping or a sequence holds is of the kinds that it is to hold."""
    if isinstance(value, Mapping) and len(inner) == 2:
        return all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in list(value.items())[:MAX_CHECKED_ITEMS])
    if isinstance(value, (list, tuple, set, frozenset, range)) and len(inner) == 1:
        return all(_fits(item, inner[0]) for item in list(value)[:MAX_CHECKED_ITEMS])
    return True


def _is_one(value: Any, kind: Any) -> bool:
    """Whether a value is an instance of a class; of a protocol, whether it has what that names."""
    if not isinstance(kind, type):
        return True
    if getattr(kind, "_is_protocol", False):
        return not isinstance(value, type) and all(hasattr(value, name) for name in _named(kind))
    return isinstance(value, kind)


def _named(protocol: type) -> Iterable[str]:
    return (name for name in vars(protocol) if not name.startswith("_"))


def _is_finite(value: Any) -> bool:
    try:
        return abs(float(value)) <= MAX_FLOAT
    except OverflowError:
        return False


def _is_odd(value: Any) -> bool:
    """Whether a value is of no use anywhere: of a kind that no function takes, or rows of different length."""
    if isinstance(value, REFUSED_TYPES) or type(value) is object or value is NotImplemented:
        return True
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return not -MAX_INTEGER <= value < MAX_INTEGER if isinstance(value, int) else False
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype.kind not in "biufU"
    if isinstance(value, (list, tuple, np.ndarray)):
        return any(
            _is_odd(item) for item in list(np.ravel(np.array(value, dtype=object)))[:MAX_CHECKED_ITEMS]
        ) or _is_ragged(value)
    return False


def _is_ragged(value: Any) -> bool:
    try:
        np.asarray(value)
    except ValueError:
        return True
    except (OverflowError, TypeError):
        return False
    return False


def _is_numeric(value: Any) -> bool:
    try:
        return not isinstance(value, (str, bytes, bytearray)) and np.asarray(value).dtype.kind in "biuf"
    except (OverflowError, TypeError, ValueError):
        return False


def _called(kind: Any) -> str:
    """What messages call a kind."""
    if kind in PLAIN_KINDS:
        return PLAIN_KINDS[kind].called
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        *parts, last = dict.fromkeys(_called(part) for part in inner)
        return f"{', '.join(parts)} or {last}" if parts else last
    if origin is typing.Literal:
        return f"one of {', '.join(map(repr, inner))}"
    if origin is np.ndarray:
        return PLAIN_KINDS[np.ndarray].called
    if origin is _CALLABLE:
        return "a function"
    if origin is tuple and inner[-1:] != (...,):
        return f"{len(inner)} values: {', '.join(map(_called, inner))}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a table"
    if isinstance(origin, type):
        return f"a sequence, each {_called(inner[0])}" if inner and inner[0] not in (Any, ...) else "a sequence"
    name = getattr(kind, "__name__", str(kind))
    return f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"
