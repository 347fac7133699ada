#!/usr/bin/env bash
# Makes geosim/show/viewer/three.min.js: the parts of three.js (MIT) that the page of a result draws with, in one file.
# Needs npm. Raise the version here, run it, and look at a page in a browser.
set -euo pipefail
version=0.184.0
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >/dev/null
npm install --silent "three@$version" esbuild
cat > entry.js <<'JS'
export { BufferAttribute, BufferGeometry, Color, DataTexture, DoubleSide, Line, LineBasicMaterial, LinearFilter, Mesh, OrthographicCamera, Plane, Raycaster, Scene, ShaderMaterial, Triangle, Vector2, Vector3, Vector4, WebGLRenderer } from 'three';
export { OrbitControls } from 'three/addons/controls/OrbitControls.js';
JS
npx esbuild entry.js --bundle --minify --format=iife --global-name=THREE --outfile=three.js --log-level=warning
{
  printf '/*! three.js %s, MIT licence, Copyright 2010-2026 three.js authors; bundled of the parts named in scripts/vendor_three.sh */\n' "$version"
  cat three.js
} > "$here/geosim/show/viewer/three.min.js"
