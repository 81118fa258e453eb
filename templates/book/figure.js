/* What the lessons draw with. */
"use strict";
const Figure = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  /* An element of the drawing, with its attributes, put into a parent. */
  function draw(parent, name, attributes = {}, text = "") {
    const e = document.createElementNS(SVG, name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text !== "") e.textContent = text;
    parent.append(e);
    return e;
  }

  /* A slider with a name and its value beside it. Returns the input. */
  function slider(parent, name, { min, max, step, value }, changed) {
    const label = document.createElement("label");
    label.className = "slider";
    const title = document.createElement("span");
    title.textContent = name;
    const input = document.createElement("input");
    Object.assign(input, { type: "range", min, max, step, value });
    input.setAttribute("aria-label", name);
    const out = document.createElement("output");
    const tell = () => { out.textContent = show(+input.value); };
    input.addEventListener("input", () => { tell(); changed(); });
    tell();
    label.append(title, input, out);
    parent.append(label);
    return input;
  }

  /* A number in a fixed width: a real minus sign, three decimals, a power of ten where it is tiny. */
  function show(x, digits = 3) {
    if (!Number.isFinite(x)) return Number.isNaN(x) ? "undefined" : x > 0 ? "∞" : "−∞";
    const tiny = x !== 0 && Math.abs(x) < 0.5 * 10 ** -digits;
    const text = tiny ? x.toExponential(1) : x.toFixed(digits);
    return text.replaceAll("-", "−").replace(/^−(0\.0+)$/, "$1");
  }

  /* A table of numbers: titles of columns, rows that begin with their title. */
  function table(parent, titles, rows) {
    const t = document.createElement("table");
    const head = t.createTHead().insertRow();
    for (const title of titles) {
      const th = document.createElement(title ? "th" : "td"); // an empty cell is no title
      if (title) th.scope = "col";
      th.textContent = title;
      head.append(th);
    }
    const body = t.createTBody();
    for (const [title, ...values] of rows) {
      const tr = body.insertRow();
      const th = document.createElement("th");
      th.scope = "row";
      th.textContent = title;
      tr.append(th);
      for (const v of values) {
        const td = tr.insertCell();
        td.textContent = typeof v === "number" ? show(v) : v;
        if (typeof v === "number") td.dataset.value = v;
      }
    }
    parent.replaceChildren(t);
  }

  return { draw, slider, show, table };
})();
