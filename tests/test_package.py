"""The package itself: light to import, layered, quiet, and true to its README."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import meshio
import numpy as np
import pytest
from geosim.calibrate import MaterialTest, fit, nominal_stress
from shapes import block as box

import geosim
from geosim.model.display import later

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "geosim").rglob("*.py"))

# Room -> layer; imports point to a lower layer or stay in the room, wherever in a file they stand.
ROOMS = [
    ["errors", "compiling"],
    ["kernels"],
    ["arrays", "entries", "resources"],
    ["arguments", "writing", "tables", "linear"],
    ["material", "collision"],
    ["geometry"],
    ["model"],
    ["measures", "generate"],
    ["result"],
    ["shape", "rods", "snake"],
    ["solve"],
    ["response", "show"],
    ["files"],
    ["apps"],
    ["cli"],
    ["__main__"],
]
LAYERS = {name: layer for layer, names in enumerate(ROOMS) for name in names}


def _module(path):
    return ".".join(path.relative_to(ROOT / "geosim").with_suffix("").parts).removesuffix(".__init__")


MODULES = {_module(path): path for path in SOURCES}


@cache
def _tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def _imports(path):
    """Pairs (function or "", module of geosim) of all imports of a file: at module level, for typing and in functions."""

    def walk(node, function):  # statements alone: no expression imports anything
        for child in [
            c for c in ast.iter_child_nodes(node) if isinstance(c, ast.stmt | ast.excepthandler | ast.match_case)
        ]:
            inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
            if isinstance(child, ast.Import):
                yield from (
                    (inside, a.name.removeprefix("geosim.")) for a in child.names if a.name.startswith("geosim.")
                )
            elif isinstance(child, ast.ImportFrom) and (child.module or "").split(".")[0] == "geosim":
                parent = child.module.removeprefix("geosim").removeprefix(".")
                for alias in child.names:
                    whole = f"{parent}.{alias.name}".removeprefix(".")
                    yield inside, whole if whole in MODULES else parent
            else:
                yield from walk(child, inside)

    return {(function, target) for function, target in walk(_tree(path), "") if target}


@cache
def _graph():
    return {name: {target for _, target in _imports(path) if target in MODULES} for name, path in MODULES.items()}


def test_imports_point_one_way():
    wrong = []
    for name, targets in _graph().items():
        room = name.split(".")[0]
        if room == "__init__":
            continue
        assert room in LAYERS, f"{room} has no layer: add it to ROOMS"
        for target in targets:
            other = target.split(".")[0]
            if room != other and LAYERS[other] >= LAYERS[room]:
                wrong.append(f"{name} imports {target}")
    assert not wrong, wrong


def test_folders_are_acyclic_at_every_level():
    """Each folder's entries, taken as wholes, import one way."""
    parents = {""} | {name.rpartition(".")[0] for name in MODULES if "." in name}
    circles = {}
    for parent in sorted(parents):
        prefix = f"{parent}." if parent else ""
        edges: dict[str, set[str]] = {}
        for name, targets in _graph().items():
            if name == "__init__" or not name.startswith(prefix):
                continue
            entry = name.removeprefix(prefix).split(".")[0]
            others = {t.removeprefix(prefix).split(".")[0] for t in targets if t.startswith(prefix)}
            edges.setdefault(entry, set()).update(others - {entry, ""})
        while free := [entry for entry, others in edges.items() if not others & edges.keys()]:
            for entry in free:
                del edges[entry]
        if edges:
            circles[parent] = sorted(edges)
    assert not circles, circles


def test_the_core_knows_no_application():
    """Not by an import, nor by the name of what is loaded later; an application names the others that it uses."""
    for name, targets in _graph().items():
        room, _, rest = name.partition(".")
        used = {t.split(".")[1] for t in targets if t.startswith("apps.") and t != "apps"}
        if room == "apps" and rest:
            own = rest.split(".")[0]
            named = ast.get_docstring(_tree(ROOT / "geosim" / "apps" / own / "__init__.py")) or ""
            assert all(other == own or f"`{other}`" in named for other in used), (name, used)
        elif room not in ("cli", "__init__"):
            assert not used, (name, used)
            assert not re.search(r'later\("apps\.', MODULES[name].read_text(encoding="utf-8")), name


def test_import_paths_that_stay_lead_to_one_module():
    """`import geosim.calibrate` and what lies below it are the module itself, not a copy."""
    code = """
import importlib, sys, geosim
for name, place in geosim.MOVED.items():
    if name not in ("jax", "torch"):
        assert importlib.import_module(f"geosim.{name}") is importlib.import_module(f"geosim.{place}"), name
import geosim.calibrate.curves, geosim.study.server
assert geosim.calibrate.curves is sys.modules["geosim.apps.calibrate.curves"]
assert geosim.calibrate.__spec__.name == "geosim.apps.calibrate"
from geosim.robot import VolumetricRobot
assert VolumetricRobot is geosim.VolumetricRobot
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_only_kernels_have_arguments_without_types():
    """What `mypy` is told to pass over in modules of kernels: functions that numba compiles, or generates code with."""
    bare = {}
    for name, path in MODULES.items():
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.FunctionDef) and node.returns is None:
                first = node.args.args[0].arg if node.args.args else ""
                if first not in ("typingctx", "context", "value"):  # numba's, of an intrinsic
                    bare[f"{name}.{node.name}"] = [ast.unparse(d) for d in node.decorator_list]
    assert len(bare) > 300
    assert {name: found for name, found in bare.items() if not any("kernel" in d for d in found)} == {}


def test_no_file_imports_itself_through_others():
    """Remove files that import none of those left until nothing changes; what stays goes in circles."""
    left = {name: targets - {name} for name, targets in _graph().items()}
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    assert not left, {name: sorted(targets & left.keys()) for name, targets in left.items()}


def test_what_nouns_hand_on_is_there():
    """Methods of a noun that parts built on it carry out, `later("show.picture.plot")`: each name exists."""
    wanted = {name for path in SOURCES for name in re.findall(r'later\("([\w.]+)"\)', path.read_text(encoding="utf-8"))}
    assert "show.picture.plot" in wanted
    for name in wanted:
        assert callable(later(name)), name


def test_import_is_light():
    """`import geosim` loads none of the heavy libraries."""
    heavy = ["numba", "scipy", "trimesh", "matplotlib", "plotly", "numpy", "torch", "jax", "mujoco", "pxr", "onnx"]
    code = f"import sys, geosim; print(sorted({set(heavy)} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_solve_loads_no_solver_of_other_robots_and_a_study_no_search():
    code = """
import sys, geosim
geosim.solve, geosim.VolumetricRobot, geosim.EnergyShapeSolver
print([name for name in sys.modules if name.startswith(("geosim.rods", "geosim.snake", "geosim.shape.projective"))])
import geosim.apps.study.server, geosim.apps.study.sweeping
print([name for name in ("optuna", "scipy.stats", "pandas") if name in sys.modules])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split("\n") == ["[]", "[]", ""]


def test_every_public_name_loads():

    for name in geosim.__all__:
        assert getattr(geosim, name) is not None
    with pytest.raises(AttributeError, match="no attribute"):
        geosim.volumetric_robot  # noqa: B018


def test_an_unknown_name_loads_no_solver_and_says_where_it_is():
    code = """
import sys, geosim
for name in ("Foo", "load_actuation"):
    try:
        getattr(geosim, name)
    except AttributeError as error:
        print(error)
print([name for name in sys.modules if name.startswith(("geosim.shape", "geosim.files", "scipy"))])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    foo, known, loaded = out.stdout.splitlines()
    assert foo == "module 'geosim' has no attribute 'Foo'"
    assert known.endswith("'load_actuation'; it is in geosim.files.actuation")
    assert loaded == "[]"


def test_a_solve_loads_what_it_needs_and_names_load_no_compiler(tmp_path):
    """A robot file of a body loads nothing of rods, snakes and other solvers; numba comes with the first kernel."""
    vertices, tets = box((0.02, 0.01, 0.01), (2, 1, 1))
    meshio.write(tmp_path / "bar.vtu", meshio.Mesh(vertices, [("tetra", tets)]))
    (tmp_path / "robot.toml").write_text(
        'kind = "volumetric"\nunits = "m"\nfixed = { plane = "x", below = 1e-3 }\n'
        '[body]\nmesh = "bar.vtu"\nmaterial = "ecoflex-00-30"\n'
    )
    code = (
        "import sys, geosim; geosim.load_robot, geosim.solve, geosim.Inflation, geosim.EnergyShapeSolver; "
        "assert 'numba' not in sys.modules; robot = geosim.load_robot('robot.toml'); geosim.solve(robot, geosim.Passive()); "
        "assert 'numba' in sys.modules; "
        "print([m for m in sys.modules if m.startswith(('geosim.rods', 'geosim.snake', 'geosim.shape.projective'))])"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_solve_is_a_function_whatever_is_imported_first():
    code = "import geosim; from geosim.solve import default_solver; import geosim.solve; print(callable(geosim.solve))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "True"


def test_a_kernel_is_compiled_again_when_a_kernel_that_it_calls_changes(tmp_path):
    """The key of a kernel holds the sources of the kernels that it calls."""
    inner, outer = tmp_path / "inner_kernel.py", tmp_path / "outer_kernel.py"
    outer.write_text(
        "from geosim.kernels import kernel\nfrom inner_kernel import one\n\n@kernel\ndef two():\n    return 2 * one()\n"
    )
    seen = []
    for value in (1, 5):
        inner.write_text(f"from geosim.kernels import kernel\n\n@kernel\ndef one():\n    return {value}\n")
        out = subprocess.run(
            [sys.executable, "-B", "-c", "import outer_kernel; print(outer_kernel.two())"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        seen.append(int(out.stdout))
    assert seen == [2, 10]


def test_an_edit_after_the_import_does_not_file_old_code_under_the_new_text(tmp_path):
    """What was imported is compiled and filed as what it is, whatever the file says by then."""
    source = tmp_path / "edited_kernel.py"
    text = "from geosim.kernels import kernel\n\n@kernel\ndef one():\n    return {}\n"
    edit = f"open({str(source)!r}, 'w').write({text.format(7)!r})"
    source.write_text(text.format(3))
    seen = []
    for change in (edit, "pass"):
        code = f"import edited_kernel\n{change}\nprint(edited_kernel.one())"
        out = subprocess.run(
            [sys.executable, "-B", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        seen.append(int(out.stdout))
    assert seen == [3, 7]


def test_library_prints_nothing_and_catches_nothing_blindly():
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if path.parts[-2] != "cli" and path.name != "mesher.py":
            assert not re.search(r"^\s*print\(", text, re.M), path
        assert not re.search(r"except\s*:", text), path


def test_no_word_of_where_it_was_made():
    words = re.compile(r"/work/|/root/|subagent|the issue asks", re.I)
    for path in [
        *SOURCES,
        *(ROOT / "tests").glob("*.py"),
        *(ROOT / "scripts").glob("*.py"),
        *(ROOT / "benchmarks").glob("*.py"),
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
    ]:
        if path.name != "test_package.py":
            assert not words.search(path.read_text(encoding="utf-8")), path


def _blocks(language):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


@pytest.mark.parametrize("number", range(len(_blocks("python"))))
def test_readme_python_examples_run(number, tmp_path, monkeypatch):
    """The examples use the surfaces of the shipped finger under the names that a reader's own files have."""
    import shutil

    import numpy as np

    monkeypatch.chdir(tmp_path)
    for name in ("body", "chamber"):
        shutil.copy(ROOT / "meshes" / "finger" / f"{name}.stl", tmp_path / f"{name}.stl")
    names: dict = {}
    exec(compile(_blocks("python")[number], "README.md", "exec"), names)
    result = names["result"]
    assert result.converged
    np.testing.assert_allclose(result.chamber_pressures[:, 0], [20e3, 40e3], rtol=1e-6)
    # it bends towards the layer without a chamber
    bend = result.tip[-1] - result.robot.tip_weights @ result.robot.vertices[result.robot.tip]
    assert np.linalg.norm(bend) > 0.5e-3


def test_readme_has_its_example():
    assert len(_blocks("python")) == 1


def test_the_toml_example_of_the_tutorial_loads(tmp_path):
    import shutil

    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", page, re.S)
    for name in ("body", "chamber"):
        shutil.copy(ROOT / "meshes" / "finger" / f"{name}.stl", tmp_path / f"{name}.stl")
    (tmp_path / "robot.toml").write_text(block)
    robot = geosim.load_robot(tmp_path / "robot.toml")
    assert robot.chambers == 1
    assert len(robot.body_tets) > 1000


def test_readme_names_the_commands_that_ci_runs():
    """The first block of the README is two lines of shell, which .ci/run reads there and runs as they stand."""
    commands = re.search(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)[1].splitlines()
    assert len(commands) == 2
    assert any("pip install . && geosim demo" in command for command in commands)
    assert any("pip install '.[test]' && pytest" in command for command in commands)
    assert "README.md)" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_every_package_is_in_the_wheel():
    import tomllib

    from setuptools import find_packages

    given = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"][
        "find"
    ]
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "geosim").rglob("__init__.py")}
    assert set(find_packages(str(ROOT), **given)) == found


def test_everything_prints_on_one_short_line():
    """Arrays by their shapes, defaults left out."""
    design = geosim.generate.pneunet(chambers=1)
    sphere = geosim.Obstacle.sphere((0, 0, 0), 1.0)
    vertices, tets = box((1.0, 1.0, 1.0), (3, 3, 3))
    held = np.flatnonzero(vertices[:, 0] == 0)
    robot = geosim.VolumetricRobot.from_tets(vertices, tets, material="ecoflex-00-30-fang2022", fixed=held)
    stretch = np.linspace(1.1, 2.0, 20)
    test = MaterialTest("uniaxial", stretch, nominal_stress("neo-hookean", [5e4], "uniaxial", stretch), "pull")
    found = fit([test], "neo-hookean")
    assert "Calibration(neo-hookean, rms 0.00 %, mu 50" in repr(found)
    assert "<img" in found._repr_html_()
    assert repr(geosim.Select.plane("x", below=1e-4)) == "Select(plane x below=0.0001 m)"
    shown = geosim.make_snake(links=1), sphere, geosim.Environment(obstacles=sphere), design, robot, test, found
    for text in (repr(value) for value in (*shown, geosim.Inflation(volume_ratio=[1.1]), geosim.EnergyShapeSolver())):
        assert len(text) < 800, text
        assert "\n" not in text
    assert repr(geosim.Inflation(volume_ratio=[1.1])) == "Inflation(volume_ratio=[[1.1]])"
    assert "vertices=<float64 (64, 3)>" in repr(robot)
    finger = geosim.generate.round_finger(length=30e-3).robot("ecoflex-00-30-fang2022", preview=True)
    assert finger.remesh is not None
    assert "remesh" not in repr(finger)


def test_meshing_and_solving_load_no_module_that_windows_lacks():
    """Studies fork and say so; whatever else imports such a module does it where it is used."""
    posix = re.compile(r"^(?:import|from) (?:fcntl|grp|pwd|resource|termios)\b", re.M)
    for path in SOURCES:
        found = posix.search(path.read_text(encoding="utf-8"))
        assert found is None or path.parent.name == "study", f"{path}: {found[0]}"
