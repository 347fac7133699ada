// What draws a robot: a shape that turns, its fields, frames, a cut, a ruler. D is the data, THREE the drawing library. Pages of results and the
// studio share it.
'use strict';
const $ = (id) => document.getElementById(id);
const LABELS = {displacement: 'displacement [mm]', stretch: 'largest stretch [-]', stress: 'von Mises stress [kPa]',
  contact: 'contact pressure [kPa]', distance: 'distance [mm]'};
const NAMES = {displacement: 'displacement', stretch: 'stretch', stress: 'stress', contact: 'contact pressure', distance: 'distance'};

// ---- data: deflated arrays in base64; positions and fields are whole numbers between a least and a largest value

const unpacked = async (text, Type) => {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Type(await new Response(stream).arrayBuffer());
};
const spread = (whole, low, high) => {
  const out = new Float32Array(whole.length), many = low.length;
  for (let i = 0; i < whole.length; i++) out[i] = low[i % many] + whole[i] / 65535 * (high[i % many] - low[i % many]);
  return out;
};
const positions = async (text) => spread(await unpacked(text, Uint16Array), D.box[0], D.box[1]);

// ---- drawing

const VERTEX = `attribute float value; varying float v; varying vec3 seen;
#include <clipping_planes_pars_vertex>
void main() { v = value; vec4 mvPosition = modelViewMatrix * vec4(position, 1.0); seen = mvPosition.xyz;
  #include <clipping_planes_vertex>
  gl_Position = projectionMatrix * mvPosition; }`;
// What a cut opens shows the backs of the surfaces: drawn without light they look like the cut material.
// Colours are those of the bar times the light on the face, the same as in the pictures.
const FRAGMENT = `uniform sampler2D map; uniform vec2 range; uniform vec3 light; uniform vec4 tint; uniform bool capped; varying float v; varying vec3 seen;
#include <clipping_planes_pars_fragment>
void main() {
  #include <clipping_planes_fragment>
  vec3 n = normalize(cross(dFdx(seen), dFdy(seen)));
  float lit = 0.62 + 0.42 * max(-0.35, dot(n, light));
  if (!gl_FrontFacing && capped) { gl_FragColor = vec4(0.87, 0.85, 0.82, 1.0); return; }
  if (!gl_FrontFacing) lit *= 0.72;
  vec3 color = tint.a < 0.0 ? texture2D(map, vec2(clamp((v - range.x) / (range.y - range.x), 0.0, 1.0), 0.5)).rgb : tint.rgb;
  gl_FragColor = vec4(color * lit, tint.a < 0.0 ? 1.0 : tint.a); }`;

const texture = (colors) => {
  const data = new Uint8Array(4 * colors.length);
  colors.forEach((c, i) => data.set([...c, 255], 4 * i));
  const map = new THREE.DataTexture(data, colors.length, 1);
  map.magFilter = map.minFilter = THREE.LinearFilter;
  map.needsUpdate = true;
  return map;
};

const viewer = (body, walls, around) => {
  const place = $('view'), renderer = new THREE.WebGLRenderer({antialias: true, preserveDrawingBuffer: true});
  renderer.setPixelRatio(Math.min(2, window.devicePixelRatio || 1));
  renderer.setClearColor(paper());
  renderer.localClippingEnabled = true;
  place.prepend(renderer.domElement);
  const scene = new THREE.Scene(), camera = new THREE.OrthographicCamera();
  const maps = Object.fromEntries(D.keys.map((key) => [key, texture(D.colors[key])]));
  const light = new THREE.Vector3(), toLight = new THREE.Vector3(...D.light);
  const plane = new THREE.Plane();
  let planes = [];
  const material = (color, opacity) => {
    const c = color ? new THREE.Color().setStyle(color, '') : null;
    return new THREE.ShaderMaterial({vertexShader: VERTEX, fragmentShader: FRAGMENT, clipping: true, side: THREE.DoubleSide, forceSinglePass: false,
      transparent: opacity < 1, depthWrite: opacity === 1, polygonOffset: opacity < 1, polygonOffsetFactor: 1, polygonOffsetUnits: 4,
      uniforms: {map: {value: maps[D.keys[0]]}, range: {value: new THREE.Vector2()}, light: {value: light}, capped: {value: false},
        tint: {value: new THREE.Vector4(...(c ? [c.r, c.g, c.b, opacity] : [0, 0, 0, -1]))}}});
  };
  const mesh = (points, triangles, made) => {
    const shape = new THREE.BufferGeometry();
    shape.setAttribute('position', new THREE.BufferAttribute(points, 3));
    shape.setAttribute('value', new THREE.BufferAttribute(new Float32Array(points.length / 3), 1));
    shape.setIndex(new THREE.BufferAttribute(triangles, 1));
    const out = new THREE.Mesh(shape, made);
    out.frustumCulled = false;
    scene.add(out);
    return out;
  };
  const drop = (m) => { if (m) { scene.remove(m); m.geometry.dispose(); } };
  const colored = material(null, 1), pale = material('#9aa3af', 0.16);
  // the rest shape is drawn before the body, which then covers it: it never shows through
  Object.assign(pale, {transparent: false, blending: 5});  // 5: CustomBlending of three.js
  let skin = null, inside = null, ghost = null, beside = [], others = [];
  // another surface takes the place of the one that is drawn
  const load = (newBody, newWalls) => {
    const seen = ghost ? ghost.visible : true;
    [skin, inside, ghost].forEach(drop);
    [body, walls] = [newBody, newWalls];
    skin = mesh(body.frames[0].points.slice(), body.triangles, colored);
    inside = walls && mesh(walls.frames[0].points.slice(), walls.triangles, colored);
    ghost = mesh(body.rest, body.triangles, pale);
    ghost.renderOrder = -1;
    ghost.visible = seen;
    clip();
  };

  let middle, size, extent;
  const controls = new THREE.OrbitControls(camera, renderer.domElement);
  controls.screenSpacePanning = true;
  const home = () => {
    controls.target.copy(middle);
    camera.position.copy(middle).addScaledVector(new THREE.Vector3(...D.eye).normalize(), 10 * size);
    camera.zoom = 1;
    camera.updateProjectionMatrix();
    controls.update();
  };
  // half the width and height of the box as the first view sees it, with room for scale and colours
  const seenExtent = () => {
    const eye = new THREE.Vector3(...D.eye).normalize(), right = new THREE.Vector3(...D.up).cross(eye).normalize(), up = eye.clone().cross(right);
    const half = (a) => [0, 1, 2].reduce((sum, k) => sum + Math.abs(a.getComponent(k)) * (D.box[1][k] - D.box[0][k]) / 2, 0);
    return [1.35 * half(right), 1.15 * half(up)];
  };
  const measure = () => {
    middle = new THREE.Vector3(...[0, 1, 2].map((k) => (D.box[0][k] + D.box[1][k]) / 2));
    size = Math.hypot(...[0, 1, 2].map((k) => D.box[1][k] - D.box[0][k])) || 1;
    camera.up.set(...D.up);
    camera.near = 0.01 * size;
    camera.far = 40 * size;
    extent = seenExtent();
  };
  measure();
  const fit = () => {
    const w = place.clientWidth, h = place.clientHeight, tall = Math.max(extent[1], extent[0] * h / w, 0.05 * size);
    renderer.setSize(w, h);
    Object.assign(camera, {left: -tall * w / h, right: tall * w / h, top: tall, bottom: -tall});
    camera.updateProjectionMatrix();
    draw();
  };
  let waiting = false, after = () => {};
  const pixelsOf = (mm) => mm * place.clientHeight * camera.zoom / (camera.top - camera.bottom);
  const paint = () => {
    waiting = false;
    light.copy(toLight).transformDirection(camera.matrixWorldInverse);
    renderer.render(scene, camera);
    triad(camera);
    ruler(camera, place.clientHeight);
    after();
    ink();
  };
  const draw = () => { if (!waiting) { waiting = true; requestAnimationFrame(paint); } };
  controls.addEventListener('change', draw);
  new ResizeObserver(fit).observe(place);

  // a share of the way from one frame to the next
  const put = (target, frame, key, next, share) => {
    for (const [name, from, to] of [['position', frame.points, next.points], ['value', frame[key], next[key]]]) {
      const out = target.geometry.attributes[name].array;
      if (!share) out.set(from); else for (let i = 0; i < out.length; i++) out[i] = from[i] + share * (to[i] - from[i]);
    }
    target.geometry.attributes.position.needsUpdate = target.geometry.attributes.value.needsUpdate = true;
    target.geometry.boundingSphere = target.geometry.boundingBox = null;
  };
  const show = (i, key, share = 0) => {
    const next = Math.min(i + 1, body.frames.length - 1);
    put(skin, body.frames[i], key, body.frames[next], share);
    if (inside) put(inside, walls.frames[i], key, walls.frames[next], share);
    colored.uniforms.map.value = maps[key];
    colored.uniforms.range.value.set(...D.ranges[key]);
    for (const old of beside) { scene.remove(old); old.geometry.dispose(); old.material.dispose(); }
    // cables move with the robot between two frames; obstacles and arrows stay as in the first
    const later = D.around.frames[next].map((n) => around[n]).find((s) => s.color === D.around.cable);
    const between = (s) => !share || !later || s.color !== D.around.cable ? s.points : s.points.map((v, k) => v + share * (later.points[k] - v));
    beside = D.around.frames[i].map((n) => mesh(between(around[n]), around[n].triangles, material(around[n].color, around[n].opacity)));
    beside.forEach((m, k) => { m.userData.number = D.around.frames[i][k]; });
    clip();
    draw();
  };
  const clip = () => { for (const m of [skin, ghost, ...(inside ? [inside] : [])]) m.material.clippingPlanes = planes; };
  const cut = (axis, share) => {
    planes = [];
    if (axis !== null) {
      const normal = new THREE.Vector3().setComponent(axis, D.eye[axis] > 0 ? -1 : 1);
      const at = D.box[0][axis] + share * (D.box[1][axis] - D.box[0][axis]);
      plane.set(normal, -normal.getComponent(axis) * at);
      planes = [plane];
    }
    colored.uniforms.capped.value = axis !== null && D.solid;
    clip();
    draw();
  };

  // ---- points under the mouse, and the distance of two
  const caster = new THREE.Raycaster(), mouse = new THREE.Vector2();
  const under = (event) => {
    const box = renderer.domElement.getBoundingClientRect();
    mouse.set(2 * (event.clientX - box.left) / box.width - 1, 1 - 2 * (event.clientY - box.top) / box.height);
    caster.setFromCamera(mouse, camera);
    const hits = caster.intersectObjects(inside && planes.length ? [skin, inside] : [skin]);
    return hits.find((hit) => planes.every((p) => p.distanceToPoint(hit.point) >= 0)) || null;
  };
  const valueAt = (hit) => {
    const {a, b, c} = hit.face, value = hit.object.geometry.attributes.value, p = hit.object.geometry.attributes.position;
    const corner = (i) => new THREE.Vector3().fromBufferAttribute(p, i);
    const w = THREE.Triangle.getBarycoord(hit.point, corner(a), corner(b), corner(c), new THREE.Vector3());
    return w === null ? value.getX(a) : w.x * value.getX(a) + w.y * value.getX(b) + w.z * value.getX(c);
  };
  const onScreen = (point) => {
    const p = point.clone().project(camera);
    return [(p.x + 1) / 2 * place.clientWidth, (1 - p.y) / 2 * place.clientHeight];
  };
  let ends = [], line = null;
  const ink = () => {
    $('length').style.display = ends.length === 2 ? 'block' : 'none';
    if (ends.length < 2) return;
    const [x, y] = onScreen(ends[0].clone().add(ends[1]).multiplyScalar(0.5));
    Object.assign($('length').style, {left: x + 8 + 'px', top: y - 26 + 'px'});
    $('length').textContent = ends[0].distanceTo(ends[1]).toFixed(3) + ' mm';
  };
  const measured = (hit) => {
    if (ends.length === 2) ends = [];
    if (hit) ends.push(hit.point.clone());
    if (line) { scene.remove(line); line.geometry.dispose(); }
    line = null;
    if (ends.length) {
      line = new THREE.Line(new THREE.BufferGeometry().setFromPoints([ends[0], ends[ends.length - 1]]),
        new THREE.LineBasicMaterial({color: 0xc8291f, depthTest: false}));
      line.renderOrder = 2;
      scene.add(line);
    }
    draw();
  };
  const forget = () => { ends = []; measured(null); };
  // shapes beside the robot that stay while it changes: [points, triangles, colour, opacity]
  const overlay = (list) => {
    for (const old of others) { drop(old); old.material.dispose(); }
    others = list.map(([points, triangles, color, opacity]) => mesh(points, triangles, material(color, opacity)));
    others.forEach((m) => { m.renderOrder = 1; });
    draw();
  };
  // where the mouse meets a surface around the robot, and the plane through that point across the line of sight
  const grasp = (event) => {
    under(event);
    const hit = caster.intersectObjects(beside)[0];
    return hit ? {number: hit.object.userData.number, point: hit.point.clone(),
      plane: new THREE.Plane().setFromNormalAndCoplanarPoint(camera.getWorldDirection(new THREE.Vector3()), hit.point)} : null;
  };
  const onPlane = (event, at) => {
    under(event);
    return caster.ray.intersectPlane(at, new THREE.Vector3());
  };
  load(body, walls);
  home();
  return {show, cut, load, pixelsOf, drawn: (then) => { after = then; draw(); }, onScreen: ([x, y, z]) => onScreen(new THREE.Vector3(x, y, z)), around: (surfaces) => { around = surfaces; }, overlay, grasp, onPlane, controls,
    refit: () => { measure(); home(); fit(); }, background: (color) => { renderer.setClearColor(color); draw(); }, home: () => { home(); draw(); }, draw, under, valueAt, measured, forget, canvas: renderer.domElement, paint,
    ghost: (on) => { ghost.visible = on; draw(); }};
};

// ---- what lies over the view: axes, scale, colours

const svg = (width, height, content) => `<svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">${content}</svg>`;
const triad = (camera) => {
  const q = camera.quaternion.clone().invert();
  const arms = ['x', 'y', 'z'].map((name, k) => ({name, at: new THREE.Vector3().setComponent(k, 1).applyQuaternion(q), color: ['#c8291f', '#27864f', '#2a62b8'][k]}));
  arms.sort((a, b) => a.at.z - b.at.z);
  $('triad').innerHTML = svg(76, 76, arms.map(({name, at, color}) => `<line x1="38" y1="38" x2="${38 + 24 * at.x}" y2="${38 - 24 * at.y}" stroke="${color}" stroke-width="2.5"/>` +
    `<text x="${34 + 33 * at.x}" y="${42 - 33 * at.y}" style="fill:${color};font-weight:600">${name}</text>`).join(''));
};
const ruler = (camera, height) => {
  const mm = (camera.top - camera.bottom) / camera.zoom / height, wanted = 110 * mm, step = 10 ** Math.floor(Math.log10(wanted));
  const length = [5, 2, 1].find((f) => f * step <= wanted) * step;
  $('ruler').innerHTML = `${+length.toPrecision(3)} mm<i style="width:${length / mm}px"></i>`;
};
// an arrow beside the scale with the force that it stands for: as long as those of that force
const arrowScale = (view) => {
  const {newtons, arrow_mm: longest} = D.around;
  if (!newtons) return;
  const power = 10 ** Math.floor(Math.log10(newtons)), force = [5, 2, 1].find((f) => f * power <= newtons * 1.000001) * power;
  view.drawn(() => { $('arrows').innerHTML = `contact ${+force.toPrecision(2)} N<i style="width:${view.pixelsOf(longest * force / newtons)}px"></i>`; });
};
// colours of the page follow those of the system
const dark = matchMedia('(prefers-color-scheme: dark)');
const paper = () => dark.matches ? 0x14181d : 0xffffff;
const themed = (view) => { dark.onchange = () => view.background(paper()); };
const bar = (key) => {
  // as many digits as tell its numbers apart: a stretch of 1 to 1.005 has more than a displacement of 0 to 50 mm
  const [lo, hi] = D.ranges[key], digits = Math.max(0, 1 + Math.ceil(-Math.log10((hi - lo) / 4)));
  const text = (v) => digits > 6 ? +v.toPrecision(3) : v.toFixed(digits);
  const ramp = D.colors[key].map((c, i, all) => `rgb(${c}) ${100 * i / (all.length - 1)}%`);
  $('bar').innerHTML = `${LABELS[key]}<div style="display:flex;gap:6px;justify-content:flex-end;margin-top:4px"><i style="background:linear-gradient(to top,${ramp})"></i>` +
    `<span style="display:flex;flex-direction:column;justify-content:space-between">${[1, 0.75, 0.5, 0.25, 0].map((s) => `<span>${text(lo + s * (hi - lo))}</span>`).join('')}</span></div>`;
};

// ---- measures: their names, and a chart of one against another

const HEADINGS = {frame: 'frame', load: 'load', status: 'status', bend_angle_deg: 'bend [°]', twist_angle_deg: 'twist [°]', max_stretch: 'largest stretch [-]',
  max_von_mises_kpa: 'largest stress [kPa]', max_displacement_mm: 'largest displacement [mm]', body_volume_ratio: 'body V/V0 [-]', seconds: 'solve [s]', iterations: 'iterations'};
const UNITS = {mm3: 'mm³', mm: 'mm', kpa: 'kPa', n: 'N', deg: '°'};
// "pressure_kpa_2" is "pressure 2 [kPa]", or "pressure left [kPa]" where the chamber has that name
const heading = (name, names = D.chambers || []) => {
  if (HEADINGS[name]) return HEADINGS[name];
  const [, words, unit, number] = name.match(/^(.*?)(?:_(mm3|mm|kpa|n|deg))?(?:_(\d+))?$/), of = /^(volume|pressure)/.test(words);
  const alone = number === '1' && !(D.columns || []).includes(name.replace(/1$/, '2'));
  const which = of && names[number - 1] ? ' ' + names[number - 1] : !number || alone ? '' : ' ' + number;
  return `${words.replace('volume_ratio', 'V/V0').replace(/_/g, ' ')}${which} [${UNITS[unit] || '-'}]`;
};
const extent = (values, low, high) => { for (const v of values) { if (v < low) low = v; if (v > high) high = v; } return [low, high]; };
const ticks = (low, high) => {
  const wide = (high - low) / 4 || 1, unit = 10 ** Math.floor(Math.log10(wide)), s = [1, 2, 5, 10].find((f) => f * unit >= wide) * unit, out = [];
  for (let v = Math.ceil(low / s - 1e-9) * s; v <= high + 1e-9 * s; v += s) out.push(+v.toPrecision(6));
  return out;
};
// lines: {points: [{x, y}], color, dash, hollow}; bands: points with a half-width `bar`; now: the point that is ringed
const chart = (W, H, nx, ny, lines, bands, now) => {
  const left = 52, low = 34, known = (points) => points.filter((p) => Number.isFinite(p.x) && Number.isFinite(p.y)).sort((a, b) => a.x - b.x);
  lines = lines.map((l) => ({...l, points: known(l.points)}));
  bands = bands.map(known);
  const all = lines.flatMap((l) => l.points);
  if (!all.length) return '';
  const origin = /pressure|bend|load|stress|displacement|tension|force/;
  let [x0, x1] = extent(all.map((p) => p.x), origin.test(nx) ? 0 : 1e9, origin.test(nx) ? 0 : -1e9), [y0, y1] = extent([...all.map((p) => p.y), ...bands.flat().flatMap((p) => [p.y - p.bar, p.y + p.bar])], origin.test(ny) ? 0 : 1e9, origin.test(ny) ? 0 : -1e9);
  if (x1 - x0 < 1e-9) [x0, x1] = [x0 - 0.5, x1 + 0.5];
  if (y1 - y0 < 1e-9) [y0, y1] = [y0 - 0.5, y1 + 0.5];
  const X = (v) => left + (W - left - 10) * (v - x0) / (x1 - x0), Y = (v) => 24 + (H - low - 28) * (y1 - v) / (y1 - y0);
  let out = `<text x="4" y="12">${heading(ny)}</text>`;
  for (const v of ticks(y0, y1)) out += `<line x1="${left}" x2="${W - 6}" y1="${Y(v)}" y2="${Y(v)}" stroke="var(--line)"/><text x="${left - 6}" y="${Y(v) + 4}" text-anchor="end">${v}</text>`;
  for (const v of ticks(x0, x1)) out += `<text x="${X(v)}" y="${H - 18}" text-anchor="middle">${v}</text>`;
  for (const band of bands) if (band.length) out += `<polygon fill="var(--band)" points="${[...band.map((p) => `${X(p.x)},${Y(p.y + p.bar)}`), ...[...band].reverse().map((p) => `${X(p.x)},${Y(p.y - p.bar)}`)].join(' ')}"/>` +
    band.map((p) => `<line x1="${X(p.x)}" x2="${X(p.x)}" y1="${Y(p.y - p.bar)}" y2="${Y(p.y + p.bar)}" stroke="var(--band)" stroke-width="3"/>`).join('');
  for (const l of lines) {
    out += `<polyline fill="none" stroke="${l.color}" stroke-width="1.8" stroke-dasharray="${l.dash || ''}" points="${l.points.map((p) => `${X(p.x).toFixed(1)},${Y(p.y).toFixed(1)}`).join(' ')}"/>`;
    out += l.points.map((p) => `<circle cx="${X(p.x).toFixed(1)}" cy="${Y(p.y).toFixed(1)}" r="3" fill="${l.hollow ? 'var(--panel)' : l.color}" stroke="${l.color}"/>`).join('');
  }
  if (now && Number.isFinite(now.x) && Number.isFinite(now.y)) out += `<circle cx="${X(now.x)}" cy="${Y(now.y)}" r="6" fill="none" stroke="var(--warn)" stroke-width="2"/>`;
  out += `<text x="${(W + left) / 2}" y="${H - 2}" text-anchor="middle">${heading(nx)}</text>`;
  return svg(W, H, out).replace('<svg ', `<svg role="img" aria-label="${heading(ny)} against ${heading(nx)}" `);
};

// ---- what the mouse points at, and the ruler between two points

const pointing = (view, keyOf) => {
  $('measure').onclick = () => {
    const on = $('measure').classList.toggle('on');
    $('measure').textContent = on ? 'Click two points' : 'Measure';
    if (!on) view.forget();
  };
  let pressed = null, busy = false;
  view.canvas.onpointerdown = (e) => { pressed = [e.clientX, e.clientY]; };
  view.canvas.onpointerup = (e) => {
    const still = pressed && Math.hypot(e.clientX - pressed[0], e.clientY - pressed[1]) < 4;
    pressed = null;
    if (still && $('measure').classList.contains('on')) view.measured(view.under(e));
  };
  view.canvas.onpointerleave = () => { $('tip').style.display = 'none'; };
  view.canvas.onpointermove = (e) => {
    if (pressed || busy) return;
    busy = true;
    requestAnimationFrame(() => {
      busy = false;
      const hit = view.under(e), box = view.canvas.getBoundingClientRect();
      $('tip').style.display = hit ? 'block' : 'none';
      if (!hit) return;
      const {x, y, z} = hit.point;
      $('tip').textContent = `${[x, y, z].map((v) => v.toFixed(2)).join(', ')} mm\n${LABELS[keyOf()].replace(/ \[.*/, '')} ${+view.valueAt(hit).toPrecision(4)} ${LABELS[keyOf()].match(/\[(.*)\]/)[1].replace('-', '')}`;
      Object.assign($('tip').style, {left: Math.min(e.clientX - box.left + 14, box.width - 190) + 'px', top: e.clientY - box.top + 14 + 'px'});
    });
  };
};
