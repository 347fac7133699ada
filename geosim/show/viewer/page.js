// The page of a result: its table and residuals, and what its controls do to the viewer.

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
  const W = 1100, H = 252, left = 56, low = 44, colors = ['#31688e', '#35b779', '#90d743', '#440154', '#b3541e'];
  const logs = D.residuals.flatMap(([, r]) => r).filter((v) => v > 0).map(Math.log10);
  const most = Math.max(1, ...D.residuals.map(([, r]) => r.length - 1));
  const top = Math.ceil(Math.max(...logs)), bottom = Math.min(top - 1, Math.floor(Math.min(...logs)));
  const X = (i) => left + (W - left - 12) * i / most, Y = (v) => 8 + (H - low - 8) * (top - Math.log10(v)) / (top - bottom);
  let out = '';
  for (let e = bottom; e <= top; e += Math.max(1, Math.ceil((top - bottom) / 8)))
    out += `<line x1="${left}" x2="${W}" y1="${Y(10 ** e)}" y2="${Y(10 ** e)}" stroke="#e6e9ee"/><text x="8" y="${Y(10 ** e) + 4}">1e${e}</text>`;
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
  $('head').appendChild(line(D.columns, 'th'));
  D.rows.forEach((row, r) => {
    const tr = line(row, 'td'), i = D.chosen.indexOf(r);
    if (i >= 0) tr.onclick = () => choose(i);
    $('rows').appendChild(tr);
  });
  residuals();
};

// ---- the page

const start = async () => {
  let now = D.chosen.length - 1, timer = null, key = 'displacement', view = null, choose = () => {};
  tables((i) => choose(i));
  for (const name of D.keys) $('key').append(new Option(NAMES[name], name));
  $('key').parentElement.hidden = D.keys.length < 2;
  try {
    await library();
    const around = [];
    for (const [color, opacity, p, t] of D.around.surfaces)
      around.push({color, opacity, points: await unpacked(p, Float32Array), triangles: await unpacked(t, Uint32Array)});
    view = viewer(await part(D.body), D.walls && await part(D.walls), around);
  } catch (error) {
    $('view').style.height = 'auto';
    $('view').textContent = 'The shape cannot be drawn by this browser (' + error.message + '); picture.png beside this page shows it.';
    return;
  }
  const show = (i) => {
    now = i;
    view.show(i, key);
    $('slider').value = i;
    const row = D.rows[D.chosen[i]], at = (name) => row[D.columns.indexOf(name)];
    const of = (begin) => D.columns.filter((c) => c.startsWith(begin) && at(c) !== 'nan');
    $('where').textContent = 'frame ' + at('frame') + of('volume_ratio').map((c) => ', V/V0 ' + at(c)).join('') +
      of('pressure').map((c) => ', ' + at(c) + ' kPa').join('') + of('bend_angle').map((c) => ', bend ' + at(c) + '°').join('');
    document.querySelectorAll('#rows tr').forEach((tr, r) => tr.classList.toggle('now', r === D.chosen[i]));
  };
  const stop = () => { clearInterval(timer); timer = null; $('play').textContent = 'Play'; };
  const play = (ended) => {
    if (now === D.chosen.length - 1) show(0);
    $('play').textContent = 'Pause';
    timer = setInterval(() => now < D.chosen.length - 1 ? show(now + 1) : (stop(), ended && ended()), Math.max(80, 3000 / D.chosen.length));
  };
  choose = (i) => { stop(); show(i); };
  $('slider').max = D.chosen.length - 1;
  if (D.chosen.length < 2) for (const id of ['play', 'slider', 'film']) $(id).hidden = true;
  $('slider').oninput = (e) => choose(+e.target.value);
  $('play').onclick = () => timer ? stop() : play();
  $('ghost').onchange = (e) => view.ghost(e.target.checked);
  $('key').onchange = (e) => { key = e.target.value; bar(key); show(now); };
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
    show(0);
    recorder.start();
    play(() => setTimeout(() => recorder.stop(), 800));
  };
  pointing(view, () => key);
  bar(key);
  show(now);
};
start();
