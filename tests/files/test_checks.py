"""Archives that hold nonsense are refused in one line; folders are the old result or the new one, whole."""

from __future__ import annotations

import os
import re
import socket
import warnings
from pathlib import Path

import numpy as np
import pytest
from archives import changed
from bending import bent_result

import geosim
from geosim import Environment, InputError, Obstacle, Status
from geosim.errors import GeosimWarning
from geosim.files.folder import check_folder, complete_folder, write_folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return bent_result(2).save(tmp_path_factory.mktemp("archive") / "r.npz")


WRONG = {
    "nan frames": (lambda a, h: a["result.frames"].__setitem__((0, 0, 0), np.nan), "frames holds nan"),
    "dates": (lambda a, h: a.update({"result.times": np.array(["2020-01-01", "2020-01-02"], "M8[D]")}), "not numbers"),
    "complex": (lambda a, h: a.update({"result.tip": a["result.tip"] + 1j}), "not numbers"),
    "texts": (lambda a, h: a.update({"result.residual": np.array(["a", "b"])}), "not numbers"),
    "a negative volume": (lambda a, h: a["result.chamber_volumes"].__imul__(-1), "chamber_volumes"),
    "a negative residual": (lambda a, h: a["result.residual"].__isub__(1), "residual"),
    "an infinite pressure": (lambda a, h: a["result.chamber_pressures"].__iadd__(np.inf), "inf"),
    "times that fall": (lambda a, h: a["result.times"].__imul__(-1), "do not increase"),
    "too few frames": (lambda a, h: a.update({"result.frames": a["result.frames"][:1]}), "frames has shape"),
    "frames of another robot": (lambda a, h: a.update({"result.frames": a["result.frames"][:, 5:]}), "shape|damaged"),
    "frames without an axis": (lambda a, h: a.update({"result.frames": a["result.frames"][0]}), "shape|damaged"),
    "an empty array": (lambda a, h: a.update({"result.tip": np.empty(0)}), "tip has shape"),
    "frames of 1e300": (lambda a, h: a["result.frames"].__imul__(1e300), "frames = .* is impossible"),
    "a tip elsewhere": (lambda a, h: a["result.tip"].__imul__(100.0), "tip is .* away"),
    "crossings of one that converged": (lambda a, h: a["result.crossings"].__setitem__(0, 7), "crossings = 7"),
    "half a crossing": (lambda a, h: a["result.crossings"].__setitem__(0, 0.5), "crossings = 0.5 is not whole"),
    "inverted points of other frames": (
        lambda a, h: (
            a.update({"extra.inverted_points": np.zeros(9)}),
            h.update(extra={"map": [["inverted_points", {"array": "extra.inverted_points"}]]}),
        ),
        "inverted_points has shape",
    ),
    "an environment that is a number": (lambda a, h: h.update(environment=1), "not an Environment"),
    "no environment": (lambda a, h: h.pop("environment"), "environment is missing"),
    "a robot that is a list": (lambda a, h: h.update(robot=[1, 2]), "robot = .* must be a Robot"),
    "another status": (lambda a, h: h.update(status="FINE"), "status"),
    "a stop that converged": (lambda a, h: h.update(status="STOPPED"), "said to have converged"),
    "a message that is a number": (lambda a, h: h.update(message=3), "message"),
    "a converged that is a word": (lambda a, h: h.update(converged="no"), "converged"),
    "a format that is a word": (lambda a, h: h.update(format="one"), "format = 'one'"),
    "no header": (lambda a, h: a.pop("header"), "not a geosim result"),
    "a stable of 7": (lambda a, h: a.update({"result.stable": np.full(2, 7.0)}), "stable"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_archive_of_nonsense_is_refused_in_one_line(saved, tmp_path, name):
    edit, words = WRONG[name]
    with pytest.raises(InputError, match=words) as caught:
        geosim.load_result(changed(saved, tmp_path / "wrong.npz", edit))
    assert "\n" not in str(caught.value)
    assert "wrong.npz" in str(caught.value)
    with pytest.raises(InputError, match=r"by its digest|is not a geosim result"):
        geosim.load_result(changed(saved, tmp_path / "sealed.npz", edit, sealed=True))


def test_an_archive_that_is_none_is_refused(saved, tmp_path):
    whole = saved.read_bytes()
    for name, content in {
        "half": whole[: len(whole) // 2],
        "empty": b"",
        "text": b"hello",
        "zip": b"PK\x03\x04" + whole[100:400],
    }.items():
        path = tmp_path / f"{name}.npz"
        path.write_bytes(content)
        with pytest.raises(InputError, match=name):
            geosim.load_result(path)
    np.save(tmp_path / "bare", np.zeros(3))
    (tmp_path / "bare.npy").rename(tmp_path / "bare.npz")
    os.mkfifo(tmp_path / "pipe.npz")
    for name in ("bare", "pipe"):
        with pytest.raises(InputError, match=name):
            geosim.load_result(tmp_path / f"{name}.npz")
    assert geosim.load_result(saved).status is Status.CONVERGED


def test_the_numbers_are_kept_where_no_picture_can_be_drawn(tmp_path, monkeypatch):
    def broken(self, path):
        assert (path.parent / "result.npz").is_file()
        assert (path.parent / "summary.csv").is_file()
        raise RuntimeError("no\ncanvas")

    monkeypatch.setattr(geosim.Result, "plot", broken)
    monkeypatch.setattr(geosim.Result, "html", broken)
    result = bent_result(2, partial=bent_result(1))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", GeosimWarning)
        names = write_folder(result, tmp_path / "out")
    wrong = [f"{name} could not be written: no canvas" for name in ("picture.png", "view.html", "partial.png")]
    assert [str(w.message) for w in said] == wrong
    assert names == ["result.npz", "summary.csv", "partial.npz", "frames.pvd"]
    assert geosim.load_result(tmp_path / "out" / "partial.npz").frames.shape[0] == 1


def test_a_folder_is_replaced_whole_and_files_of_others_stay(tmp_path):
    folder = tmp_path / "out"
    with complete_folder(folder) as beside:
        (beside / "result.npz").write_text("old")
        (beside / "partial.npz").write_text("old")
    (folder / "notes").mkdir()
    (folder / "notes" / "mine.txt").write_text("mine")
    with complete_folder(folder, force=True) as beside:
        (beside / "result.npz").write_text("new")
        assert (folder / "result.npz").read_text(encoding="utf-8") == "old"
    assert (folder / "result.npz").read_text(encoding="utf-8") == "new"
    assert not (folder / "partial.npz").exists()
    assert (folder / "notes" / "mine.txt").read_text(encoding="utf-8") == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_what_the_dead_left_is_removed_and_what_the_living_write_stays(tmp_path):
    here = re.sub(r"\W", "_", socket.gethostname())
    dead, living = tmp_path / f".out.{here}-4194999.part", tmp_path / f".out.{here}-{os.getppid()}.part"
    elsewhere = tmp_path / ".out.other_machine-4194999.part"  # its number says nothing here
    for place in (dead, living, elsewhere):
        place.mkdir()
    with complete_folder(tmp_path / "out") as beside:
        (beside / "a").write_text("a")
    assert not dead.exists()
    assert living.exists()
    assert elsewhere.exists()


def test_a_log_in_the_folder_goes_on_and_a_shell_in_it_stays(tmp_path, monkeypatch):
    """`--force` replaces what geosim wrote and nothing else: not the folder, not the files of others."""
    folder = tmp_path / "out"
    for text in ("old", "new"):
        with complete_folder(folder, force=True) as beside:
            for name in ("result.npz", "partial.npz", "frames_obstacles_0000.vtp")[: 3 if text == "old" else 1]:
                (beside / name).write_text(text)
        if text == "old":
            os.mkfifo(folder / "pipe")
            log = (folder / "log").open("w")
    print("after", file=log, flush=True)
    log.close()
    assert (folder / "log").read_text(encoding="utf-8") == "after\n"
    assert {p.name: p.read_text(encoding="utf-8") for p in folder.iterdir() if p.name != "pipe"} == {
        "log": "after\n",
        "result.npz": "new",
    }
    for name in ("log", "pipe"):
        (folder / name).unlink()
    monkeypatch.chdir(folder)
    with complete_folder(Path(), force=True) as beside:
        (beside / "result.npz").write_text("newest")
    assert Path("result.npz").read_text(encoding="utf-8") == "newest"  # by way of the shell's own folder
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_place_that_cannot_be_taken_is_refused_before_a_solve(tmp_path):
    for name, make in (("result.npz", os.mkfifo), ("picture.png", os.mkdir)):
        folder = tmp_path / name[0]
        folder.mkdir()
        make(folder / name)
        with pytest.raises(InputError, match=rf"{name} is a (pipe or a device|folder), and a result"):
            check_folder(folder, force=True)


def test_a_folder_beside_which_nothing_can_be_written_takes_its_results_all_the_same(tmp_path, monkeypatch):
    """The root of a mounted disk, or a folder of somebody else's."""
    folder = tmp_path / "out"
    folder.mkdir()
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)
    for text in ("old", "new"):
        with complete_folder(folder, force=True) as beside:
            assert beside.parent == folder
            (beside / "result.npz").write_text(text)
        assert [(p.name, p.read_text(encoding="utf-8")) for p in folder.iterdir()] == [("result.npz", text)]


def test_a_folder_that_another_process_wrote_meanwhile_is_left_alone(tmp_path):
    out = tmp_path / "out"

    def write(text: str) -> None:
        with complete_folder(out) as beside:
            (beside / "result.npz").write_text(text)
            if text == "mine":
                out.mkdir()
                (out / "result.npz").write_text("theirs")

    with pytest.raises(InputError, match="another process wrote there meanwhile"):
        write("mine")
    assert (out / "result.npz").read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [out]


SAVED = {  # name -> frames, sum of the last frame [m], height of the tip [m]
    "0.2.0": {
        "volumetric": (2, 0.5769161665992807, 0.0033533056762201884),
        "rods": (5, 0.14304454964210966, -0.002902725754243157),
        "snake": (3, 53.295, 0.025000000000000005),
    },
    "0.3.0": {
        "volumetric": (2, 0.5769161665992806, 0.003353305676220183),
        "rods": (5, 0.14304455133906385, -0.0029027247756552273),
        "snake": (3, 53.295, 0.025000000000000005),
    },
}


@pytest.mark.parametrize("version", SAVED)
def test_results_of_earlier_versions_are_read(version, tmp_path):
    """A body with chamber, cable, obstacle, loads; rods; a snake: what an earlier geosim wrote, with what it measured."""
    files = Path(__file__).parent / f"saved-by-{version}"
    for name, (frames, sum_of_last, tip) in SAVED[version].items():
        result = geosim.load_result(files / f"{name}.npz")
        assert result.provenance["version"] == version
        assert (result.status, len(result.frames)) == (geosim.Status.CONVERGED, frames)
        assert (result.frames[-1].sum(), result.tip[-1, 2]) == (sum_of_last, tip)
        assert len(result.summary()) == frames
        assert len(result.robot.skin) or len(result.robot.edges)
        again = geosim.load_result(result.save(tmp_path / f"{name}.npz"))
        assert np.array_equal(again.frames, result.frames)
    body = geosim.load_result(files / "volumetric.npz")
    assert body.volume_ratios[:, 0] == pytest.approx([1.05, 1.1])
    assert body.solver == geosim.EnergyShapeSolver(element="p1")
    assert body.environment.obstacles[0].motion[-1].tolist() == [-1e-4, 0.0, 0.0]
    assert [type(part).__name__ for part in body.actuation.parts] == ["Inflation", "CableTensions"]


def test_what_the_system_refuses_names_the_path(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="too long"):
        write_folder(bent_result(1), tmp_path / ("x" * 300))
    with pytest.raises(InputError, match="UTF-8"):
        write_folder(bent_result(1), tmp_path / "a\udcff")
    with pytest.raises(InputError, match="cannot be written: File name too long"):
        bent_result(1).save(tmp_path / ("x" * 300 + ".npz"))
    with pytest.raises(InputError, match="No space left"):
        _full_disk(tmp_path, monkeypatch)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(InputError, match="No such file"):
        write_folder(bent_result(1), geosim.files.folder.Path("out"))


def _full_disk(tmp_path, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        write_folder(bent_result(1), tmp_path / "full")


def test_poses_that_scale_or_mirror_and_words_for_switches_are_refused():
    scaled, mirrored, moved = np.eye(4)[None] * 1.0, np.eye(4)[None] * 1.0, np.eye(4)[None] * 1.0
    scaled[0, :3, :3] *= 1.01
    mirrored[0, 0, 0] = -1.0
    moved[0, 3, 0] = 0.5
    for poses, words in ((scaled, "scales or shears"), (mirrored, "mirrors"), (moved, "last row")):
        with pytest.raises(InputError, match=words):
            Obstacle.sphere((0, 0, 0), 0.01, motion=poses)
    for word in ("no", 0, None):
        with pytest.raises(InputError, match="self_contact"):
            Environment(self_contact=word)


@pytest.mark.parametrize("status", [Status.INVERTED, Status.UNSTABLE, Status.CROSSED])
def test_a_result_that_converged_with_a_defect_is_read(tmp_path, status):
    """Every status that `converged` may go with survives a file."""
    made = bent_result(1, status=status, converged=True)
    assert geosim.load_result(made.save(tmp_path / "r.npz")).status is status
