"""Surrogates and reduced models in files: the numbers are as they were written, or the file is refused in one line."""

from __future__ import annotations

import contextlib
import random

import numpy as np
import pytest
from archives import changed, small_posterior, small_reduced_model, small_surrogate
from bending import bent_result

import geosim
from geosim import InputError, Posterior, ReducedModel
from geosim.files.npz import digest

TAMPERED = {  # what was done -> (edit of arrays and header, what the reader's own checks say without the digest)
    "surrogate": {
        "weights times 1e6": (lambda a, h: a["0/weights"].__imul__(1e6), "weights or its factor"),
        "bands of nan": (lambda a, h: a["0/factor"].__setitem__((0, 0), np.nan), "factor holds nan"),
        "a wide factor": (lambda a, h: a["1/factor"].__imul__(1e3), "weights or its factor"),
        "a negative length": (lambda a, h: a["0/lengths"].__imul__(-1), "lengths = .* impossible"),
        "designs of another space": (lambda a, h: a.update({"0/at": a["0/at"][:, :1]}), "at has shape"),
        "no amplitude": (lambda a, h: a.pop("0/amplitude"), "amplitude is missing"),
        "a range that ends before it begins": (lambda a, h: h["space"].update(high=[0.5, None]), "is no range"),
        "a space of other lengths": (lambda a, h: h["space"].update(names=["wall"]), "columns"),
        "a space that is a number": (lambda a, h: h.update(space=1), "space = 1"),
        "no measure": (lambda a, h: h.update(measures=[]), "measures"),
    },
    "model": {
        "weights times 1e6": (lambda a, h: a["weights"].__imul__(1e6), "weights move the robot by"),
        "a basis of nan": (lambda a, h: a["basis"].__setitem__((0, 0, 0), np.nan), "basis holds nan"),
        "a longer basis": (lambda a, h: a["basis"].__imul__(2.0), "not orthonormal"),
        "bounds of nan": (lambda a, h: h["bounds"].update(tip=float("nan")), "bound of tip"),
        "a huge degree": (lambda a, h: a["exponents"].__setitem__((0, 0), 10**6), "exponents"),
        "a vertex that is none": (lambda a, h: a["skin"].__setitem__((0, 0), 99), "skin names vertex 99 of 8"),
        "an empty box": (lambda a, h: a["box"].__imul__(0.0), "is no box"),
        "a size that is a word": (lambda a, h: h.update(size="x"), "size = 'x'"),
        "no rest": (lambda a, h: a.pop("rest"), "rest is missing"),
        "another control": (lambda a, h: h.update(vary="x"), "vary = 'x'"),
    },
}
# The same of what was never written without a digest: it is then sealed again.
POSTERIOR = {
    "draws of nan": (lambda a, h: a["z"].__setitem__((0, 0), np.nan), "z holds nan"),
    "draws of more unknowns": (
        lambda a, h: a.update({"z": np.hstack([a["z"], a["z"]])}),
        "z has 8 columns; 4 are needed",
    ),
    "a draw of no probability": (lambda a, h: a["z"].__imul__(1e3), "z = .* impossible"),
    "a negative error of a reading": (lambda a, h: a["rows/sigma"].__imul__(-1), "sigma = -0.1 must be positive"),
    "a huge degree": (lambda a, h: a["curve/0/exponents"].__iadd__(99), "exponents = 99 is impossible"),
    "weights of other loads": (
        lambda a, h: a.update({"curve/0/weights": a["curve/0/weights"][:, :2]}),
        "weights has shape",
    ),
    "no curve": (lambda a, h: h.update(curves=[]), "angle is none of its 0 curves"),
    "a shift of no unknown": (lambda a, h: h.update(shifts={"x": ["angle", "offset"]}), "an unknown is none of"),
    "an unknown that is none": (lambda a, h: h.update(fitted=[7]), "an unknown is none of"),
    "one name twice": (lambda a, h: h.update(names=["gain", "gain"]), "names of unknowns"),
    "a prior that is a function": (lambda a, h: h["priors"].__setitem__(0, ["ks_2samp", [], {}]), "no distribution"),
    "a prior of other arguments": (
        lambda a, h: h["priors"].__setitem__(0, ["uniform", [1.0, 2.0, 3.0], {}]),
        "prior of gain",
    ),
    "an empty prior": (lambda a, h: h["priors"].__setitem__(0, ["uniform", [1.0, -2.0], {}]), "gain"),
    "an evidence of nan": (lambda a, h: h["numbers"].__setitem__(0, float("nan")), "must be finite"),
    "a negative error of the model": (lambda a, h: h["error"].update(size=-1.0), "size = -1"),
}


@pytest.mark.parametrize("name", POSTERIOR)
def test_a_tampered_posterior_is_refused(tmp_path, name):
    edit, words = POSTERIOR[name]
    path = small_posterior().save(tmp_path / "posterior.npz")
    assert Posterior.load(path).predict("angle", 1.0).high == small_posterior().predict("angle", 1.0).high
    for change, sealed, said in ((edit, True, "digest"), (lambda a, h: None, False, "no digest")):
        other = changed(path, tmp_path / "other.npz", change, header="about", sealed=sealed)
        with pytest.raises(InputError, match=f"other.npz: .*{said}"):
            Posterior.load(other)
    with np.load(changed(path, path, edit, header="about")) as archive:
        arrays = dict(archive)
    np.savez(path, **arrays, digest=digest(arrays))
    with pytest.raises(InputError, match=words) as caught:
        Posterior.load(path)
    assert "\n" not in str(caught.value)
    assert "posterior.npz" in str(caught.value)


CASES = [(kind, name) for kind, known in TAMPERED.items() for name in known]


@pytest.fixture
def saved(tmp_path):
    """Kind -> the file, and what reads it."""
    (tmp_path / "study").mkdir()
    small_surrogate().save(tmp_path / "study" / "surrogate.npz")
    model = small_reduced_model().save(tmp_path / "model.npz")
    return {
        "surrogate": (tmp_path / "study" / "surrogate.npz", lambda path: geosim.surrogate(path.parent)),
        "model": (model, ReducedModel.load),
        "posterior": (small_posterior().save(tmp_path / "posterior.npz"), Posterior.load),
        "result": (bent_result(2).save(tmp_path / "result.npz"), geosim.load_result),
    }


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_tampered_numbers_are_refused_with_and_without_a_digest(saved, kind, name):
    path, read = saved[kind]
    edit, words = TAMPERED[kind][name]
    read(path)
    whole = path.read_bytes()
    for sealed, said in ((True, "digest"), (False, words)):
        path.write_bytes(whole)
        changed(path, path, edit, header="about", sealed=sealed)
        with pytest.raises(InputError, match=said) as caught:
            read(path)
        assert "\n" not in str(caught.value)
        assert path.name in str(caught.value)


@pytest.mark.parametrize("kind", TAMPERED)
def test_what_an_earlier_version_wrote_is_read_without_a_digest(saved, kind):
    path, read = saved[kind]
    changed(path, path, lambda arrays, header: None, header="about")
    assert read(path)


@pytest.mark.parametrize("name", ["[" * 5000, "a\0b", "\udcff"])
def test_a_folder_of_no_possible_name_is_refused(name):
    for read in (geosim.surrogate, geosim.load_result, ReducedModel.load, Posterior.load):
        with pytest.raises(InputError):
            read(name)


def test_ids_that_were_written_as_floats_are_read_as_ids(saved):
    path, read = saved["surrogate"]
    changed(path, path, lambda a, h: a.update({"0/gradients": a["0/gradients"].astype(float)}), header="about")
    assert read(path)({"wall": 1.5, "rubber": "a"})[0] == small_surrogate()({"wall": 1.5, "rubber": "a"})[0]
    changed(path, path, lambda a, h: a.update({"0/gradients": np.array([0.5])}), header="about")
    with pytest.raises(InputError, match=r"gradients = 0\.5 is not whole"):
        read(path)


@pytest.mark.parametrize("kind", [*TAMPERED, "posterior", "result"])
def test_of_75_damaged_files_each_is_refused_in_one_line(saved, kind):
    """Bytes changed, left out, doubled: the digest of what remains is another, or nothing can be read."""
    path, read = saved[kind]
    whole = path.read_bytes()
    for seed in range(75):
        rng, data = random.Random(seed), bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            at = rng.randrange(len(data))
            data[at : at + rng.randint(1, 9)] = rng.randbytes(rng.randint(0, 9))
        path.write_bytes(data)
        with contextlib.suppress(InputError):
            read(path)
            with np.load(path) as now:  # the change is beside the numbers: in a time stamp of the archive, say
                path.write_bytes(whole)
                with np.load(path) as before:
                    assert all(np.array_equal(now[name], before[name]) for name in before.files)


@pytest.mark.parametrize(
    "call",
    [
        lambda m, v: m(v),
        lambda m, v: m.outputs(v),
        lambda m, v: m.tips(v),
        lambda m, v: m.jacobian("tip", v),
        lambda m, v: m.jacobian(v, [0.5, 2.5]),
        lambda m, v: m.actuation(v),
        lambda m, v: m.positions(v),
        lambda m, v: m.solve_for(v),
        lambda m, v: m.solve_for(geosim.Goal.tip([0.02, 0.0, 0.0]), start=v or 1),
        lambda m, v: m.estimate(v, [7]),
        lambda m, v: m.estimate([[0.02, 0.01, 0.01]], v),
        lambda m, v: m.estimate([[0.02, 0.01, 0.01]], [7], before=v or 1),
        lambda m, v: m.live(v),
        lambda m, v: ReducedModel.load(v),
    ],
)
def test_calls_of_wrong_kinds_are_answered(call):
    model = small_reduced_model()
    for value in ("x", None, object(), [["a"]], [1, [2]], 1j, {}, np.zeros((0, 3, 3)), [float("nan")], 10**400, b"x"):
        with pytest.raises(InputError) as caught:
            call(model, value if not isinstance(value, np.ndarray) else value.tolist())
        assert "\n" not in str(caught.value)
