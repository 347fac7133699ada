"""geosim.optimize: Optuna proposes designs, learns from every one of them, and stands on disk.

A design that fails is infeasible, which the sampler learns from, too. What was proposed is in the storage before it is
solved, so that a study that was killed goes on with the same designs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.apps.study.goals import best, pareto
from geosim.apps.study.job import (
    CONFIRMED_ATTRIBUTE,
    MEASURES_ATTRIBUTE,
    SLOPES_ATTRIBUTE,
    UNCONFIRMED_ATTRIBUTE,
    DesignOutcome,
    Job,
)
from geosim.apps.study.report import write_report
from geosim.apps.study.runs import Runs, missing, table
from geosim.apps.study.sampling import Row
from geosim.apps.study.solving import meshed
from geosim.apps.study.study import Study
from geosim.apps.study.sweeping import arrived, interrupts, needed_and_read, opened, progress_line
from geosim.apps.study.workforce import Workforce, outcome, workforce
from geosim.arguments import guarded
from geosim.errors import InputError
from geosim.model.contract import Status

if TYPE_CHECKING:
    import optuna
    import pandas


ROW_ATTRIBUTE, FAILED_CONSTRAINT = "row", "failed"  # attribute and constraint of a trial
# A design that takes so many times the median is near a limit, fails more often than not, and holds up a worker.
CUT_RATIO = 4.0
DESIGNS_BEFORE_CUT = 5  # designs that have converged before their median says how long one takes
MIN_CUT_SECONDS = 20.0  # s of CPU time: below, starting a process and meshing vary by more than the ratio


@guarded
def optimize(
    study: str | Path | Mapping[str, Any],
    workers: int | None = None,
    scheduler: str | None = None,
    out: str | Path | None = None,
    *,
    resume: bool = True,
    force: bool = False,
    progress: bool = False,
) -> pandas.DataFrame:
    """Find the designs of a study that reach its goals best.

    Parameters
    ----------
    study, workers, scheduler, out, resume, force, progress
        As in `sweep`; the study has a table [optimize]. The folder has best/, too: the run that is best in the first
        goal, among equals (a target within 1 %) in the next.

    Returns
    -------
    pandas.DataFrame
        As that of `sweep`, in the order of the proposals, and a bool column `pareto`: no other feasible design is as good
        in all goals and better in one.

    Raises
    ------
    InputError, KeyboardInterrupt
        As `sweep`.
    """
    try:
        import optuna

        from geosim.apps.study.proposing import Proposer
    except ImportError as error:
        raise missing(str(error.name)) from None
    read = needed_and_read(study)
    if not read.goals:
        raise read.place.error('[optimize] goals is missing; write goals = ["target bend_angle_deg 90"], say')
    if not read.axes:
        raise read.place.error("[vary] is missing: nothing can be optimised")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with workforce(workers, scheduler) as work:  # before anything is written: a scheduler may not answer
        runs = opened(read, out, resume=resume, force=force)
        trials = optuna.create_study(
            study_name=read.name,
            storage=f"sqlite:///{(runs.folder / 'trials.db').resolve()}",
            directions=["minimize"] * len(read.goals),
            load_if_exists=True,
        )
        _same(trials, read, runs.folder)
        seed = read.file.optimize.seed  # type: ignore[union-attr]
        trials.sampler = Proposer(read.axes, read.goals, read.constraints, seed)
        search = DesignSearch(read, runs, trials)
        try:
            search.go(work, progress)
        except KeyboardInterrupt:
            search.written()
            raise
        return search.written()


def _same(trials: optuna.Study, study: Study, folder: Path) -> None:
    """Refuse to learn from trials of another study; limits and the number of trials may change."""
    # Attribute of all trials: what their study asks for.
    asked_attribute = "asked"
    first = study.job({axis.key: axis.at(0.0) for axis in study.axes})
    asked = json.dumps([first.run, str(study.axes), *map(str, (*study.goals, *study.constraints))])
    if trials.user_attrs.setdefault(asked_attribute, asked) != asked:
        raise InputError(
            f"{folder}: what is there was searched with another study; choose another folder, or --force to start again"
        )
    trials.set_user_attr(asked_attribute, asked)


@dataclass
class DesignSearch:
    """An optimisation on its way."""

    study: Study
    runs: Runs
    trials: optuna.Study
    waiting: dict[Future[DesignOutcome], Job] = field(default_factory=dict)

    def go(self, work: Workforce, progress: bool) -> None:
        """Propose and solve until the trials are done; hold the best against a refined mesh, which corrects the last ones."""
        asked_for = self.study.file.optimize
        assert asked_for is not None
        total, rounds = asked_for.trials, asked_for.confirm
        for left in reversed(range(max(rounds, 1))):
            self._solve(work, max(total - left, 1), total, progress)
            if rounds:
                self._confirm(work)
        for _ in range(rounds):  # a correction may make another one the best
            if not self._confirm(work):
                break

    def job(self, row: Row, *, confirmed: bool = False) -> Job:
        """Return a design with all that is needed to solve it, on the mesh of those that differ from it in ranges alone."""
        return replace(self.study.job(row, confirmed=confirmed), base=self.base(row))

    def cut(self) -> float:
        """CPU time [s] at which a design is ended: a few times the median of designs that converged; inf while few have."""
        rows = [row for _, row in self._solved()]
        spent = [float(row["seconds"]) for row in rows if row.get("status") == Status.CONVERGED.name]
        if len(spent) < DESIGNS_BEFORE_CUT:
            return np.inf
        return max(CUT_RATIO * float(np.median(spent)), MIN_CUT_SECONDS)

    def base(self, row: Row) -> dict[str, Any]:
        """Arguments for the design whose mesh is moved to others; empty where each has its own. Kept with the trials.

        It has the finest mesh of the design in the middle of all ranges and of those that lie a quarter from the ends of one.
        Meshes of their own differ by more than designs that are near: the largest stress of a finger by 7 %.
        """
        bases_attribute = "bases"  # of all trials: choices -> the design whose mesh is moved
        if self.study.base is not None or all(axis.values for axis in self.study.axes):
            return {}
        if bases_attribute not in self.trials.user_attrs and self._told():
            return {}  # begun by a version whose designs had meshes of their own
        known = self._kept(bases_attribute)
        chosen = {axis.key: row[axis.key] for axis in self.study.axes if axis.values}
        if (name := json.dumps(chosen, sort_keys=True)) not in known:
            known = self._keep(bases_attribute, name, self._finest(chosen))
        return dict(known[name])

    def _finest(self, chosen: Row) -> dict[str, Any]:
        """Arguments of the design of the finest mesh among the middle of all ranges and those a quarter from the ends of one."""
        ranges = [axis for axis in self.study.axes if not axis.values]
        middle = {**chosen, **{axis.key: axis.at(0.5) for axis in ranges}}
        near = [middle, *({**middle, axis.key: axis.at(share)} for axis in ranges for share in (0.25, 0.75))]
        tets: dict[int, dict[str, Any]] = {}
        for job in map(self.study.job, near):
            with suppress(InputError):
                robot = meshed(job)  # layers belong to the mesh that they were found on
                tets.setdefault(len(robot.body_tets), {} if robot.layers else dict(job.parameters))
        return tets[max(tets)] if tets else {}

    def _kept(self, attribute: str) -> dict[str, Any]:
        """What the trials keep as JSON in an attribute of them all."""
        kept: dict[str, Any] = json.loads(self.trials.user_attrs.get(attribute, "{}"))
        return kept

    def _keep(self, attribute: str, key: str, value: Any) -> dict[str, Any]:
        """Add to what the trials keep in an attribute, and return all of it."""
        kept = self._kept(attribute) | {key: value}
        self.trials.set_user_attr(attribute, json.dumps(kept))
        return kept

    def _confirm(self, work: Workforce) -> bool:
        """Refine the mesh of the best design, if that is not done; return whether anything was."""
        found = self._chosen()
        if found is None or found[1]["run"] in self._kept(CONFIRMED_ATTRIBUTE):
            return False
        job = self.job(found[0], confirmed=True)
        came = outcome(work.start(job), job)
        if came.row["status"] == Status.CONVERGED.name:  # one that its limits ended keeps what it had
            self.runs.keep(came)
        changes = self.study.beside(came.row, "bars")
        self._keep(CONFIRMED_ATTRIBUTE, job.run, changes)
        if not changes and (why := _why_unconfirmed(came.row)):
            self._keep(UNCONFIRMED_ATTRIBUTE, job.run, why)
        return True

    def _corrected(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Measures of a run on the refined mesh: its own, or what that changed of others in the mean."""
        known, all_changes = self.study.measured(row), self._kept(CONFIRMED_ATTRIBUTE)
        changes = [all_changes[row["run"]]] if row.get("run") in all_changes else list(all_changes.values())
        for name in known:
            found = [one[name][0] for one in changes if name in one]
            known[name] += float(np.mean(found)) if found else 0.0
        return known

    def _chosen(self) -> tuple[Row, Mapping[str, Any]] | None:
        """Values and run of the best design, by what its measures are on refined meshes; None if none is feasible."""
        pairs = [(row, found) for row, found in self._solved() if found]
        if not pairs:
            return None
        corrected = [self._corrected(found) for _, found in pairs]
        chosen = best(*costs(self.study, [found for _, found in pairs], corrected), self.study.goals)
        return None if chosen is None else pairs[chosen]

    def _bars(self, row: Mapping[str, Any]) -> dict[str, float | str]:
        """Goals and constraints of a run that was held against a refined mesh, and their bars, as columns; or why it was not."""
        run = row.get("run", "")
        changes = self._kept(CONFIRMED_ATTRIBUTE).get(run, {})
        out: dict[str, float | str] = (
            {"not confirmed": why} if (why := self._kept(UNCONFIRMED_ATTRIBUTE).get(run)) else {}
        )
        known = self._corrected(row)
        for of in [*(goal.of for goal in self.study.goals), *(one.of for one in self.study.constraints)]:
            names = [str(column) for column in of.columns if str(column) in changes]
            if not names:
                continue
            here = float(of(known))
            ways = [[float(of({**known, n: known[n] + sign * changes[n][1]})) for sign in (1.0, -1.0)] for n in names]
            out[f"{of.text} confirmed"] = here
            out[f"{of.text} +-"] = float(sum(max(abs(way - here) for way in pair) for pair in ways))
        return out

    def _solve(self, work: Workforce, total: int, whole: int, progress: bool) -> None:
        """Propose and solve until this many trials are done."""
        asked: dict[str, list[int]] = {}  # run -> the trials that wait for it
        open_trials = self.left_open()
        with progress_line(whole, progress) as line, interrupts() as interrupted:
            line.update(count := len(self._told()))
            while count < total:
                while sum(map(len, asked.values())) < min(work.size, total - count):
                    number, row = open_trials.pop(0) if open_trials else self.asked()
                    job = self.job(row)
                    known = self.runs.row(job)
                    if known is not None:
                        self.tell(number, known)
                        count += 1
                        line.update()
                        continue
                    if job.run not in asked:
                        self.waiting[work.start(replace(job, cut=self.cut()))] = job
                    asked.setdefault(job.run, []).append(number)
                if not self.waiting:
                    continue
                for job, found in arrived(self.waiting, self.runs, interrupted):
                    for number in asked.pop(job.run):
                        self.tell(number, found)
                        count += 1
                        line.update()
                    line.set_postfix_str(f"last {found['status']}")

    def written(self) -> pandas.DataFrame:
        """Write table, report and best design of what is done."""
        import pandas

        pairs = self._solved()
        found = table(self.study, pairs)
        cost, feasible = costs(self.study, [row for _, row in pairs])
        found["pareto"] = pareto(cost, feasible)
        chosen = self._chosen()
        if chosen is not None:
            self.runs.best(chosen[1]["run"])
        bars = pandas.DataFrame([self._bars(row) for _, row in pairs])
        found = pandas.concat([found, bars], axis=1) if len(bars.columns) else found
        self.runs.write_table(found)
        write_report(self.study, found, self.runs.folder)
        return found

    def _told(self) -> list[Any]:
        """Trials that are done."""
        return [t for t in self.trials.trials if t.state.is_finished() and ROW_ATTRIBUTE in t.user_attrs]

    def _solved(self) -> list[tuple[Row, Mapping[str, Any]]]:
        """Values and runs of the trials that are done; {} where a run is to be solved again."""
        rows = [json.loads(t.user_attrs[ROW_ATTRIBUTE]) for t in self._told()]
        return [(row, self.runs.row(self.job(row)) or {}) for row in rows]

    def left_open(self) -> list[tuple[int, Row]]:
        """Trials that were proposed and not done when the study was ended."""
        import optuna

        out = []
        for trial in self.trials.trials:
            if trial.state.is_finished():
                continue
            if ROW_ATTRIBUTE in trial.user_attrs:
                out.append((trial.number, json.loads(trial.user_attrs[ROW_ATTRIBUTE])))
            else:  # ended while it was proposed
                self.trials.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        return out

    def asked(self) -> tuple[int, Row]:
        """Return a new trial and what it proposes, which the storage has from then on."""
        from geosim.apps.study.proposing import asked

        trial, row = asked(self.trials, self.study.axes)
        trial.set_user_attr(ROW_ATTRIBUTE, json.dumps(row))
        return trial.number, row

    def tell(self, number: int, row: Mapping[str, Any]) -> None:
        """Give the sampler what came of a trial: costs, constraints, and that it failed."""
        import optuna

        trial = optuna.Trial(self.trials, self.trials.trials[number]._trial_id)
        cost, _ = costs(self.study, [row])
        trial.set_user_attr(
            MEASURES_ATTRIBUTE, json.dumps(_known(self.study, row) if row["status"] == Status.CONVERGED.name else {})
        )
        slopes = self.study.beside(row, "slopes") if row["status"] == Status.CONVERGED.name else {}
        if slopes:
            trial.set_user_attr(SLOPES_ATTRIBUTE, json.dumps(slopes))
        for key, excess in constrained(self.study, row).items():
            trial.set_constraint(key, excess)
        values = np.where(np.isfinite(cost[0]), cost[0], self._worst())
        self.trials.tell(number, values.tolist())

    def _worst(self) -> Any:
        """Costs of a design that has none: the worst so far, which its constraints make infeasible anyway."""
        told = [t.values for t in self._told() if t.values]
        return np.max(told, axis=0) if told else np.zeros(len(self.study.goals))


def _why_unconfirmed(row: Mapping[str, Any]) -> str:
    """Why a run has no bars: how it, or a case of it, ended."""
    if row["status"] != Status.CONVERGED.name:
        return f"{row['status']}: {row['message']}"
    said = {name: one.get("unconfirmed") for name, one in {"": row, **row.get("cases", {})}.items()}
    return "; ".join(f"{name}: {why}" if name else why for name, why in said.items() if why)


def _known(study: Study, row: Mapping[str, Any]) -> dict[str, float]:
    """Measures of a run that are numbers, by their text."""
    return {name: value for name, value in study.measured(row).items() if np.isfinite(value)}


def constrained(study: Study, row: Mapping[str, Any], measures: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return by how much a design violates each constraint, relative to its value; a design that failed, all of them."""
    failed = float(row["status"] != Status.CONVERGED.name)
    measures = study.measured(row) if measures is None else measures
    out = {FAILED_CONSTRAINT: failed}
    for i, constraint in enumerate(study.constraints):
        excess = float(constraint.excess(measures) / (abs(constraint.limit(measures)) or 1.0))
        out[f"constraint_{i + 1}"] = excess if np.isfinite(excess) else 1.0
    if not np.isfinite([goal.cost(measures) for goal in study.goals]).all():
        out[FAILED_CONSTRAINT] = 1.0
    return out


def costs(
    study: Study, rows: Sequence[Mapping[str, Any]], corrected: Sequence[Mapping[str, float]] | None = None
) -> tuple[Any, Any]:
    """Return the costs (d, g) of designs in the goals of a study, and which are feasible (d,); of other measures, if given."""
    cost = np.full((len(rows), len(study.goals)), np.nan)
    feasible = np.zeros(len(rows), dtype=bool)
    for i, row in enumerate(rows):
        measures = study.measured(row) if corrected is None else corrected[i]
        cost[i] = [goal.cost(measures) for goal in study.goals]
        feasible[i] = all(excess <= 0 for excess in constrained(study, row, measures).values())
    return cost, feasible
