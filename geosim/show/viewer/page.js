// The page of a result: its curve, table and residuals, and what its controls do to the viewer.

// ---- data

const part = async (given) => {
  const frames = [], rest = await positions(given.rest);
  for (const f of given.frames) {
    const points = await positions(f.points), displacement = new Float32Array(points.length / 3), fields = {displacement};
    for (let i = 0; i < displacement.length; i++)
      displacement[i] = Math.hypot(points[3 * i] - rest[3 * i], points[3 * i + 1] - rest[3 * i + 1], points[3 * i + 2] - rest[3 * i + 2]);
    for (const key of Object.keys(f).filter((name) => name !== 'points'))
      fields[key] = spread(await unpacked(f[key], Uint16Array), [D.ranges[key][0]], [D.ranges[key][1]]);
    frames.push({points, ...fields});
  }
  return {triangles: await unpacked(given.triangles, Uint32Array), rest, frames};
};
const library = async () => {
  const script = document.createElement('script');
  script.textContent = new TextDecoder().decode(await unpacked($('three').textContent, Uint8Array));
  document.head.append(script);
};

// ---- table and residuals, which need no graphics

const line = (cells, tag) => {
  const tr = document.createElement('tr');
  for (const c of cells) { const td = document.createElement(tag); td.textContent = c; tr.appendChild(td); }
  return tr;
};
const residuals = () => {
  if (!D.residuals.length) return $('evidence').remove();
  $('evidence').querySelector('summary').textContent = `Residuals of ${D.residuals.reduce((sum, [, r]) => sum + r.length, 0)} iterations`;
  const W = 1100, H = 252, left = 56, low = 44, colors = ['#31688e', '#35b779', '#90d743', '#440154', '#b3541e'];
  const logs = D.residuals.flatMap(([, r]) => r).filter((v) => v > 0).map(Math.log10);
  const most = Math.max(1, ...D.residuals.map(([, r]) => r.length - 1));
  const top = Math.ceil(Math.max(...logs)), bottom = Math.min(top - 1, Math.floor(Math.min(...logs)));
  const X = (i) => left + (W - left - 12) * i / most, Y = (v) => 8 + (H - low - 8) * (top - Math.log10(v)) / (top - bottom);
  let out = '';
  for (let e = bottom; e <= top; e += Math.max(1, Math.ceil((top - bottom) / 8)))
    out += `<line x1="${left}" x2="${W}" y1="${Y(10 ** e)}" y2="${Y(10 ** e)}" stroke="var(--line)"/><text x="8" y="${Y(10 ** e) + 4}">1e${e}</text>`;
  for (let i = 0; i <= most; i += Math.max(1, Math.ceil(most / 12))) out += `<text x="${X(i) - 4}" y="${H - 26}">${i}</text>`;
  D.residuals.forEach(([frame, r], n) => {
    const points = r.map((v, i) => [i, v]).filter(([, v]) => v > 0).map(([i, v]) => `${X(i).toFixed(1)},${Y(v).toFixed(1)}`);
    const color = colors[n % colors.length];
    out += `<g><title>frame ${frame}</title><polyline points="${points.join(' ')}" fill="none" stroke="${color}" stroke-width="1.4"/>` +
      points.map((p) => `<circle cx="${p.split(',')[0]}" cy="${p.split(',')[1]}" r="2.4" fill="${color}"/>`).join('') + '</g>';
  });
  $('residuals').innerHTML = svg(W, H, out + `<text x="${W / 2}" y="${H - 4}">iteration</text>`).replace('<svg ', '<svg style="max-width:100%;height:auto" ');
};

const tables = (choose) => {
  $('status').textContent = D.status;
  $('status').className = D.status === 'CONVERGED' ? 'good' : 'bad';
  $('message').textContent = D.message + (D.note ? ' ' + D.note : '');
  for (const sentence of D.trust) $('trust').appendChild(document.createElement('li')).textContent = sentence;
  $('head').appendChild(line(D.columns.map((name) => heading(name)), 'th'));
  D.rows.forEach((row, r) => {
    const tr = line(row, 'td'), i = D.chosen.indexOf(r);
    if (i >= 0) tr.onclick = () => choose(i);
    $('rows').appendChild(tr);
  });
  residuals();
};

// ---- the curve: what the robot did against its command

const numbers = D.rows.map((row) => Object.fromEntries(D.columns.map((name, c) => [name, +row[c]])));
const atRest = (name) => /^(volume_ratio|body_volume_ratio|max_stretch)/.test(name) ? 1 : /^(tip|volume_mm3|cable_length|iterations|seconds)/.test(name) ? NaN : 0;
const curves = (choose) => {
  const names = D.columns.filter((name) => name !== 'status' && name !== 'frame' && numbers.some((row) => Number.isFinite(row[name])));
  for (const [id, first] of [['x', [D.command]], ['y', D.did]]) {
    $(id).replaceChildren(...names.map((name) => new Option(heading(name), name)));
    $(id).value = first.find((name) => names.includes(name)) || names[0];
  }
  const at = (row) => ({x: row[$('x').value], y: row[$('y').value]});
  const draw = (r) => {
    const rest = D.times[0] > 0 ? [{x: atRest($('x').value), y: atRest($('y').value)}] : [];
    const points = [...rest, ...numbers.map(at)];
    $('curve').innerHTML = chart(360, 400, $('x').value, $('y').value, [{points, color: 'var(--accent)'}], [], r === null ? null : at(numbers[r]));
  };
  $('x').onchange = $('y').onchange = () => draw($('curve').row);
  return (r) => { $('curve').row = r; draw(r); };
};

// ---- the page

const MOTION_MS = 3000; // from rest to the last frame
const start = async () => {
  const last = D.chosen.length - 1, begins = D.times[0] > 0;  // the motion begins at rest, which is no frame of a load path
  let now = last, playing = 0, key = D.keys[0], view = null, choose = () => {};
  tables((i) => choose(i));
  if (!D.did.length) document.querySelector('aside').remove();
  const mark = D.did.length ? curves() : () => {};
  if (D.table) $('table').textContent = D.table;
  mark(D.chosen[last]);
  for (const name of D.keys) $('key').append(new Option(NAMES[name], name));
  $('key').parentElement.hidden = D.keys.length < 2;
  let body = null, walls = null;
  try {
    await library();
    const around = [];
    for (const [color, opacity, p, t] of D.around.surfaces)
      around.push({color, opacity, points: await unpacked(p, Float32Array), triangles: await unpacked(t, Uint32Array)});
    [body, walls] = [await part(D.body), D.walls && await part(D.walls)];
    if (begins) {
      for (const surface of [body, walls]) if (surface) {
        const none = new Float32Array(surface.rest.length / 3), fields = Object.fromEntries(D.keys.map((k) => [k, k === 'stretch' ? none.map(() => 1) : none]));
        surface.frames.unshift({points: surface.rest, ...fields});
      }
      D.around.frames.unshift(D.around.frames[0].filter((n) => D.around.surfaces[n][1] < 1).concat(D.around.rest || []));
    }
    view = viewer(body, walls, around);
  } catch (error) {
    $('view').style.height = 'auto';
    $('view').textContent = 'The shape cannot be drawn by this browser (' + error.message + '); picture.png beside this page shows it.';
    return;
  }
  // commands and what the robot did; of more than two chambers without names, the least and the largest
  const commands = ['volume_ratio', 'pressure_kpa', 'cable_tension_n'].map((begin) => D.columns.filter((name) => name.startsWith(begin + '_')));
  const telling = [...commands.flatMap((names) => names.length > 2 && !D.chambers.length ? [names] : names.map((name) => [name])), ...D.did.slice(0, 2).map((name) => [name])];
  const show = (i, share = 0, first = begins ? 1 : 0) => {
    view.show(i + first, key, share);
    now = share ? i + share : i;
    $('slider').value = now;
    if (i < 0 || share) { $('where').textContent = i < 0 && !share ? 'at rest' : i < 0 ? 'between rest and frame 0' : `between frames ${D.chosen[i]} and ${D.chosen[i + 1]}`; mark(null); return; }
    const row = D.rows[D.chosen[i]], at = (name) => row[D.columns.indexOf(name)];
    $('where').textContent = D.still ? '' : [`frame ${at('frame')} of 0 .. ${D.rows.length - 1}`, ...telling.map((names) => {
      const values = names.map((name) => +at(name)).filter(Number.isFinite).sort((a, b) => a - b).map((v) => +v.toPrecision(4));
      if (!values.length) return '';
      const [, words, unit] = heading(names[0]).match(/^(.*) \[(.*)\]$/), ends = [...new Set([values[0], values[values.length - 1]])];
      return `${names.length > 1 ? words.replace(/ 1$/, '') : words} ${ends.join(' .. ')}${unit === '-' ? '' : unit === '°' ? '°' : ' ' + unit}`;
    })].filter((said) => said).join(', ');
    mark(D.chosen[i]);
    document.querySelectorAll('#rows tr').forEach((tr, r) => tr.classList.toggle('now', r === D.chosen[i]));
  };
  const stop = () => { cancelAnimationFrame(playing); playing = 0; $('play').textContent = 'Play'; };
  const times = begins ? [0, ...D.times] : D.times, span = times[times.length - 1] - times[0];
  const play = (ended) => {
    const from = performance.now();
    $('play').textContent = 'Pause';
    const step = (at) => {
      const t = times[0] + span * Math.min(1, (at - from) / MOTION_MS);
      let i = times.findIndex((v) => v > t) - 1;
      if (i < 0) { show(last); stop(); return ended && ended(); }
      show(begins ? i - 1 : i, Math.max(1e-6, (t - times[i]) / (times[i + 1] - times[i])));
      playing = requestAnimationFrame(step);
    };
    playing = requestAnimationFrame(step);
  };
  choose = (at) => {  // a place near a frame is that frame
    stop();
    if (Math.abs(at - Math.round(at)) < 0.1) show(Math.round(at)); else show(Math.floor(at), at - Math.floor(at));
  };
  Object.assign($('slider'), {min: begins ? -1 : 0, max: last});
  if (times.length < 2) for (const id of ['play', 'slider', 'film']) $(id).hidden = true;
  $('slider').oninput = (e) => choose(+e.target.value);
  $('play').onclick = () => playing ? stop() : play();
  $('ghost').onchange = (e) => view.ghost(e.target.checked);
  $('key').onchange = (e) => { key = e.target.value; bar(key); show(Math.floor(now)); };
  const cut = () => {
    $('depth').hidden = $('cut').value === '';
    view.cut($('cut').value === '' ? null : +$('cut').value, $('depth').value / 1000);
  };
  $('cut').onchange = $('depth').oninput = cut;
  $('home').onclick = view.home;
  const save = (url, name) => Object.assign(document.createElement('a'), {href: url, download: name}).click();
  $('picture').onclick = () => { view.paint(); save(view.canvas.toDataURL('image/png'), D.name + '.png'); };
  if (typeof MediaRecorder === 'undefined' || !view.canvas.captureStream) $('film').remove();
  else $('film').onclick = () => {
    stop();
    const recorder = new MediaRecorder(view.canvas.captureStream(30), {videoBitsPerSecond: 8e6}), parts = [];
    recorder.ondataavailable = (e) => parts.push(e.data);
    recorder.onstop = () => save(URL.createObjectURL(new Blob(parts, {type: recorder.mimeType})), D.name + '.webm');
    recorder.start();
    play(() => setTimeout(() => recorder.stop(), 800));
  };
  pointing(view, () => key);
  arrowScale(view);
  themed(view);
  bar(key);
  show(last);
  if (D.still) { view.ghost(false); $('ghost').parentElement.remove(); }
};
start();
