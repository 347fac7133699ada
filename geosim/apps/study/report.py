# ruff: noqa: E501 -- the lines of the page and its script
"""The page of a study: a table, sliders over fitted processes, main effects, scatter, pictures; one file, no network."""

from __future__ import annotations

import base64
import html
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from geosim.apps.study.job import ROW_FILE
from geosim.apps.study.study import Study
from geosim.apps.study.surrogate import SURROGATE_FILE, Surrogate, learned
from geosim.errors import InputError
from geosim.writing import filled, in_script, write_whole

if TYPE_CHECKING:
    import pandas


KNOWN = (
    "Gaussian processes through the designs above, with 95 % bands, as far as these reach; the same in Python: "
    "<code>geosim.surrogate(folder)</code>."
)


def write_report(study: Study, table: pandas.DataFrame, folder: Path) -> Path:
    """Write report.html, and index.html of every run, which it links to; the path of the report is returned."""
    from plotly.offline import get_plotlyjs

    known = _learned(study, table, folder)
    counts = ", ".join(f"{count} {status}" for status, count in table["status"].value_counts().items())
    nothing_known = "Too few designs have converged for processes through them."
    parts = {
        "TITLE": html.escape(f"{study.name}: {len(table)} designs"),
        "COUNTS": html.escape(counts or "none solved yet"),
        "BEST": _best(folder),
        "KNOWN": nothing_known if known is None else KNOWN,
        "CARDS": "".join(_card(folder, row, study) for row in table.to_dict("records")),
        "STUDY": html.escape(study.text),
        "DATA": in_script({**_drawn(study, table), **_embedded(known)}),
        "PLOTLY": get_plotlyjs(),
    }
    return write_whole(folder / "report.html", filled(PAGE, parts))


def _learned(study: Study, table: pandas.DataFrame, folder: Path) -> Surrogate | None:
    """The surrogate of what is solved so far, which is kept beside the table; None where that is too little."""
    path = folder / SURROGATE_FILE
    try:
        found = learned(table, study.keys, study.columns)
    except InputError:
        path.unlink(missing_ok=True)
        return None
    found.save(path)
    return found


def _drawn(study: Study, table: pandas.DataFrame) -> dict[str, Any]:
    """What the page draws: the table, which of its columns are numbers, and which two are shown first."""
    numbers = [c for c in table.columns if table[c].dtype.kind in "if" and c != "memory_mb" and table[c].notna().any()]
    numbers = numbers or ["seconds"]
    return {
        "columns": {c: [None if v != v else v for v in table[c].tolist()] for c in table.columns},
        "numbers": numbers,
        "first": [next((c for c in some if c in numbers), numbers[0]) for some in (study.keys, study.columns)],
        "study": f"{study.name}.toml",
    }


def _embedded(known: Surrogate | None) -> dict[str, Any]:
    """What the page computes with, in as many digits as it shows and some more."""
    if known is None:
        return {"surrogate": None, "effects": {}}

    processes = {}
    for name, process in known.processes.items():
        plain = {key: _short(np.asarray(value)) for key, value in process.arrays().items()}
        plain["factor"] = [row[: i + 1] for i, row in enumerate(plain["factor"])]  # a triangle
        processes[name] = plain
    effects = {measure: known.effects(measure) for measure in known.measures}
    return {"surrogate": {"space": known.space.plain(), "processes": processes}, "effects": effects}


def _short(values: np.ndarray) -> Any:
    """Numbers as JSON holds them, in ten digits."""
    return np.array([f"{v:.10g}" for v in values.flat]).astype(float).reshape(values.shape).tolist()


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
    write_whole(
        run / "index.html",
        f"<!doctype html><meta charset=utf-8><title>{row['run']}</title>{STYLE}<h1>{row['run']}</h1><p>{head}{large}<table>{lines}</table><p>{links}",
    )
    small = _small(run / "picture.png")
    image = f'<img src="data:image/jpeg;base64,{small}" alt="shape">' if small else "<i>no picture</i>"
    star = "&#9733; " if row.get("pareto") else ""
    few = "".join(f"<br>{html.escape(k)} {_shown(v)}" for k, v in facts.items())
    state = "" if row["status"] == "CONVERGED" else f"<br><b>{html.escape(row['status'])}</b>"
    return f'<a class="card" id="{row["run"]}" title="{html.escape(row["message"])}" href="runs/{row["run"]}/index.html">{image}{star}{state}{few}</a>'


def _shown(value: Any) -> str:
    if isinstance(value, float) and value != value:
        return "&ndash;"
    return html.escape(f"{value:.5g}" if isinstance(value, float) else str(value))


def _small(path: Path) -> str:
    """The picture in few pixels, in base64; nothing where there is none."""
    if not path.is_file():
        return ""
    from PIL import Image

    with Image.open(path) as picture:
        small = picture.convert("RGB")
    thumbnail_pixels = 220  # pixels of a small picture: 500 of them are 4 MB
    small.thumbnail((thumbnail_pixels, thumbnail_pixels))
    buffer = io.BytesIO()
    # of its JPEG
    small.save(buffer, format="JPEG", quality=80)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


STYLE = """<style>body{font:14px system-ui,sans-serif;margin:1.5em;color:#222}h1{font-size:1.4em}h2{font-size:1.15em;margin-top:1.6em}table{border-collapse:collapse}td,th{padding:1px 1em 1px 0;text-align:left}
.cards{display:flex;flex-wrap:wrap;gap:8px}.card{width:220px;border:1px solid #ddd;border-radius:6px;padding:6px;font-size:12px;color:inherit;text-decoration:none}
.card:target{outline:3px solid #d62728}pre{background:#f6f6f6;padding:1em;overflow:auto}.plot{height:430px}.wide{overflow:auto;max-height:460px}
th{cursor:pointer;position:sticky;top:0;background:#fff;white-space:nowrap}th input{display:block;width:7em;font:12px monospace}.wide td{white-space:nowrap;border-top:1px solid #eee}
#sliders{display:grid;grid-template-columns:max-content 18em max-content;gap:4px 1em;align-items:center}.band{color:#666}button{margin-left:1em}</style>"""

PAGE = f"""<!doctype html><html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,"><title>@TITLE@</title>{STYLE}
<h1>@TITLE@</h1><p>@COUNTS@. A point, a row or a picture leads to its design; the numbers stand in <a href="table.csv">table.csv</a>.@BEST@
<h2>All designs</h2><p>A click on a name sorts. Below a name: a word to look for, or a limit like &gt;3 or &lt;=5. <span id="shown"></span>
<div class="wide"><table id="designs"><thead></thead><tbody></tbody></table></div>
<h2>What else it would be</h2><p>@KNOWN@<div id="sliders"></div><table id="said"></table><p id="solve" hidden>To solve this design: <code></code><button>copy</button>
<h2>Main effects</h2><p id="effecthead" hidden>The mean of <select id="m"></select> over all designs, as one dimension goes through its range.<div id="effects" class="plot" hidden></div>
<h2>Measures against each other</h2>
<p><select id="x"></select> against <select id="y"></select>, coloured by <select id="c"></select>; below, every converged design is a line across all columns in the same colours.<div id="scatter" class="plot"></div>
<div id="parallel" class="plot"></div><div class="cards">@CARDS@</div><h1>study.toml</h1><pre>@STUDY@</pre>
<script>@PLOTLY@</script><script>
const D=@DATA@,C=D.columns,N=D.numbers,by=i=>document.getElementById(i);
const look={{responsive:true,displayModeBar:false}},V=[[68,1,84],[59,82,139],[33,145,140],[94,201,98],[253,231,37]]; // Viridis
const say=v=>v===null||v===undefined?"":typeof v==="number"?String(+v.toPrecision(5)):String(v);
const third=N.find(m=>m!=="seconds"&&!D.first.includes(m))||D.first[1]; // a measure, not what it cost
for(const [k,chosen] of [["x",D.first[0]],["y",D.first[1]],["c",third]])for(const n of N)by(k).add(new Option(n,n,n===chosen,n===chosen));
const ok=C.run.map((_,i)=>i).filter(i=>C.status[i]==="CONVERGED");
function draw(){{const x=by("x").value,y=by("y").value,c=by("c").value,seen=ok.map(i=>C[c][i]).filter(v=>v!==null);
const scale={{colorscale:"Viridis",cmin:Math.min(...seen),cmax:Math.max(...seen)}}; // of both plots; the first has the bar
Plotly.react("scatter",[{{type:"scatter",mode:"markers",x:ok.map(i=>C[x][i]),y:ok.map(i=>C[y][i]),text:ok.map(i=>C.run[i]),customdata:ok.map(i=>C.run[i]),
marker:{{size:9,color:ok.map(i=>C[c][i]),...scale,showscale:true,colorbar:{{title:{{text:c,side:"right"}}}},symbol:C.pareto?ok.map(i=>C.pareto[i]?"star":"circle"):"circle"}}}}],
{{xaxis:{{title:{{text:x}}}},yaxis:{{title:{{text:y}}}},margin:{{t:10}}}},look);
const span=N.map(n=>{{const v=ok.map(i=>C[n][i]).filter(v=>v!==null);return [Math.min(...v),Math.max(...v)]}}); // no WebGL: it is missing on some machines
Plotly.react("parallel",ok.map(i=>({{type:"scatter",mode:"lines",showlegend:false,x:N,y:N.map((n,k)=>C[n][i]===null?null:span[k][1]>span[k][0]?(C[n][i]-span[k][0])/(span[k][1]-span[k][0]):0.5),
text:N.map(n=>C.run[i]+": "+n+" "+say(C[n][i])),hoverinfo:"text",line:{{width:1.2,color:shade(C[c][i],scale)}}}})),
{{margin:{{t:40,b:60}},yaxis:{{visible:false,range:[-0.08,1.08]}},xaxis:{{side:"top",tickfont:{{size:11}}}},hovermode:"closest",
annotations:N.flatMap((n,k)=>[0,1].map(e=>({{x:n,y:e,text:say(span[k][e]),showarrow:false,yanchor:e?"bottom":"top",font:{{size:10}}}})))}},look)}}
function shade(v,s){{if(v===null)return "#bbb";const t=Math.min(Math.max((v-s.cmin)/((s.cmax-s.cmin)||1),0),1)*4,k=Math.min(Math.floor(t),3),f=t-k;
return "rgb("+[0,1,2].map(j=>Math.round(V[k][j]+f*(V[k+1][j]-V[k][j]))).join(",")+")"}}
for(const k of "xyc")by(k).onchange=draw;if(ok.length)draw();
if(ok.length)by("scatter").on("plotly_click",e=>window.open("runs/"+e.points[0].customdata+"/index.html"));
const H=[...Object.keys(C).filter(c=>c!=="memory_mb"&&c!=="message"),"message"],order={{by:null,up:true}},wanted={{}}; // the table
const head=by("designs").tHead.insertRow();
for(const c of H){{const th=document.createElement("th"),box=document.createElement("input");th.append(c,box);head.append(th);box.placeholder=N.includes(c)?">0":"";
box.setAttribute("aria-label","filter "+c);box.onclick=e=>e.stopPropagation();box.oninput=()=>{{wanted[c]=box.value.trim();list()}};th.onclick=()=>{{order.up=order.by===c?!order.up:true;order.by=c;list()}}}}
function fits(v,w){{if(!w)return true;const m=/^(<=|>=|<|>|=)\\s*(-?[\\d.eE+-]+)$/.exec(w);if(!m)return say(v).toLowerCase().includes(w.toLowerCase());
if(v===null||typeof v!=="number")return false;const t=+m[2];return m[1]==="<="?v<=t:m[1]===">="?v>=t:m[1]==="<"?v<t:m[1]===">"?v>t:v===t}}
function list(){{let rows=C.run.map((_,i)=>i).filter(i=>H.every(c=>fits(C[c][i],wanted[c])));
if(order.by)rows.sort((a,b)=>{{const p=C[order.by][a],q=C[order.by][b];if(p===q)return a-b;if(p===null)return 1;if(q===null)return -1;return (p<q?-1:1)*(order.up?1:-1)}});
by("shown").textContent=rows.length+" of "+C.run.length+" are shown.";const body=by("designs").tBodies[0];body.textContent="";
for(const i of rows){{const tr=body.insertRow();for(const c of H){{const td=tr.insertCell();if(c==="run"){{const a=document.createElement("a");a.href="runs/"+C.run[i]+"/index.html";a.textContent=C.run[i];td.append(a)}}else td.textContent=say(C[c][i])}}}}}}
list();
const S=D.surrogate; // Gaussian processes: Matern's kernel of smoothness 5/2
function asked(P,x){{const n=P.at.length,d=x.length,k=new Array(n),q=P.amplitude**2;
for(let i=0;i<n;i++){{let s=0;for(let j=0;j<d;j++)s+=((x[j]-P.at[i][j])/P.lengths[j])**2;const a=Math.sqrt(5*s),f=Math.exp(-a);k[i]=q*(1+a+a*a/3)*f}}
let m=0,e=0;for(let i=0;i<k.length;i++)m+=k[i]*P.weights[i];for(const row of P.factor){{let s=0;for(let i=0;i<row.length;i++)s+=row[i]*k[i];e+=s*s}}
return [P.center+P.scale*m,1.96*P.scale*Math.sqrt(Math.max(q-e,0)+P.noise**2)]}}
if(S){{const G=S.space,box=by("sliders"),now={{}};
G.names.forEach((name,i)=>{{if(G.choices[i].length===1)return;const label=document.createElement("label"),out=document.createElement("span");label.textContent=name;let put;
if(G.choices[i].length){{put=document.createElement("select");for(const one of G.choices[i])put.add(new Option(one,one))}}
else{{put=document.createElement("input");put.type="range";put.min=G.low[i];put.max=G.high[i];put.step=G.whole[i]?1:(G.high[i]-G.low[i])/200;put.value=G.whole[i]?Math.round((G.low[i]+G.high[i])/2):(G.low[i]+G.high[i])/2}}
put.setAttribute("aria-label",name);put.id="d"+i;put.oninput=()=>{{now[name]=put.value;out.textContent=G.choices[i].length?"":say(+put.value);predict()}};now[name]=put.value;out.textContent=G.choices[i].length?"":say(+put.value);box.append(label,put,out)}});
function predict(){{const x=[];G.names.forEach((name,i)=>{{if(G.choices[i].length===1)return;if(G.choices[i].length)for(const one of G.choices[i])x.push(now[name]===one?1:0);else x.push((+now[name]-G.low[i])/(G.high[i]-G.low[i]))}});
const t=by("said");t.textContent="";for(const [name,P] of Object.entries(S.processes)){{const [v,b]=asked(P,x),tr=t.insertRow();tr.insertCell().textContent=name;tr.insertCell().textContent=say(v);const td=tr.insertCell();td.className="band";td.textContent="\\u00b1 "+say(+b.toPrecision(2))}}
const at=G.names.map((name,i)=>"--at "+name+"="+(G.choices[i].length===1?G.choices[i][0]:G.choices[i].length?now[name]:say(+now[name]))).map(w=>/^[\\w =.,:\\/+-]*$/.test(w)?w:"'"+w+"'");
by("solve").hidden=false;by("solve").querySelector("code").textContent="geosim sweep "+D.study+" "+at.join(" ")}}
by("solve").querySelector("button").onclick=()=>navigator.clipboard&&navigator.clipboard.writeText(by("solve").querySelector("code").textContent);
predict();by("effecthead").hidden=false;by("effects").hidden=false;
for(const n of Object.keys(D.effects))by("m").add(new Option(n,n));
function effects(){{const E=D.effects[by("m").value];Plotly.react("effects",Object.entries(E).map(([name,[v,m]])=>({{name:name+" "+say(v[0])+" .. "+say(v[v.length-1]),mode:"lines+markers",
x:m.map((_,i)=>i/Math.max(m.length-1,1)),y:m,text:v.map(say),hovertemplate:name+" %{{text}}: %{{y:.5g}}<extra></extra>"}})),
{{xaxis:{{title:{{text:"from the first to the last value of each dimension"}},tickformat:".0%"}},yaxis:{{title:{{text:by("m").value}}}},margin:{{t:10}},showlegend:true}},look)}}
by("m").onchange=effects;effects()}}
</script></html>"""
