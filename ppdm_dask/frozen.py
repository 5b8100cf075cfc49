"""Objects that nothing changes after they are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from functools import wraps
from typing import TYPE_CHECKING, Any

_OPEN = "_open"


class Frozen:
    """A class whose constructors assign attributes plainly, and nothing assigns or deletes later.

    A ``functools.cached_property`` works as ever: it writes past the guard.
    """

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "__init__" in vars(cls):
            setattr(cls, "__init__", _opening(vars(cls)["__init__"]))  # noqa: B010, for mypy

    # Type checkers look for attributes in the constructors, not here.
    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> None:
            if _OPEN not in self.__dict__:
                raise FrozenInstanceError(f"cannot assign to field {name!r}")
            self.__dict__[name] = value

        def __delattr__(self, name: str) -> None:
            raise FrozenInstanceError(f"cannot delete field {name!r}")


def _opening(init: Callable[..., None]) -> Callable[..., None]:
    """The constructor, with the object open to assignments until the outermost one returns."""

    @wraps(init)
    def __init__(self: Any, *args: Any, **keywords: Any) -> None:
        own = self.__dict__
        if _OPEN in own:  # called by the constructor of a subclass
            init(self, *args, **keywords)
            return
        own[_OPEN] = True
        try:
            init(self, *args, **keywords)
        finally:
            del own[_OPEN]

    return __init__


def settle(instance: object, **values: Any) -> None:
    """Set fields of a frozen dataclass, from its constructor or ``__post_init__`` only."""
    vars(instance).update(values)
