"""Measurements on a robot (positions, markers, pressures, volumes) and their prediction by a result."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from geosim.arguments import guarded
from geosim.arrays import Floats, frozen, number, real_array
from geosim.errors import InputError

MARKER_SIGMA = 1e-3  # [m] of a place that is read off by eye


@guarded
@dataclass(frozen=True)
class Measurement:
    """Measured values and how a result predicts them.

    Build it with `tip`, `displacement`, `markers`, `pressures` or `volumes`, or give any function of a result.

    Parameters
    ----------
    actuation
        What was done to the robot.
    observe
        Result -> array.
    values
        Measured, of the shape that `observe` returns; nan where nothing was measured.
    environment
        Gravity, loads, obstacles of the measurement; default none.
    sigma
        Standard deviation of one value, in its unit; only ratios between measurements matter unless there are too
        few values to estimate it.
    name
        Shown in tables.
    """

    actuation: Any
    observe: Callable[[Any], Any]
    values: Any
    environment: Any = None
    sigma: float = 1.0
    name: str = "measurement"

    def __post_init__(self) -> None:
        values = real_array(self.values, f"{self.name}: values")
        if not np.isfinite(values).any():
            raise InputError(f"{self.name}: values hold no finite number")
        number(self.sigma, f"{self.name}: sigma, in the unit of the values,", above=0.0)
        object.__setattr__(self, "values", frozen(values))

    def predicted(self, result: Any) -> Floats:
        """Return what a result predicts, of the shape of the values.

        Raises
        ------
        InputError
            It has another shape, or is nan where something was measured.
        """
        found = np.asarray(self.observe(result), dtype=float)
        if found.shape != self.values.shape:
            raise InputError(
                f"{self.name}: measured values have shape {self.values.shape}, the result gives {found.shape}"
            )
        if not np.isfinite(found[np.isfinite(self.values)]).all():
            raise InputError(
                f"{self.name}: the result does not know this quantity (nan); measure another or use another solver"
            )
        return found

    def residuals(self, predicted: Floats) -> Floats:
        """Return predicted less measured values over sigma, where something was measured."""
        known = np.isfinite(self.values)
        return np.asarray((predicted[known] - self.values[known]) / self.sigma)

    @classmethod
    def tip(cls, actuation: Any, positions: Any, environment: Any = None, sigma: float = MARKER_SIGMA) -> Measurement:
        """Tip positions in the robot's frame [m], (3,) of the last frame or (k, 3)."""
        last = np.ndim(positions) == 1
        return cls(actuation, lambda r: r.tip[-1] if last else r.tip, positions, environment, sigma, "tip")

    @classmethod
    def displacement(
        cls, actuation: Any, distance: Any, environment: Any = None, sigma: float = MARKER_SIGMA
    ) -> Measurement:
        """Distance of the tip from rest [m]: a number for the last frame or (k,). Needs no common frame."""
        last = np.ndim(distance) == 0

        def observe(result: Any) -> Any:
            robot = result.robot
            moved = np.linalg.norm(result.tip - robot.tip_weights @ robot.vertices[robot.tip], axis=1)
            return moved[-1:] if last else moved

        return cls(actuation, observe, np.atleast_1d(distance), environment, sigma, "tip displacement")

    @classmethod
    def record(cls, actuation: Any, positions: Any, rest: Any, hold: Any, environment: Any = None) -> Measurement:
        """Distance that the mean of tip markers moves between two windows of a record; sigma is the record's noise.

        sigma^2 is the sum over both windows of the variance of the mean along the motion, plus the rounding of the
        record, q^2 / 12 per marker for steps of q. The variance is that of single frames, not of their average: marker
        noise, creep and swinging last longer than a frame, so the frames of a window are not independent.

        Parameters
        ----------
        actuation, environment
            What was done to the robot between `rest` and `hold`.
        positions
            Markers on the tip [m], shape (frames, m, 3); nan where a marker is missing.
        rest, hold
            Windows of frames: slices or indices.

        Raises
        ------
        InputError
            A window holds fewer than two frames with all markers, or the markers have not moved.
        """
        series = np.asarray(positions, dtype=float)
        if series.ndim != 3 or series.shape[-1] != 3:
            raise InputError(f"Measurement.record: positions have shape {series.shape}; (frames, markers, 3) [m]")
        windows = []
        for name, window in (("rest", rest), ("hold", hold)):
            seen = series[window]
            seen = seen[np.isfinite(seen).all(axis=(1, 2))] if seen.ndim == 3 else seen[:0]
            if len(seen) < 2:
                raise InputError(
                    f"Measurement.record: the window {name} holds {len(seen)} frames with all markers; 2 at least"
                )
            windows.append(seen)
        means = [w.mean(axis=1) for w in windows]
        motion = means[1].mean(axis=0) - means[0].mean(axis=0)
        distance = float(np.linalg.norm(motion))
        if not distance > 0:
            raise InputError("Measurement.record: the markers have not moved between the windows")
        levels = np.unique(np.concatenate([w.ravel() for w in windows]))
        steps = np.diff(levels)
        # a record that is not rounded has gaps of all sizes; one that is has multiples of its step
        step = float(steps[steps > 1e-9].min(initial=np.inf))
        rounding = step**2 / 12.0 / series.shape[1] if np.isfinite(step) else 0.0
        variance = sum(float((m @ (motion / distance)).var(ddof=1)) + rounding for m in means)
        if not variance > 0:
            raise InputError(
                "Measurement.record: the record has no noise at all; use Measurement.displacement with a sigma"
            )
        made = cls.displacement(actuation, distance, environment, float(np.sqrt(variance)))
        return dataclasses.replace(made, name="record of the tip")

    @classmethod
    def markers(
        cls, actuation: Any, vertices: Any, positions: Any, environment: Any = None, sigma: float = MARKER_SIGMA
    ) -> Measurement:
        """Marker positions in the robot's frame [m], (m, 3) of the last frame or (k, m, 3), on vertices (m,)."""
        ids = np.asarray(vertices, dtype=int)
        last = np.ndim(positions) == 2
        return cls(
            actuation,
            lambda r: r.frames[-1][ids] if last else r.frames[:, ids],
            positions,
            environment,
            sigma,
            "markers",
        )

    @classmethod
    def pressures(cls, actuation: Any, values: Any, environment: Any = None, sigma: float = 100.0) -> Measurement:
        """Chamber pressures [Pa] of prescribed volumes, (k,) or (k, chambers)."""
        return cls(
            actuation,
            lambda r: np.reshape(r.chamber_pressures, np.shape(values)),
            values,
            environment,
            sigma,
            "pressure",
        )

    @classmethod
    def volumes(cls, actuation: Any, values: Any, environment: Any = None, sigma: float = 1e-8) -> Measurement:
        """Chamber volumes [m^3] at prescribed pressures, (k,) or (k, chambers)."""
        return cls(
            actuation, lambda r: np.reshape(r.chamber_volumes, np.shape(values)), values, environment, sigma, "volume"
        )
