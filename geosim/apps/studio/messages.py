"""What a page may say to the studio; everything else is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from geosim.errors import InputError

__all__ = [
    "MAX_MESSAGE_BYTES",
    "Message",
    "Reach",
    "Save",
    "Search",
    "Send",
    "Sensitivities",
    "Stop",
    "Turn",
    "read_message",
]

Send = Callable[[Mapping[str, Any], bytes | None], None]  # takes what a process says: a header, and a frame or none
MAX_MESSAGE_BYTES = 4096
MAX_TRIALS = 200
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"  # of a folder: no separator, no dot, so it leads nowhere else


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Turn(_Said):
    """Knobs at other values."""

    do: Literal["turn"]
    values: dict[str, Annotated[float | int | str, Field(union_mode="left_to_right")]] = Field(
        min_length=1, max_length=16
    )


Degrees = Annotated[float, Field(ge=0.0, le=720.0, allow_inf_nan=False)]


class Reach(_Said):
    """Which command bends the robot by an angle [deg]."""

    do: Literal["reach"]
    degrees: Degrees


class Sensitivities(_Said):
    """What every dimension does."""

    do: Literal["sensitivities"]


class Search(_Said):
    """Which dimensions bend the robot by an angle [deg] at the present command."""

    do: Literal["search"]
    degrees: Degrees
    keys: list[str] = Field(min_length=1, max_length=6)
    trials: int = Field(ge=1, le=MAX_TRIALS)


class Save(_Said):
    """Write files into a new folder of this name where the studio was started."""

    do: Literal["save"]
    name: str = Field(pattern=NAME)


class Stop(_Said):
    """End the running request."""

    do: Literal["stop"]


Message = Annotated[Turn | Reach | Sensitivities | Search | Save | Stop, Field(discriminator="do")]
_ADAPTER: TypeAdapter[Message] = TypeAdapter(Message)


def read_message(text: str | bytes) -> Message:
    """Return what a page says.

    Raises
    ------
    InputError
        It is longer than `MAX_MESSAGE_BYTES`, no JSON, or says something else.
    """
    if len(text) > MAX_MESSAGE_BYTES:
        raise InputError(f"a message of {len(text)} characters; at most {MAX_MESSAGE_BYTES} are read")
    try:
        return _ADAPTER.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InputError(f"not understood: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
