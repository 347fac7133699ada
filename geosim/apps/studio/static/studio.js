// The studio: knobs on the left, the robot in the middle, its curve on the right. What is drawn comes from viewer.js.
'use strict';
const TOKEN = new URLSearchParams(location.search).get('token');
const COLORS = JSON.parse(document.getElementById('data').textContent).colors;
const D = {keys: Object.keys(COLORS), colors: COLORS, ranges: Object.fromEntries(Object.keys(COLORS).map((k) => [k, [0, 1]])),
  box: [[0, 0, 0], [1, 1, 1]], eye: [-0.45, -1, 0.45], up: [0, 0, 1], light: [-0.25, -0.6, 0.75], around: {frames: [[]]}, solid: false};
const PINS = ['#2a8f6a', '#c86326', '#7b5bb5', '#b03a5b'];

let scene = null, view = null, key = 'displacement', socket = null, wait = 400, shown = null, timer = null, fitted = '';
let run = {shape: '', frames: [], bars: {}}, pins = [], sensed = {}, words = {command: '', python: ''}, held = null;
let online = false, work = '', failure = '';  // what is being solved: 'show' the preview, 'refine' the saved files; why the last solve failed
const send = (message) => { if (socket && socket.readyState === 1) socket.send(JSON.stringify(message)); };
const say = (text) => { $('sentence').textContent = text; };

// ---- frames: a header in JSON, then arrays

const decoded = (buffer) => {
  const length = new DataView(buffer).getUint32(0, true), header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  const arrays = {};
  for (const [name, kind, count] of header.arrays) { arrays[name] = new (kind === 'u4' ? Uint32Array : Float32Array)(buffer, at, count); at += 4 * count; }
  const part = (name) => {
    if (!arrays[name + '.triangles']) return null;
    const points = arrays[name + '.points'], zero = new Float32Array(points.length / 3);
    const fields = Object.fromEntries(D.keys.map((k) => [k, arrays[`${name}.${k}`] || zero]));
    return {triangles: arrays[name + '.triangles'], rest: arrays[name + '.rest'], frames: [{points, ...fields}]};
  };
  const around = header.around.map(([color, opacity], k) => ({color, opacity, points: arrays[`around${k}.points`], triangles: arrays[`around${k}.triangles`]}));
  return {...header, body: part('body'), walls: part('walls'), around};
};
const boxOf = (frame) => {
  const low = [1e9, 1e9, 1e9], high = [-1e9, -1e9, -1e9];
  const round = scene && scene.knobs.some((k) => k.key === 'object_radius_mm') && frame.around.length ? [frame.around[0].points] : [];
  for (const points of [frame.body.rest, frame.body.frames[0].points, ...round])
    for (let i = 0; i < points.length; i++) { const k = i % 3; if (points[i] < low[k]) low[k] = points[i]; if (points[i] > high[k]) high[k] = points[i]; }
  return [low, high];
};
const union = (a, b) => [a[0].map((v, k) => Math.min(v, b[0][k])), a[1].map((v, k) => Math.max(v, b[1][k]))];

const show = (frame) => {
  shown = frame;
  D.solid = frame.solid;
  D.around = {frames: [frame.around.map((_, k) => k)]};
  const values = (k) => frame.body.frames[0][k];
  for (const k of D.keys) {
    const [low, high] = extent(values(k), k === 'stretch' && frame.solid ? 1 : 0, k === 'stretch' && frame.solid ? 1 : 0);
    const reach = run.frames.reduce((top, f) => Math.max(top, f.top ? f.top[k] || 0 : 0), high);
    D.ranges[k] = frame.level === 'rest' ? [-1, 1] : [low, Math.max(low + 1e-6, reach)];
    frame.top = {...frame.top, [k]: high};
  }
  const box = boxOf(frame), size = Math.hypot(...[0, 1, 2].map((k) => box[1][k] - box[0][k]));
  if (!view) {
    Object.assign(D, {box, ...frame.view});
    view = viewer(frame.body, frame.walls, frame.around);
    wire();
    fitted = scene ? scene.name : '';
  } else {
    view.load(frame.body, frame.walls);
    const both = union(D.box, box), old = Math.hypot(...[0, 1, 2].map((k) => D.box[1][k] - D.box[0][k])), now = Math.hypot(...[0, 1, 2].map((k) => both[1][k] - both[0][k]));
    if (!D.placed && frame.level !== 'rest') Object.assign(D, {placed: true, box: both, ...frame.view}, {box: both}), view.refit();
    else if (now > 1.12 * old || size < 0.4 * old) { D.box = size < 0.4 * old ? box : both; view.refit(); }
  }
  view.around(frame.around);
  view.show(0, key);
  ghosts();
  bar(key);
  $('bar').hidden = frame.level === 'rest';
  facts();
};
const ghosts = () => {
  const list = pins.filter((p) => p.frame).map((p) => [p.frame.body.frames[0].points, p.frame.body.triangles, p.color, 0.3]);
  if (run.rest && shown && shown.number !== run.rest.number && $('ghost').checked)
    list.push([run.rest.body.rest, run.rest.body.triangles, dark.matches ? '#8fb8d8' : '#3b7fae', 0.25]);
  if (view) view.overlay(list);
};
const facts = () => {
  const row = shown ? shown.row : {}, out = [];
  const put = (name, unit, text, digits = 4) => { if (row[name] !== undefined && Number.isFinite(row[name])) out.push(`${text} ${+(+row[name]).toPrecision(digits)} ${unit}`); };
  put('pressure_kpa_1', 'kPa', 'pressure');
  put('bend_angle_deg', '°', 'bend');
  put('tip_z_mm', 'mm', 'tip z');
  const force = ['x', 'y', 'z'].map((a) => row[`obstacle_force_${a}_n_1`]).filter((v) => v !== undefined);
  if (force.length === 3) out.push(`force on the object ${(+Math.hypot(...force).toPrecision(3))} N`);
  $('facts').textContent = out.join('\n');
  badge();
};

// The badge, the numbers and the slider are written here and nowhere else, from what is shown, what is chosen and what is being solved:
// they say the same at every moment.
const isShown = () => shown !== null && shown.level !== 'rest' && scene !== null && shown.number === scene.number;
const stepsNow = () => { const knob = scene && scene.knobs.find((k) => k.key === 'steps'); return shown && shown.number === (scene || {}).number && shown.steps || (knob ? knob.now : 1); };
const said = () => {
  if (!online) return ['failed', 'not connected'];
  if (scene === null || shown === null && !failure) return ['rest', 'waiting for the solver'];
  if (failure) return ['failed', isShown() ? 'last equilibrium' : 'not solved'];
  if (shown.mixed) return ['preview', 'between solved frames'];
  if (!isShown()) return ['rest', shown.level === 'rest' ? 'rest shape: solving' : 'solving: the last shape is still shown'];
  if (shown.failed) return ['failed', 'last equilibrium'];
  const finer = work === 'refine' ? '; a finer solve runs' : '';
  if (shown.level === 'preview') return ['preview', 'preview: coarsest mesh' + (shown.checked === false ? ', before contact' : '') + finer];
  if (shown.level === 'refining') return ['refining', 'refined: a frame before the last' + finer];
  // a converged result is green only where it has no doubts
  const doubts = shown.doubts || [], bend = ((run.bars[shown.step] || {}).bend_angle_deg) || {};
  const bars = ['mesh', 'material'].filter((p) => bend[p] !== undefined).map((p) => `± ${(+bend[p]).toPrecision(2)}° ${p}`).join(', ');
  const more = doubts.length ? `, ${doubts.length} doubt${doubts.length > 1 ? 's' : ''}` : '';
  return [doubts.length ? 'doubtful' : 'converged', 'converged' + more + (bars ? ', bend ' + bars : work === 'refine' ? ': as saved; its error bar is computed' : ': as saved')];
};
const badge = () => {
  const [level, text] = said(), steps = stepsNow(), current = isShown() && !shown.mixed, busy = online && (work !== '' || scene !== null && !isShown() && !failure);
  $('label').className = `chip ${level}` + (busy ? ' busy' : '');
  $('label').textContent = text;
  for (const id of ['facts', 'where']) $(id).classList.toggle('stale', !current);
  Object.assign($('slider'), {min: 1, max: steps, step: 1, value: current ? shown.step : steps, disabled: !best().length});
  $('play').disabled = best().length < 2;
  $('where').textContent = scene === null ? '' : current ? `frame ${shown.step} of ${steps}` + (shown.tets ? `, ${shown.tets} elements` : '') : `${steps} frame${steps > 1 ? 's' : ''}`;
};

const arrived = (frame) => {
  if (scene && frame.number !== scene.number) return;
  if (frame.level === 'rest') {
    run.rest = frame;
    if (!shown || shown.level === 'rest') show(frame); else ghosts();
    return;
  }
  const same = run.frames.findIndex((f) => f.level === frame.level && f.step === frame.step && Math.abs((f.row.load || 0) - (frame.row.load || 0)) < 1e-9 && f.number === frame.number);
  if (same >= 0) run.frames.splice(same, 1);
  run.frames.push(frame);
  run.frames.sort((a, b) => a.number - b.number || a.step - b.step);
  if (frame.now) {
    failure = '';
    show(frame);
    if (frame.doubts && frame.doubts.length) say(frame.doubts.join(' '));
  } else if (shown) {
    for (const k of D.keys) D.ranges[k][1] = Math.max(D.ranges[k][1], ...extent(frame.body.frames[0][k], 0, 0));
  }
  badge();
  measures();
  curve();
};
// the frames of the command that is chosen, by their steps: of each the best there is
const best = () => {
  const found = {};
  for (const level of ['preview', 'refining', 'converged']) for (const f of run.frames) if (f.level === level && scene && f.number === scene.number) found[f.step] = f;
  return Object.values(found).sort((a, b) => a.step - b.step);
};

// ---- knobs

const effect = (knob) => {
  const found = sensed[knob.key];
  if (!found) return '';
  if (found.why) return `<b>not known</b>`;
  const most = Math.max(1e-12, ...Object.values(sensed).map((s) => Math.abs(s.share || 0))), width = 50 * Math.abs(found.share) / most;
  return `<i class="${found.share > 0 ? 'up' : 'down'}" style="left:${found.share > 0 ? 50 : 50 - width}%;width:${width}%"></i><b class="${found.share > 0 ? '' : 'far'}">${found.slope > 0 ? '+' : ''}${(+found.slope).toPrecision(3)} ${found.unit}</b>`;
};
const element = (tag, given, ...inside) => { const e = Object.assign(document.createElement(tag), given); e.append(...inside); return e; };
const step = (knob) => knob.whole ? 1 : 10 ** (Math.floor(Math.log10(Math.max(1e-9, knob.high - knob.low))) - 2);
let queue = {}, flushing = null;
const turn = (name, value) => {
  queue[name] = value;
  if (flushing) return;
  flushing = setTimeout(() => { send({do: 'turn', values: queue}); queue = {}; flushing = null; }, 90);
};
const build = () => {
  const form = $('knobs'), focus = document.activeElement && document.activeElement.id;
  form.textContent = '';
  let group = '';
  for (const knob of scene.knobs) {
    if (knob.group !== group) form.append(element('h2', {textContent: group = knob.group}));
    const id = 'knob-' + knob.key, div = element('div', {className: 'knob'}), name = element('label', {htmlFor: id + (knob.choices.length ? '' : '-number'), textContent: knob.label});
    if (knob.unit) name.append(' ', element('span', {className: 'unit', textContent: knob.unit}));
    div.dataset.key = knob.key;
    if (knob.choices.length) {
      const select = element('select', {id}, ...knob.choices.map((c) => new Option(c, c, false, c === knob.now)));
      select.onchange = () => turn(knob.key, select.value);
      div.append(name, select);
    } else {
      const low = Math.min(knob.low, knob.now), high = Math.max(knob.high, knob.now);
      const range = element('input', {type: 'range', id, min: low, max: high, step: knob.whole ? 1 : 'any', value: knob.now, ariaLabel: knob.label});
      const number = element('input', {type: 'number', id: id + '-number', step: knob.whole ? 1 : 'any', value: +(+knob.now).toPrecision(6)});
      const rounded = (v) => knob.whole ? Math.round(v) : +(Math.round(v / step(knob)) * step(knob)).toPrecision(6);
      range.oninput = () => { const v = rounded(+range.value); number.value = v; between(knob, v); turn(knob.key, v); };
      range.onkeydown = (e) => {
        const way = {ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1}[e.key];
        if (!way) return;
        e.preventDefault();
        range.value = knob.whole ? +range.value + way : +range.value + way * (high - low) / 100;
        range.oninput();
      };
      number.onchange = () => { if (number.value !== '' && Number.isFinite(+number.value)) { range.value = number.value; turn(knob.key, knob.whole ? Math.round(+number.value) : +number.value); } };
      if (scene.design && knob.group === 'Dimensions' && !knob.key.includes(':'))
        name.prepend(element('input', {type: 'checkbox', className: 'tick', id: 'tick-' + knob.key, checked: ticked.has(knob.key),
          ariaLabel: `change ${knob.label} in a search`, onchange: (e) => ticked[e.target.checked ? 'add' : 'delete'](knob.key)}));
      div.append(name, number, range);
    }
    if (Object.keys(sensed).length && knob.group === 'Dimensions') div.append(element('div', {className: 'effect', innerHTML: effect(knob)}));
    form.append(div);
    if (knob.key === 'material')
      form.append(element('p', {className: 'note', textContent: scene.scatter ? `its modulus differs by ${(100 * scene.scatter).toFixed(0)} % between batches (in the error bar)` : 'its scatter between batches is not known'}));
  }
  if (focus && $(focus)) $(focus).focus();
};
const ticked = new Set();
const refresh = () => {  // other values, the same knobs: what is being dragged stays in the hand
  for (const knob of scene.knobs) {
    const input = $('knob-' + knob.key), number = $('knob-' + knob.key + '-number');
    if (!input || document.activeElement === input || document.activeElement === number || queue[knob.key] !== undefined) continue;
    input.value = knob.now;
    if (number) number.value = +(+knob.now).toPrecision(6);
  }
};
// while a pressure is dragged: the shape between the two frames of the path that are nearest, at once
const between = (knob, value) => {
  if (knob.group !== 'Actuation' || !/^(pressure_kpa|volume_ratio):0$/.test(knob.key)) return;
  const column = knob.key.replace(':0', '_1'), known = run.frames.filter((f) => f.row[column] !== undefined && f.body.triangles.length === (shown ? shown.body.triangles.length : 0));
  known.sort((a, b) => a.row[column] - b.row[column]);
  const above = known.findIndex((f) => f.row[column] >= value);
  if (above < 1) return;
  const [a, b] = [known[above - 1], known[above]], s = (value - a.row[column]) / Math.max(1e-12, b.row[column] - a.row[column]);
  const mix = (part) => part && {...part, frames: [Object.fromEntries(Object.keys(part.frames[0]).map((k) => [k, part.frames[0][k].map((v, i) => v + s * (({body: b.body, walls: b.walls})[part === a.body ? 'body' : 'walls'].frames[0][k][i] - v))]))]};
  const row = Object.fromEntries(Object.entries(a.row).map(([k, v]) => [k, typeof v === 'number' && typeof b.row[k] === 'number' ? v + s * (b.row[k] - v) : v]));
  show({...a, body: mix(a.body), walls: mix(a.walls), row, mixed: true});
};

// ---- the curve

const measures = () => {
  const whole = run.frames.filter((f) => f.checked !== false), row = whole.length ? whole[whole.length - 1].row : {}, names = Object.keys(row).filter((n) => typeof row[n] === 'number' && !['frame', 'iterations', 'seconds'].includes(n));
  if (!whole.length || JSON.stringify(names) === measures.last) return;
  measures.last = JSON.stringify(names);
  const moves = !scene.knobs.some((k) => k.key === 'drive' || k.key === 'tension_n:0'), driven = moves ? 'load' : scene.knobs.some((k) => k.key === 'drive' && k.now === 'volume') ? 'volume_ratio_1' : 'pressure_kpa_1';
  const wanted = {x: [$('x').value, driven, 'cable_tension_n_1', 'load'], y: [$('y').value, 'bend_angle_deg', moves ? 'tip_x_mm' : 'tip_z_mm', 'tip_z_mm']};
  for (const axis of ['x', 'y']) {
    $(axis).replaceChildren(...names.map((n) => new Option(heading(n), n)));
    $(axis).value = wanted[axis].find((n) => names.includes(n)) || names[0];
  }
};
const curve = () => {
  const nx = $('x').value, ny = $('y').value, at = (f) => ({x: f.row[nx], y: f.row[ny], f});
  const fine = run.frames.filter((f) => (f.level === 'refining' || f.level === 'converged') && f.number === (scene || {}).number), coarse = run.frames.filter((f) => f.level === 'preview');
  const lines = [...pins.map((p) => ({points: p.frames.map(at), color: p.color})), {points: coarse.map(at), color: 'var(--soft)', dash: '4 3', hollow: true}, {points: fine.map(at), color: 'var(--accent)'}];
  const barred = (part) => fine.map((f) => ({...at(f), bar: ((run.bars[f.step] || {})[ny] || {})[part]})).filter((p) => Number.isFinite(p.bar));
  $('curve').innerHTML = chart(330, 250, nx, ny, lines, [barred('total'), barred('mesh')], shown && at(shown));
};

// ---- pinned runs

const listPins = () => {
  $('pins').replaceChildren(...pins.map((p) => element('span', {className: 'pin'}, element('i', {style: `background:${p.color}`}), p.name,
    element('button', {type: 'button', textContent: '×', ariaLabel: `unpin ${p.name}`, onclick: () => { pins = pins.filter((q) => q !== p); listPins(); ghosts(); curve(); }}))));
};
const pin = () => {
  const list = best();
  if (!list.length) return;
  const color = PINS.find((c) => !pins.some((p) => p.color === c)) || PINS[0], last = list.reduce((a, b) => b.step > a.step ? b : a);
  pins = [...pins.filter((p) => p.color !== color), {name: 'run ' + last.number, color, frame: last, frames: [...list]}];
  listPins();
  ghosts();
  curve();
};

// ---- what the server says

const heard = (m) => {
  if (m.say === 'scene') {
    D.chambers = m.chambers;
    [work, failure] = ['show', ''];
    const shape = JSON.stringify(m.knobs.filter((k) => k.group !== 'Actuation' && k.group !== 'Mesh').map((k) => [k.key, k.now]).concat([m.name])), before = scene;
    scene = m;
    if (shape !== run.shape) { run = {shape, frames: [], bars: {}, rest: null}; sensed = {}; } else run = {...run, frames: run.frames.filter((f) => f.level === 'preview'), bars: {}, rest: null};
    if (!before || JSON.stringify(before.knobs.map((k) => [k.key, k.low, k.high])) !== JSON.stringify(m.knobs.map((k) => [k.key, k.low, k.high])) || !Object.keys(sensed).length && document.querySelector('.effect')) build();
    else refresh();
    $('name').textContent = m.name;
    document.title = m.name + ' - geosim studio';
    document.querySelectorAll('.only-design').forEach((e) => { e.hidden = !m.design; });
    $('reach').parentElement.hidden = !m.knobs.some((k) => k.key === 'drive');
    $('ask').hidden = $('reach').parentElement.hidden && !m.design;
    $('report').hidden = !m.report;
    words = {command: m.command, python: m.python};
    code();
    say('');
    $('saved').textContent = '';
    badge();
  } else if (m.say === 'refused') {
    say(m.text);
    const bad = scene && scene.knobs.find((k) => m.text.includes(k.label));
    document.querySelectorAll('.knob').forEach((e) => e.classList.toggle('bad', bad !== undefined && e.dataset.key === bad.key));
    refresh();
  } else if (m.say === 'failed') {
    say(m.text);
    if (m.what !== 'sensitivities') failure = m.text;
    badge();
  } else if (m.say === 'work') {
    if (scene && m.number === scene.number) work = m.what;
    badge();
  } else if (m.say === 'bars') {
    run.bars[m.step] = m.bars;
    if (m.why) say(`no error bar of frame ${m.step}: ${m.why}`);
    badge();
    curve();
  } else if (m.say === 'sensitivity') {
    const first = !Object.keys(sensed).length;
    sensed[m.key] = m;
    if (first) build();
    document.querySelectorAll('.knob .effect').forEach((e) => { e.innerHTML = effect(scene.knobs.find((k) => k.key === e.parentElement.dataset.key)); });
  } else if (m.say === 'asked') {
    $('answer').textContent = m.text;
    $('stop').hidden = false;
  } else if (m.say === 'answer') {
    $('answer').textContent = m.text;
    $('stop').hidden = true;
    if (m.report) $('report').hidden = false;
    if (m.values && Object.keys(m.values).length) send({do: 'turn', values: m.values});
  } else if (m.say === 'saved') {
    $('saved').textContent = `wrote ${m.folder}` + (m.result ? ' with its result' : '; it is not solved yet, the command solves it');
    words = {command: m.command, python: m.python};
    code();
  }
};
const code = () => { $('code').textContent = words[$('script').classList.contains('on') ? 'python' : 'command']; };

const connect = () => {
  socket = new WebSocket(`ws://${location.host}/ws?token=${TOKEN}`);
  socket.binaryType = 'arraybuffer';
  socket.onopen = () => { wait = 400; online = true; $('offline').hidden = true; badge(); };
  socket.onmessage = (e) => typeof e.data === 'string' ? heard(JSON.parse(e.data)) : arrived(decoded(e.data));
  socket.onclose = () => { $('offline').hidden = false; online = false; badge(); setTimeout(connect, wait); wait = Math.min(5000, 1.6 * wait); };
};

// ---- controls

const stop = () => { clearInterval(timer); timer = null; $('play').textContent = 'Play'; };
// the frame of a step, or the solved one that is nearest to it
const go = (step) => {
  const near = best().reduce((a, b) => a && Math.abs(a.step - step) <= Math.abs(b.step - step) ? a : b, null);
  if (near) { show(near); curve(); } else badge();
};
$('slider').oninput = () => { stop(); go(+$('slider').value); };
$('play').onclick = () => {
  if (timer) return stop();
  const list = best(), last = list.length - 1;
  let i = list.findIndex((f) => f.step === +$('slider').value);
  if (i >= last) i = -1;
  $('play').textContent = 'Pause';
  timer = setInterval(() => { if (i >= last) return stop(); go(list[++i].step); }, Math.max(40, 2400 / list.length));
};
for (const name of D.keys) $('key').append(new Option(NAMES[name], name));
$('key').onchange = () => { key = $('key').value; if (shown) { bar(key); view.show(0, key); } };
$('x').onchange = $('y').onchange = curve;
$('pin').onclick = pin;
$('reach').onclick = () => send({do: 'reach', degrees: +$('degrees').value});
$('sense').onclick = () => { sensed = {}; $('answer').textContent = ''; send({do: 'sensitivities'}); };
$('search').onclick = () => {
  const keys = [...ticked].slice(0, 6);
  if (!keys.length) { $('answer').textContent = 'tick the dimensions that may change, on the left'; return; }
  send({do: 'search', degrees: +$('degrees').value, keys, trials: Math.round(+$('trials').value)});
};
$('report').href = `report?token=${TOKEN}`;
$('stop').onclick = () => send({do: 'stop'});
$('save').onclick = () => { if ($('folder').checkValidity() && $('folder').value) send({do: 'save', name: $('folder').value}); else say('a folder is named with letters, digits, - and _'); };
for (const [id, other] of [['shell', 'script'], ['script', 'shell']]) $(id).onclick = () => { $(id).classList.add('on'); $(other).classList.remove('on'); code(); };
$('copy').onclick = () => navigator.clipboard.writeText($('code').textContent).then(() => { $('copy').textContent = 'Copied'; setTimeout(() => { $('copy').textContent = 'Copy'; }, 1200); }, () => say('this browser lets no page copy; select the text'));
$('knobs').onsubmit = (e) => e.preventDefault();
dark.onchange = () => { if (view) view.background(paper()); ghosts(); };
addEventListener('keydown', (e) => {
  if (/INPUT|SELECT|TEXTAREA|BUTTON/.test(e.target.tagName) || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === ' ') { e.preventDefault(); $('play').click(); } else if (e.key === 'p') pin(); else if (e.key === 'r' && view) view.home();
});
// what needs the viewer: cut, measure, what is under the mouse, an object that is dragged
const wire = () => {
  const cut = () => { $('depth').hidden = $('cut').value === ''; view.cut($('cut').value === '' ? null : +$('cut').value, $('depth').value / 1000); };
  $('cut').onchange = $('depth').oninput = cut;
  $('home').onclick = view.home;
  $('ghost').onchange = () => { view.ghost($('ghost').checked); ghosts(); };
  pointing(view, () => key);
  view.canvas.addEventListener('pointerdown', (e) => {
    const hit = scene.knobs.some((k) => k.key === 'object_x_mm') && !$('measure').classList.contains('on') ? view.grasp(e) : null;
    if (!hit || hit.number !== 0) return;
    held = {...hit, at: ['x', 'y', 'z'].map((a) => +scene.knobs.find((k) => k.key === `object_${a}_mm`).now), points: shown.around[0].points.slice()};
    view.controls.enabled = false;
    view.canvas.setPointerCapture(e.pointerId);
  }, true);
  view.canvas.addEventListener('pointermove', (e) => {
    const to = held && view.onPlane(e, held.plane);
    if (!to) return;
    const way = [to.x - held.point.x, to.y - held.point.y, to.z - held.point.z];
    const moved = held.points.map((v, i) => v + way[i % 3]);
    view.around([{...shown.around[0], points: moved}]);
    D.around = {frames: [[0]]};
    view.show(0, key);
    held.values = Object.fromEntries(['x', 'y', 'z'].map((a, k) => [`object_${a}_mm`, +(held.at[k] + way[k]).toFixed(2)]));
    for (const [name, value] of Object.entries(held.values)) turn(name, value);
  });
  view.canvas.addEventListener('pointerup', () => { if (held) { held = null; view.controls.enabled = true; } });
};
connect();
