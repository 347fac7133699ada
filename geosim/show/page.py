# ruff: noqa: E501 -- the lines of the page and its script
"""A self-contained interactive page of a result, and what a notebook shows of it."""

from __future__ import annotations

import base64
import html as escaping
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from geosim.result import Result
from geosim.show import fields
from geosim.show.contact import contact_pressures, force_arrows, obstacle_surfaces
from geosim.show.picture import camera_of, plot
from geosim.show.raster import LIGHT
from geosim.show.summary import summary_rows
from geosim.writing import checked_target, filled, in_script, replacing

__all__ = ["html", "repr_html"]

MOST_FRAMES, MOST_NUMBERS = 60, 3_000_000  # a page stays below some 20 MB


def html(result: Result, path: str | Path) -> Path:
    """Write a page that turns, zooms and plays the frames; it needs no network and no other file.

    Parameters
    ----------
    result
        What was solved.
    path
        .html file; its folder exists. Of very many frames an even selection is shown, which the page says.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    InputError
        The suffix or the folder is wrong, or there is no frame.
    """
    from plotly.offline import get_plotlyjs

    path = checked_target(path, ".html")
    result.checked_frame(-1)
    page = _page(_data(result), get_plotlyjs())
    with replacing(path) as beside:
        beside.write_text(page, encoding="utf-8")
    return path


def _packed(array: Any, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype=kind).tobytes()).decode("ascii")


def _selected_frames(count: int, points: int) -> list[int]:
    """Frames to show: all, or an even selection that ends with the last."""
    most = max(2, min(MOST_FRAMES, MOST_NUMBERS // max(4 * points, 1)))
    if count <= most:
        return list(range(count))
    return np.unique(np.linspace(0, count - 1, most).round()).astype(int).tolist()


def _data(result: Result) -> dict[str, Any]:
    """Everything that the page shows, as JSON with packed arrays (positions in mm, float32)."""
    curved = result.mid_edge_frames.shape[1] > 0
    level = 1 if curved and len(result.robot.skin) < 8000 else 0
    first = fields.shown_surface(result, 0, level)
    used, triangles = np.unique(first.triangles, return_inverse=True)
    chosen = _selected_frames(len(result.frames), len(used))
    frames = []
    for i in chosen:
        shown = fields.shown_surface(result, i, level)
        frames.append(
            {
                "points": _packed(1e3 * shown.points[used], "<f4"),
                "displacement": _packed(1e3 * shown.displacement[used], "<f4"),
                "stretch": _packed(shown.stretch[used], "<f4"),
                "stress": _packed(1e-3 * shown.stress[used], "<f4"),
                "contact": _packed(
                    1e-3 * (np.zeros(len(used)) if shown.pressure is None else shown.pressure[used]), "<f4"
                ),
                "around": _around(result, i, np.vstack([first.rest, shown.points])),
            }
        )
    rows = summary_rows(result)
    residuals: dict[int, list[float]] = {}
    for record in result.trace:
        if "residual" in record and "frame" in record:
            residuals.setdefault(int(record["frame"]), []).append(float(record["residual"]))
    note = "" if len(chosen) == len(rows) else f"{len(chosen)} of {len(rows)} frames are drawn."
    return {
        "name": result.robot.name,
        "status": result.status.name,
        "message": result.message,
        "converged": bool(result.converged),
        "note": note,
        "triangles": _packed(triangles.reshape(-1, 3).T, "<i4"),
        "colors": _color_maps(),
        "rest": _packed(1e3 * first.rest[used], "<f4"),
        "frames": frames,
        "chosen": chosen,
        "stretch": bool(np.isfinite(first.stretch).all()),
        "contact": any(contact_pressures(result, i) is not None for i in chosen),
        "columns": list(rows[0]),
        "rows": [[_cell(v) for v in row.values()] for row in rows],
        "residuals": [[i, [_finite(v) for v in residuals[i]]] for i in sorted(residuals)],
        **_view(result, 1e3 * first.rest),
    }


def _around(result: Result, i: int, moving: Any) -> list[list[Any]]:
    """Obstacles and contact forces of a frame as [color, opacity, points [mm], triangles], drawn beside the robot."""
    out = [["#b8b2a8", 0.55, points, triangles] for points, triangles in obstacle_surfaces(result, i, moving)]
    points, triangles = force_arrows(result, i, float(np.linalg.norm(np.ptp(moving, axis=0))))
    if len(triangles):
        out.append(["#c8291f", 1.0, points, triangles])
    return [
        [color, opacity, np.round(1e3 * points.T, 3).tolist(), np.asarray(triangles).T.tolist()]
        for color, opacity, points, triangles in out
    ]


def _color_maps() -> dict[str, list[list[int]]]:
    """64 colours [0..255] of each colour map, the same as in the pictures."""
    import matplotlib

    return {
        key: np.round(255 * matplotlib.colormaps[name](np.linspace(0, 1, 64))[:, :3]).astype(int).tolist()
        for key, (_, name) in fields.COLORS.items()
    }


def _view(result: Result, rest: Any) -> dict[str, list[float]]:
    """Directions towards the eye, the light, and upwards; as in the picture."""
    moving = np.vstack([rest, 1e3 * result.frames[-1][result.robot.body_vertices]])
    camera, up = camera_of(result, moving)
    axes = camera.axes
    light = LIGHT @ axes
    return {"eye": axes[2].tolist(), "light": (light / np.linalg.norm(light)).tolist(), "up": up.tolist()}


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _cell(value: Any) -> str:
    """A number as a table shows it; what rounding left of zero is zero."""
    return str(value) if not isinstance(value, float) else "0" if abs(value) < 1e-9 else f"{value:.5g}"


def _page(data: dict[str, Any], plotly: str) -> str:
    name = escaping.escape(data["name"])
    return filled(_TEMPLATE, {"NAME": name, "SCRIPT": _SCRIPT, "DATA": in_script(data), "PLOTLY": plotly})


def repr_html(result: Result) -> str:
    """Return what a notebook shows: the status sentence, a picture of the last frame and the table of frames."""
    tone = "#27864f" if result.status.name == "CONVERGED" else "#b3541e"
    head = (
        f'<div style="font-family:sans-serif"><b style="color:{tone}">{result.status.name}</b> '
        f"{escaping.escape(result.message)}"
    )
    if not len(result.frames):
        return head + "</div>"
    with tempfile.TemporaryDirectory(prefix="geosim-picture-") as folder:
        drawn = plot(result, Path(folder) / "p.png", renderer="matplotlib")
        picture = base64.b64encode(drawn.read_bytes()).decode("ascii")
    rows = summary_rows(result)
    cells = "".join(f"<th>{escaping.escape(c)}</th>" for c in rows[0])
    hidden = max(0, len(rows) - 12)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escaping.escape(_cell(v))}</td>" for v in row.values()) + "</tr>" for row in rows[-12:]
    )
    note = f"<p>the last 12 of {len(rows)} frames</p>" if hidden else ""
    return (
        f'{head}<br><img alt="last frame" style="max-width:760px" src="data:image/png;base64,{picture}">'
        f'{note}<table style="font-size:85%"><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table></div>'
    )


_SCRIPT = """
const unpack = (text, Type) => {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Type(bytes.buffer);
};
const columns = (flat) => {
  const n = flat.length / 3, out = [new Float32Array(n), new Float32Array(n), new Float32Array(n)];
  for (let i = 0; i < flat.length; i++) out[i % 3][(i / 3) | 0] = flat[i];
  return out;
};
const $ = (id) => document.getElementById(id);
const tri = unpack(D.triangles, Int32Array), m = tri.length / 3;
const [I, J, K] = [0, 1, 2].map((k) => tri.subarray(k * m, (k + 1) * m));
const rest = columns(unpack(D.rest, Float32Array));
const frames = D.frames.map((f) => ({xyz: columns(unpack(f.points, Float32Array)),
  displacement: unpack(f.displacement, Float32Array), stretch: unpack(f.stretch, Float32Array),
  stress: unpack(f.stress, Float32Array), contact: unpack(f.contact, Float32Array), around: f.around}));
const reach = (key) => {
  let lo = Infinity, hi = -Infinity;
  for (const f of frames) for (const v of f[key]) { if (v < lo) lo = v; if (v > hi) hi = v; }
  return [key === 'stretch' ? Math.min(1, lo) : 0, hi > lo ? hi : lo + 1e-6];
};
const LOOK = {displacement: 'displacement [mm]', stretch: 'largest stretch [-]',
  stress: 'von Mises stress [kPa]', contact: 'contact pressure [kPa]'};
const ranges = {displacement: reach('displacement'), stretch: D.stretch ? reach('stretch') : [0, 1],
  stress: D.stretch ? reach('stress') : [0, 1], contact: reach('contact')};
let key = 'displacement', now = frames.length - 1, timer = null;

const box = [0, 1, 2].map((k) => {
  let lo = Infinity, hi = -Infinity;
  for (const part of [rest, ...frames.map((f) => f.xyz)]) for (const v of part[k]) { if (v < lo) lo = v; if (v > hi) hi = v; }
  return [lo, hi];
});
const half = Math.max(...box.map((b) => b[1] - b[0])) * 0.55 || 1;
const spans = box.map((b) => [Math.min(b[0], (b[0] + b[1]) / 2 - half * 0.35), Math.max(b[1], (b[0] + b[1]) / 2 + half * 0.35)]);
const axis = (name, k) => ({title: {text: name + ' [mm]'}, range: spans[k], backgroundcolor: '#f6f7f9', gridcolor: '#dde1e7',
  nticks: Math.max(2, Math.round(9 * (spans[k][1] - spans[k][0]) / (2 * half))), showbackground: true, zeroline: false});
// Shading is part of the colours of the faces: light and colour then look alike on every graphics driver.
const faceColors = () => {
  const [x, y, z] = frames[now].xyz, v = frames[now][key], [lo, hi] = ranges[key], map = D.colors[key], out = new Array(m);
  for (let t = 0; t < m; t++) {
    const a = I[t], b = J[t], c = K[t];
    const ux = x[b] - x[a], uy = y[b] - y[a], uz = z[b] - z[a], wx = x[c] - x[a], wy = y[c] - y[a], wz = z[c] - z[a];
    const nx = uy * wz - uz * wy, ny = uz * wx - ux * wz, nz = ux * wy - uy * wx, n = Math.hypot(nx, ny, nz) || 1;
    const lit = 0.62 + 0.42 * Math.max(-0.35, (nx * D.light[0] + ny * D.light[1] + nz * D.light[2]) / n);
    const s = Math.round((map.length - 1) * Math.min(1, Math.max(0, ((v[a] + v[b] + v[c]) / 3 - lo) / (hi - lo))));
    out[t] = 'rgb(' + map[s].map((q) => Math.min(255, Math.round(q * lit))).join(',') + ')';
  }
  return out;
};
const body = () => ({type: 'mesh3d', name: 'robot', x: frames[now].xyz[0], y: frames[now].xyz[1], z: frames[now].xyz[2],
  i: I, j: J, k: K, facecolor: faceColors(), text: Array.from(frames[now][key], (v) => v.toFixed(3)),
  lighting: {ambient: 1, diffuse: 0, specular: 0, fresnel: 0},
  hovertemplate: '%{x:.2f}, %{y:.2f}, %{z:.2f} mm<br>%{text}<extra></extra>'});
const scale = () => ({type: 'scatter3d', mode: 'markers', x: [null], y: [null], z: [null], hoverinfo: 'skip', showlegend: false,
  marker: {color: [ranges[key][0]], cmin: ranges[key][0], cmax: ranges[key][1], colorscale: D.colors[key].map((c, i, all) => [i / (all.length - 1), 'rgb(' + c.join(',') + ')']), showscale: true,
    colorbar: {title: {text: LOOK[key], side: 'right'}, thickness: 14, len: 0.7, x: 0.97, xanchor: 'right'}}});
const ghost = {type: 'mesh3d', name: 'rest', x: rest[0], y: rest[1], z: rest[2], i: I, j: J, k: K, color: '#9aa3af',
  opacity: 0.13, hoverinfo: 'skip', visible: true, lighting: {ambient: 0.9, diffuse: 0.2}};
Plotly.newPlot('view', [body(), ghost, scale()], {showlegend: false, margin: {l: 0, r: 0, t: 0, b: 0}, uirevision: 'keep', paper_bgcolor: 'white',
  scene: {aspectmode: 'data', xaxis: axis('x', 0), yaxis: axis('y', 1), zaxis: axis('z', 2), uirevision: 'keep',
    camera: {projection: {type: 'orthographic'}, eye: {x: 2 * D.eye[0], y: 2 * D.eye[1], z: 2 * D.eye[2]},
      up: {x: D.up[0], y: D.up[1], z: D.up[2]}}}}, {responsive: true, displaylogo: false});
const around = () => frames[now].around.map(([color, opacity, p, t]) => ({type: 'mesh3d', x: p[0], y: p[1], z: p[2],
  i: t[0], j: t[1], k: t[2], color, opacity, hoverinfo: 'skip', flatshading: false,
  lighting: {ambient: 0.65, diffuse: 0.45, specular: 0.05}}));
let beside = 0;
const showAround = () => {
  const made = around();
  if (beside) Plotly.deleteTraces('view', Array.from({length: beside}, (_, k) => 3 + k));
  if (made.length) Plotly.addTraces('view', made);
  beside = made.length;
};
const show = (i) => {
  now = i;
  showAround();
  const b = body();
  Plotly.restyle('view', {x: [b.x], y: [b.y], z: [b.z], facecolor: [b.facecolor], text: [b.text]}, [0]);
  $('slider').value = i;
  const row = D.rows[D.chosen[i]], at = (name) => row[D.columns.indexOf(name)];
  const of = (start) => D.columns.filter((c) => c.startsWith(start) && at(c) !== 'nan');
  $('where').textContent = 'frame ' + at('frame') + of('volume_ratio').map((c) => ', V/V0 ' + at(c)).join('') +
    of('pressure').map((c) => ', ' + at(c) + ' kPa').join('') +
    of('bend_angle').map((c) => ', bend ' + at(c) + '°').join('');
  document.querySelectorAll('#rows tr').forEach((tr, r) => tr.classList.toggle('now', r === D.chosen[i]));
};
const stop = () => { clearInterval(timer); timer = null; $('play').textContent = 'Play'; };
$('slider').max = frames.length - 1;
$('slider').oninput = (e) => { stop(); show(+e.target.value); };
$('play').onclick = () => {
  if (timer) return stop();
  if (now === frames.length - 1) show(0);
  $('play').textContent = 'Pause';
  timer = setInterval(() => now < frames.length - 1 ? show(now + 1) : stop(), Math.max(80, 3000 / frames.length));
};
$('ghost').onchange = (e) => Plotly.restyle('view', {visible: [e.target.checked]}, [1]);
$('key').onchange = (e) => {
  key = e.target.value;
  Plotly.restyle('view', {marker: [scale().marker]}, [2]);
  show(now);
};
if (!D.contact) $('key').querySelector('[value=contact]').remove();
if (!D.stretch) for (const k of ['stretch', 'stress']) $('key').querySelector(`[value=${k}]`).remove();
if ($('key').options.length < 2) $('key').remove();
$('status').textContent = D.status;
$('status').className = D.status === 'CONVERGED' ? 'good' : 'bad';
$('message').textContent = D.message + (D.note ? ' ' + D.note : '');
const line = (cells, tag) => {
  const tr = document.createElement('tr');
  for (const c of cells) { const td = document.createElement(tag); td.textContent = c; tr.appendChild(td); }
  return tr;
};
$('head').appendChild(line(D.columns, 'th'));
D.rows.forEach((row, r) => {
  const tr = line(row, 'td'), i = D.chosen.indexOf(r);
  if (i >= 0) tr.onclick = () => { stop(); show(i); };
  $('rows').appendChild(tr);
});
if (D.residuals.length) {
  Plotly.newPlot('residuals', D.residuals.map(([f, r]) => ({y: r, x: r.map((_, i) => i), name: 'frame ' + f,
    mode: 'lines+markers', marker: {size: 5}, line: {width: 1.3}})), {margin: {l: 60, r: 10, t: 8, b: 40}, height: 260,
    yaxis: {type: 'log', title: {text: 'residual'}, exponentformat: 'power'}, xaxis: {title: {text: 'iteration'}, dtick: null},
    showlegend: D.residuals.length <= 12, colorway: ['#31688e', '#35b779', '#90d743', '#440154', '#b3541e']},
    {responsive: true, displaylogo: false});
} else $('evidence').remove();
show(now);
"""

_TEMPLATE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>@NAME@ - geosim</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; color: #1d232b; margin: 0 auto; max-width: 1180px; padding: 14px 18px 40px }
h1 { font-size: 21px; margin: 0 0 2px } h2 { font-size: 16px; margin: 22px 0 6px }
#view { height: 560px; border: 1px solid #dde1e7; border-radius: 8px; overflow: hidden; margin: 10px 0 }
.bar { display: flex; gap: 14px; align-items: center; flex-wrap: wrap } .bar input[type=range] { flex: 1; min-width: 200px }
button { font: inherit; padding: 3px 16px; min-width: 84px; cursor: pointer } #where { font-variant-numeric: tabular-nums }
.good { color: #27864f } .bad { color: #b3541e } .scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; white-space: nowrap }
th { text-align: right; font-weight: 600; color: #55606e } td, th { padding: 2px 10px 2px 0; text-align: right }
tbody tr { cursor: pointer } tbody tr:hover { background: #eef3f8 } tr.now { background: #dcebf5 }
</style></head><body>
<h1>@NAME@</h1><div><b id="status"></b>: <span id="message"></span></div>
<div id="view"></div>
<div class="bar"><button id="play">Play</button><input id="slider" type="range" min="0" value="0" aria-label="frame">
<span id="where"></span><label>colour <select id="key"><option value="displacement">displacement</option>
<option value="stretch">stretch</option><option value="stress">stress</option><option value="contact">contact pressure</option></select></label>
<label><input id="ghost" type="checkbox" checked> rest shape</label></div>
<h2>Frames</h2><div class="scroll"><table><thead id="head"></thead><tbody id="rows"></tbody></table></div>
<div id="evidence"><h2>Residuals of every iteration</h2><div id="residuals"></div></div>
<script>@PLOTLY@</script>
<script>const D = @DATA@;
@SCRIPT@</script>
</body></html>
"""
