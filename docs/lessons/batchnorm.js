"use strict";
const OP = LESSON.ops.batchnorm;
const START = [-2.5, -1.2, -0.4, 0.6, 1.1, 2.9];
const DY = [0.8, -0.5, 0.3, -1, 0.6, 0.4];
const [WIDTH, HEIGHT, SPAN] = [560, 250, 8.5];

const sliders = START.map((value, k) =>
  Figure.slider(document.getElementById("points"), `x${k}`, { min: -4, max: 4, step: 0.05, value }, () => update()));
const gamma = Figure.slider(document.getElementById("scales"), "γ", { min: -2, max: 2, step: 0.05, value: 1 }, () => update());

function update() {
  const x = sliders.map((s) => +s.value);
  const n = x.length;
  const column = (v) => Evaluate.tensor([v.length, 1], v);
  const inputs = { x: column(x), gamma: Evaluate.tensor([1], [+gamma.value]), beta: Evaluate.tensor([1], [0]) };
  const { forward, gradients } = Evaluate.both(OP, inputs, { dy: column(DY) });
  const [dx, dgamma, dbeta] = gradients.map((t) => t.data);
  const xhat = forward.xhat.data;

  const svg = document.getElementById("drawing");
  svg.replaceChildren();
  for (const [k, v] of Object.entries({ width: WIDTH, height: HEIGHT, viewBox: `0 0 ${WIDTH} ${HEIGHT}` })) svg.setAttribute(k, v);
  const at = (v) => WIDTH / 2 + v * WIDTH / SPAN;
  const line = (y, name, places, pulls) => {
    Figure.draw(svg, "line", { class: "zero", x1: 0, x2: WIDTH, y1: y, y2: y });
    Figure.draw(svg, "text", { class: "axis", x: 4, y: y + 34 }, name);
    places.forEach((v, k) => {
      const above = y - 14 - 9 * (k % 3), end = at(v) + 46 * Math.max(-4, Math.min(4, pulls[k]));
      const head = Math.sign(end - at(v)) * Math.min(7, Math.abs(end - at(v)));
      Figure.draw(svg, "line", { class: "pull", x1: at(v), x2: end, y1: above, y2: above });
      Figure.draw(svg, "path", { class: "pull head", d: `M ${end - head} ${above - 5} L ${end} ${above} L ${end - head} ${above + 5}` });
      Figure.draw(svg, "line", { class: "stem", x1: at(v), x2: at(v), y1: y, y2: above });
      Figure.draw(svg, "circle", { class: "point", cx: at(v), cy: y, r: 5 });
      Figure.draw(svg, "text", { class: "axis", x: at(v), y: y + 18, "text-anchor": "middle" }, k);
    });
  };
  line(70, "x", x, dx.map((v) => -v));
  line(190, "x̂", xhat, DY.map((v) => -v));

  const sum = (v) => v.reduce((a, b) => a + b, 0);
  const rows = x.map((v, k) => [`x${k}`, v, xhat[k], DY[k], dx[k]]);
  rows.push(["sum", sum(x), sum(xhat), sum(DY), sum(dx)]);
  const box = document.getElementById("numbers");
  Figure.table(box, ["", "x", "normalised x̂", "dy", "gradient dx"], rows);
  box.dataset.result = JSON.stringify({ x, gamma: +gamma.value, dy: DY, xhat, dx, dgamma, dbeta });
  const along = sum(dx.map((v, k) => v * xhat[k]));
  document.getElementById("words").textContent = `The gradient sums to ${Figure.show(sum(dx))}, and its product with x̂ to ${Figure.show(along)}. dγ is ${Figure.show(dgamma[0])}, dβ ${Figure.show(dbeta[0])}.`;
}
update();
