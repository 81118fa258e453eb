"use strict";
const [WIDTH, HEIGHT, LEFT, BOTTOM, LEAST] = [560, 330, 52, 36, -17];
const STEPS = Array.from({ length: 65 }, (_, k) => 10 ** (-k / 4));

const choice = document.getElementById("op");
for (const name of Object.keys(LESSON.ops).sort()) choice.add(new Option(name, name, false, name === "tanh"));
const precision = document.getElementById("precision");
const where = Figure.slider(document.getElementById("where"), "x", { min: -3, max: 3, step: 0.1, value: 0.7 }, () => update());
for (const s of [choice, precision]) s.addEventListener("change", () => update());

function update() {
  const op = LESSON.ops[choice.value];
  const round = precision.value === "32" ? Math.fround : (v) => v;
  const x = round(+where.value);
  const [input] = op.operands, [output] = op.outputs, [cotangent] = op.cotangents;
  const run = (v, r) => Evaluate.both(op, { [input]: Evaluate.tensor([1], [v]) }, { [cotangent]: Evaluate.tensor([1], [1]) }, {}, {}, r);
  const f = (v) => run(v, round).forward[output].data[0];
  const exact = run(x).gradients[0].data[0];
  const relative = (v) => Math.abs(v - exact) / Math.max(Math.abs(exact), 1e-300);
  const rows = STEPS.map((step) => {
    const h = round(step), up = round(x + h), down = round(x - h);
    const one = round(round(f(up) - f(x)) / h), two = round(round(f(up) - f(down)) / round(2 * h));
    return { h: step, one: relative(one), two: relative(two) };
  });
  plot(rows);
  const best = (key) => rows.reduce((a, b) => (b[key] < a[key] ? b : a));
  const power = (v) => v === 0 ? "0" : v.toExponential(0).replace("-", "−");
  document.getElementById("words").textContent =
    `One-sided: best at h = ${power(best("one").h)}, error ${power(best("one").one)}. Central: best at h = ${power(best("two").h)}, error ${power(best("two").two)}.`;
  const box = document.getElementById("numbers");
  Figure.table(box, ["h", "one-sided", "central"], rows.map((r) => [r.h.toExponential(2), r.one.toExponential(2), r.two.toExponential(2)]));
  box.dataset.result = JSON.stringify({ x, exact, rows });
}

function plot(rows) {
  const svg = document.getElementById("drawing");
  svg.replaceChildren();
  for (const [k, v] of Object.entries({ width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}` })) svg.setAttribute(k, v);
  const right = (h) => LEFT + (1 + Math.log10(h) / 16) * (WIDTH - LEFT - 12);
  const up = (e) => 10 + (1 - Math.log10(Math.min(Math.max(e, 10 ** LEAST), 10)) ) / (1 - LEAST) * (HEIGHT - BOTTOM - 10);
  for (let e = 0; e >= -16; e -= 4) {
    Figure.draw(svg, "line", { class: "grid", x1: LEFT, x2: WIDTH - 12, y1: up(10 ** e), y2: up(10 ** e) });
    Figure.draw(svg, "text", { class: "axis", x: LEFT - 8, y: up(10 ** e) + 4, "text-anchor": "end" }, e ? `1e−${-e}` : "1");
    Figure.draw(svg, "text", { class: "axis", x: right(10 ** e), y: HEIGHT - 12, "text-anchor": "middle" }, e ? `1e−${-e}` : "1");
  }
  for (const key of ["one", "two"]) {
    const d = rows.map((r, k) => `${k ? "L" : "M"} ${right(r.h).toFixed(1)} ${up(r[key]).toFixed(1)}`).join(" ");
    Figure.draw(svg, "path", { class: `curve ${key}`, d });
  }
}
update();
