"use strict";
const MOST = 64; // numbers shown

/* "4, 1, 3" as numbers; null where it is no shape. */
function shapeOf(text) {
  const parts = text.replace(/[()[\]]/g, "").split(/[\s,]+/).filter(Boolean);
  return parts.every((p) => /^[1-9]\d?$/.test(p)) && parts.length <= 5 ? parts.map(Number) : null;
}

/* The shape of a product, and for each operand the axes of it (counted from the first) that its gradient sums over. */
function broadcast(a, b) {
  const rank = Math.max(a.length, b.length);
  const at = (s, k) => s[k - rank + s.length];
  const shape = [], sums = [[], []];
  for (let k = 0; k < rank; k++) {
    const [p, q] = [at(a, k), at(b, k)];
    if (p !== undefined && q !== undefined && p !== q && p !== 1 && q !== 1) return { clash: [k - rank, p, q] };
    shape.push(p === undefined ? q : q === undefined ? p : Math.max(p, q));
    [a, b].forEach((s, i) => { if (at(s, k) === undefined || (at(s, k) === 1 && shape[k] !== 1)) sums[i].push(k); });
  }
  return { shape, sums };
}

const size = (shape) => shape.reduce((n, k) => n * k, 1);
const VALUES = {
  a: (k) => k + 1,
  b: (k) => (k + 2) / 2,
  dy: (k) => (7 * k) % 5 - 2,
};

/* y = a·b, and the gradients of both, number by number. */
function gradients(a, b, shape) {
  const place = (own, flat) => {
    let rest = flat, at = 0, step = 1;
    for (let k = shape.length - 1; k >= 0; k--) {
      const here = rest % shape[k], length = own[k - shape.length + own.length];
      rest = Math.floor(rest / shape[k]);
      if (length !== undefined) {
        at += (length === 1 ? 0 : here) * step;
        step *= length;
      }
    }
    return at;
  };
  const out = { da: Array(size(a)).fill(0), db: Array(size(b)).fill(0) };
  for (let k = 0; k < size(shape); k++) {
    const [i, j] = [place(a, k), place(b, k)];
    out.da[i] += VALUES.dy(k) * VALUES.b(j);
    out.db[j] += VALUES.dy(k) * VALUES.a(i);
  }
  return out;
}

function drawShapes(a, b, shape, sums) {
  const svg = document.getElementById("drawing");
  svg.replaceChildren();
  const rank = shape.length;
  const rows = [["a", a, sums[0]], ["b", b, sums[1]], ["y", shape, []]];
  const [width, height] = [70 + 56 * Math.max(rank, 1), 26 + 36 * rows.length];
  for (const [k, v] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) svg.setAttribute(k, v);
  for (let k = 0; k < rank; k++) {
    Figure.draw(svg, "text", { class: "axis", x: 70 + 56 * k + 24, y: 16, "text-anchor": "middle" }, String(k - rank).replace("-", "−"));
  }
  rows.forEach(([name, own, summed], r) => {
    const y = 26 + 36 * r;
    Figure.draw(svg, "text", { class: "given", x: 50, y: y + 20, "text-anchor": "end" }, name);
    for (let k = 0; k < rank; k++) {
      const length = own[k - rank + own.length];
      const lacks = summed.includes(k);
      Figure.draw(svg, "rect", { class: lacks ? "lacks" : "has", x: 70 + 56 * k, y, width: 48, height: 30, rx: 4 });
      const text = `${lacks ? "Σ" : ""}${length === undefined ? "" : lacks ? ` ${length}` : length}`;
      Figure.draw(svg, "text", { class: lacks ? "mark" : "", x: 70 + 56 * k + 24, y: y + 20, "text-anchor": "middle" }, text);
    }
  });
}

function tell(name, sums, shape) {
  if (sums.length === 0) return `d${name} sums over nothing: each number of ${name} is used once.`;
  const axes = sums.map((k) => String(k - shape.length).replace("-", "−"));
  const uses = sums.reduce((n, k) => n * shape[k], 1);
  return `d${name} sums over ${axes.length > 1 ? "axes" : "axis"} ${axes.join(" and ")}: each number of ${name} is used ${uses} times.`;
}

function update() {
  const [a, b] = ["a", "b"].map((id) => shapeOf(document.getElementById(id).value));
  const problem = document.getElementById("error");
  const found = a && b ? broadcast(a, b) : {};
  problem.hidden = Boolean(found.shape);
  if (!a || !b) problem.textContent = `The shape of ${a ? "b" : "a"} should be up to five lengths from 1 to 99, such as 4, 1, 3.`;
  else if (found.clash) {
    const [axis, p, q] = found.clash;
    problem.textContent = `Axis ${String(axis).replace("-", "−")} is ${p} in a and ${q} in b: they must be equal, or one of them 1.`;
  }
  if (!found.shape) return;
  const { shape, sums } = found;
  drawShapes(a, b, shape, sums);
  document.getElementById("words").textContent = `${tell("a", sums[0], shape)} ${tell("b", sums[1], shape)}`;
  const box = document.getElementById("numbers");
  if (size(shape) > 100000) { box.textContent = "Too many numbers to show."; return; }
  const { da, db } = gradients(a, b, shape);
  const listed = (x) => `${x.slice(0, MOST).map((v) => Figure.show(v, 1)).join("  ")}${x.length > MOST ? "  …" : ""}`;
  const values = (n, f) => Array.from({ length: n }, (_, k) => f(k));
  Figure.table(box, ["", "shape", "values, row after row"], [
    ["a", `[${a.join(", ")}]`, listed(values(size(a), VALUES.a))],
    ["b", `[${b.join(", ")}]`, listed(values(size(b), VALUES.b))],
    ["dy", `[${shape.join(", ")}]`, listed(values(size(shape), VALUES.dy))],
    ["da", `[${a.join(", ")}]`, listed(da)],
    ["db", `[${b.join(", ")}]`, listed(db)],
  ]);
  box.dataset.result = JSON.stringify({ shape, sums, da, db });
}

for (const id of ["a", "b"]) document.getElementById(id).addEventListener("input", update);
document.getElementById("examples").addEventListener("change", (e) => {
  if (!e.target.value) return;
  [document.getElementById("a").value, document.getElementById("b").value] = e.target.value.split("|");
  update();
});
update();
