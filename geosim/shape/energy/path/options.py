"""The constants of the continuation: one dataclass, each with its reason.

`tests/shape/energy/test_constants.py` keeps cases that move with another value. `python scripts/knobs.py options` doubles and
halves every one of them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ContinuationOptions:
    """How long increments are, when they are given up, and what is done then. Lengths `_rel` are over the size of the body.

    Parameters
    ----------
    max_slide_edges
        What touches a rough obstacle slides at most this many skin edges in one increment, so that it follows the direction
        of its slip: halving the commands then changes forces by less than 2 %.
    prediction_miss_share
        Share of an increment by which its prediction may miss the equilibrium for the next one to be as long.
    branch_jump_share
        Where the prediction misses by more than this share of itself, the equilibrium found may lie on another branch: the
        increment is taken again, from nearer; unless the body would have to creep otherwise, and would stay there, too.
    collapsed_increment_share
        Increments that are shorter than this share of the longest since the last relaxation are given up for a relaxation;
        just after one, at once.
    relaxation_load_ahead
        A relaxation aims at most so far on, as a share of the command.
    snap_displacement_rel, limit_load_bracket
        A body that moves farther by itself in a relaxation has no stable state near: the load has its limit there, known to
        this share of the command.
    min_step_bound_rel
        No step is held shorter than this, and a shorter increment is not cut for what its prediction missed: where notches
        have closed a body moves a thousand times less for its load, and a miss of 1e-4 of the size says little. Measured on a
        notched finger (P1, 3.2k tets, cable of 8 N): 83 % of the load after 254 Newton, and 55 % where it is cut.
    max_increment_growth
        Most that the length of an increment grows and falls by.
    retry_length_share, max_increment_failures
        An increment that fails is tried again at this share of its length; this many failures in a row end the command.
    easy_iterations
        Newton iterations of an increment (of its first round with friction) after which the next one is as long; twice as many
        where parts touch, which come and go.
    passed_residual
        Residual at which an equilibrium on an arc is passed: six previews of PneuNets take 65 Newton, 86 where all are sharp, and
        60 with 1e-2, by which a limit was named at 0.39 of a load that is 0.48; with this those of three robots are the same to
        1e-4. Where increments are short all are sharp: one that was passed there led a PneuNet 1.7 % beyond the limit that fifty
        small steps name.
    """

    max_slide_edges: float = 0.25
    prediction_miss_share: float = 0.3
    branch_jump_share: float = 0.6
    collapsed_increment_share: float = 0.1
    relaxation_load_ahead: float = 0.1
    snap_displacement_rel: float = 0.1
    limit_load_bracket: float = 0.01
    min_step_bound_rel: float = 2e-3
    max_increment_growth: float = 2.0
    retry_length_share: float = 0.35
    max_increment_failures: int = 9
    easy_iterations: int = 5
    passed_residual: float = 1e-3
