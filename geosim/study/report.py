# ruff: noqa: E501 -- the lines of the page and its script
"""The page of a study: small pictures, scatter and parallel coordinates, links to the designs; one file, no network."""

from __future__ import annotations

import base64
import html
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geosim.study.job import ROW_FILE
from geosim.study.study import Study
from geosim.writing import filled, in_script, replacing

if TYPE_CHECKING:
    import pandas

__all__ = ["write_report"]

THUMBNAIL_PIXELS = 220  # pixels of a small picture: 500 of them are 4 MB
JPEG_QUALITY = 80  # of its JPEG


def write_report(study: Study, table: pandas.DataFrame, folder: Path) -> Path:
    """Write report.html, and index.html of every run, which it links to; the path of the report is returned."""
    from plotly.offline import get_plotlyjs

    numbers = [c for c in table.columns if table[c].dtype.kind in "if" and c != "memory_mb"]
    data = {
        "columns": {c: [None if v != v else v for v in table[c].tolist()] for c in table.columns},
        "numbers": numbers,
        "first": [next((c for c in numbers if c in study.keys), numbers[0]), (study.columns or numbers)[0]],
    }
    counts = ", ".join(f"{count} {status}" for status, count in table["status"].value_counts().items())
    parts = {
        "TITLE": html.escape(f"{study.name}: {len(table)} designs"),
        "COUNTS": html.escape(counts or "none solved yet"),
        "BEST": _best(folder),
        "CARDS": "".join(_card(folder, row, study) for row in table.to_dict("records")),
        "STUDY": html.escape(study.text),
        "DATA": in_script(data),
        "PLOTLY": get_plotlyjs(),
    }
    path = folder / "report.html"
    with replacing(path) as beside:
        beside.write_text(filled(PAGE, parts), encoding="utf-8")
    return path


def _best(folder: Path) -> str:
    """What is said of the best design of a search; nothing of a sweep."""
    row = folder / "best" / ROW_FILE
    if not row.is_file():
        return ""
    run = json.loads(row.read_text(encoding="utf-8"))["run"]
    return f' <a href="#{run}">The best</a> is in best/; no other beats those with a star in all goals.'


def _card(folder: Path, row: dict[str, Any], study: Study) -> str:
    """Picture and numbers of one design; its own page is written on the way."""
    run = folder / "runs" / row["run"]
    facts = {key: row[key] for key in (*study.keys, *study.columns)}
    lines = "".join(f"<tr><td>{html.escape(k)}<td>{_shown(v)}" for k, v in {**facts, "seconds": row["seconds"]}.items())
    head = f"<b>{html.escape(row['status'])}</b> {html.escape(row['message'])}"
    names = sorted(p.name for p in run.iterdir() if p.name not in ("index.html", "picture.png") and p.is_file())
    links = " ".join(f'<a href="{html.escape(name)}">{html.escape(name)}</a>' for name in names)
    large = '<p><img src="picture.png" alt="shape">' if (run / "picture.png").is_file() else ""
    with replacing(run / "index.html") as beside:
        beside.write_text(
            f"<!doctype html><meta charset=utf-8><title>{row['run']}</title>{STYLE}<h1>{row['run']}</h1><p>{head}{large}<table>{lines}</table><p>{links}",
            encoding="utf-8",
        )
    small = _small(run / "picture.png")
    image = f'<img src="data:image/jpeg;base64,{small}" alt="shape">' if small else "<i>no picture</i>"
    star = "&#9733; " if row.get("pareto") else ""
    few = "".join(f"<br>{html.escape(k)} {_shown(v)}" for k, v in facts.items())
    state = "" if row["status"] == "CONVERGED" else f"<br><b>{html.escape(row['status'])}</b>"
    return f'<a class="card" id="{row["run"]}" title="{html.escape(row["message"])}" href="runs/{row["run"]}/index.html">{image}{star}{state}{few}</a>'


def _shown(value: Any) -> str:
    return html.escape(f"{value:.5g}" if isinstance(value, float) else str(value))


def _small(path: Path) -> str:
    """The picture in few pixels, in base64; nothing where there is none."""
    if not path.is_file():
        return ""
    from PIL import Image

    with Image.open(path) as picture:
        small = picture.convert("RGB")
    small.thumbnail((THUMBNAIL_PIXELS, THUMBNAIL_PIXELS))
    buffer = io.BytesIO()
    small.save(buffer, format="JPEG", quality=JPEG_QUALITY)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


STYLE = """<style>body{font:14px system-ui,sans-serif;margin:1.5em;color:#222}h1{font-size:1.4em}table{border-collapse:collapse}td{padding:1px 1em 1px 0}
.cards{display:flex;flex-wrap:wrap;gap:8px}.card{width:220px;border:1px solid #ddd;border-radius:6px;padding:6px;font-size:12px;color:inherit;text-decoration:none}
.card:target{outline:3px solid #d62728}pre{background:#f6f6f6;padding:1em}.plot{height:430px}</style>"""

PAGE = f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>@TITLE@</title>{STYLE}
<h1>@TITLE@</h1><p>@COUNTS@. A point or a picture leads to its design; the numbers stand in <a href="table.csv">table.csv</a>.@BEST@
<p><select id="x"></select> against <select id="y"></select>, coloured by <select id="c"></select>; below, every converged design is a line across all columns in the same colours.<div id="scatter" class="plot"></div>
<div id="parallel" class="plot"></div><div class="cards">@CARDS@</div><h1>study.toml</h1><pre>@STUDY@</pre>
<script>@PLOTLY@</script><script>
const D=@DATA@,C=D.columns,N=D.numbers,by=i=>document.getElementById(i);
const look={{responsive:true,displayModeBar:false}};
const third=N.find(m=>m!=="seconds"&&!D.first.includes(m))||D.first[1]; // a measure, not what it cost
for(const [k,chosen] of [["x",D.first[0]],["y",D.first[1]],["c",third]])for(const n of N)by(k).add(new Option(n,n,n===chosen,n===chosen));
const ok=C.run.map((_,i)=>i).filter(i=>C.status[i]==="CONVERGED");
function draw(){{const x=by("x").value,y=by("y").value,c=by("c").value,seen=ok.map(i=>C[c][i]).filter(v=>v!==null);
const scale={{colorscale:"Viridis",cmin:Math.min(...seen),cmax:Math.max(...seen)}}; // of both plots; the first has the bar
Plotly.react("scatter",[{{type:"scatter",mode:"markers",x:ok.map(i=>C[x][i]),y:ok.map(i=>C[y][i]),text:ok.map(i=>C.run[i]),customdata:ok.map(i=>C.run[i]),
marker:{{size:9,color:ok.map(i=>C[c][i]),...scale,showscale:true,colorbar:{{title:{{text:c,side:"right"}}}},symbol:C.pareto?ok.map(i=>C.pareto[i]?"star":"circle"):"circle"}}}}],
{{xaxis:{{title:{{text:x}}}},yaxis:{{title:{{text:y}}}},margin:{{t:10}}}},look);
Plotly.react("parallel",[{{type:"parcoords",line:{{color:ok.map(i=>C[c][i]),...scale}},labelfont:{{size:11}},
dimensions:N.map(n=>({{label:n,values:ok.map(i=>C[n][i])}}))}}],{{margin:{{t:60,b:30}}}},look)}}
for(const k of "xyc")by(k).onchange=draw;draw();
by("scatter").on("plotly_click",e=>window.open("runs/"+e.points[0].customdata+"/index.html"));
</script></html>"""
