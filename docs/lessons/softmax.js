"use strict";
const OP = LESSON.ops.softmax_cross_entropy;
const START = [1.5, 0.5, -1, 2.5, 0];
const [WIDTH, BASE, TALL] = [420, 170, 140];

const sliders = START.map((value, k) =>
  Figure.slider(document.getElementById("logits"), `z${k}`, { min: -6, max: 6, step: 0.05, value }, () => update()));
const radios = START.map((_, k) => {
  const label = document.createElement("label");
  const input = document.createElement("input");
  Object.assign(input, { type: "radio", name: "target", value: k, checked: k === 1 });
  input.addEventListener("change", () => update());
  label.append(input, ` ${k}`);
  document.getElementById("targets").append(label);
  return input;
});
document.getElementById("shift").addEventListener("click", () => {
  if (Math.max(...sliders.map((s) => +s.value)) + 1 > 6) for (const s of sliders) s.value = +s.value - 6;
  for (const s of sliders) {
    s.value = +s.value + 1;
    s.dispatchEvent(new Event("input"));
  }
});

function update() {
  const z = sliders.map((s) => +s.value);
  const y = radios.findIndex((r) => r.checked);
  const inputs = { z: Evaluate.tensor([1, z.length], z), y: Evaluate.tensor([1], [y]) };
  const { forward, gradients: [dz] } = Evaluate.both(OP, inputs, { dloss: Evaluate.tensor([], [1]) });
  const p = forward.p.data, pull = dz.data.map((v) => -v), loss = forward.loss.data[0];

  const svg = document.getElementById("drawing");
  svg.replaceChildren();
  for (const [k, v] of Object.entries({ width: WIDTH, height: 340, viewBox: `0 0 ${WIDTH} 340` })) svg.setAttribute(k, v);
  const step = WIDTH / z.length;
  Figure.draw(svg, "line", { class: "zero", x1: 0, x2: WIDTH, y1: 255, y2: 255 });
  p.forEach((v, k) => {
    const x = step * (k + 0.5);
    Figure.draw(svg, "rect", { class: k === y ? "column right" : "column", x: x - 22, y: BASE - TALL * v, width: 44, height: Math.max(TALL * v, 0.5), rx: 2 });
    Figure.draw(svg, "text", { x, y: BASE - TALL * v - 6, "text-anchor": "middle" }, Figure.show(v, 2));
    Figure.draw(svg, "text", { class: "axis", x, y: BASE + 18, "text-anchor": "middle" }, k === y ? `z${k} ✓` : `z${k}`);
    const end = 255 - 62 * pull[k];
    Figure.draw(svg, "line", { class: "pull", x1: x, x2: x, y1: 255, y2: end });
    const head = Math.sign(pull[k]) * Math.min(9, Math.abs(end - 255));
    Figure.draw(svg, "path", { class: "pull head", d: `M ${x - 6} ${end + head} L ${x} ${end} L ${x + 6} ${end + head}` });
  });
  const rows = z.map((v, k) => [`z${k}`, v, p[k], k === y ? "1" : "0", dz.data[k]]);
  const sum = (v) => v.reduce((a, b) => a + b, 0);
  rows.push(["sum", "", sum(p), "1", sum(dz.data)]);
  const box = document.getElementById("numbers");
  Figure.table(box, ["", "logit", "probability p", "target", "gradient dz"], rows);
  box.dataset.result = JSON.stringify({ z, y, loss, p, dz: dz.data });
  document.getElementById("words").textContent = `The loss is ${Figure.show(loss)}: minus the logarithm of the right class's probability.`;
}
update();
