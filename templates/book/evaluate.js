/* Runs a derived program on small tensors, element by element, over named axes.
   A tensor is {axes: [names], shape: [lengths], data: [numbers], row after row}. */
"use strict";
const Evaluate = (() => {
  const base = (axis) => axis.split("'")[0];

  /* erf by its series, and by erfc where the series loses digits. */
  function erf(x) {
    const a = Math.abs(x);
    if (a > 6) return Math.sign(x);
    if (a >= 2.5) return Math.sign(x) * (1 - erfc(a));
    let term = a, sum = a;
    for (let k = 1; Math.abs(term) > 1e-17 * Math.abs(sum) && k < 200; k++) {
      term *= -a * a / k;
      sum += term / (2 * k + 1);
    }
    return Math.sign(x) * 2 / Math.sqrt(Math.PI) * sum;
  }

  /* erfc by its continued fraction, and by erf where that converges slowly. */
  function erfc(x) {
    if (x < 2.5) return 1 - erf(x);
    let f = 0;
    for (let k = 80; k > 0; k--) f = k / 2 / (x + f);
    return Math.exp(-x * x) / Math.sqrt(Math.PI) / (x + f);
  }

  const sigmoid = (x) => x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x));
  const FUNCTIONS = {
    add: (a, b) => a + b, sub: (a, b) => a - b, mul: (a, b) => a * b, div: (a, b) => a / b, neg: (a) => -a,
    pow: (a, b) => Number.isInteger(b) && b > 0 && b < 5 ? Array(b).fill(a).reduce((x, y) => x * y) : Math.pow(a, b),
    floordiv: (a, b) => Math.floor(a / b), mod: (a, b) => a - b * Math.floor(a / b), // as Python rounds
    lt: (a, b) => a < b, le: (a, b) => a <= b, gt: (a, b) => a > b, ge: (a, b) => a >= b,
    eq: (a, b) => a === b, ne: (a, b) => a !== b, and: (...a) => a.every(Boolean), or: (...a) => a.some(Boolean),
    not: (a) => !a, where: (c, a, b) => c ? a : b, maximum: Math.max, minimum: Math.min, Max: Math.max, Min: Math.min,
    abs: Math.abs, pi: () => Math.PI,
    /* functions of one number */
  };

  /* Every assignment of places to some axes, in order. */
  function* places(axes, sizes, at) {
    if (axes.length === 0) { yield at; return; }
    const [axis, ...rest] = axes;
    for (let k = 0; k < sizes[base(axis)]; k++) yield* places(rest, sizes, { ...at, [axis]: k });
  }

  class Run {
    constructor(tensors, numbers, sizes, round) {
      Object.assign(this, { tensors: { ...tensors }, numbers, sizes: { ...sizes }, round });
    }

    node(n, at) {
      switch (n[0]) {
        case "num": return this.round((typeof n[1] === "string" ? (n[1] === "inf" ? Infinity : -Infinity) : n[1]) / n[2]);
        case "scal": return this.number(n[1]);
        case "size": return this.sizes[base(n[1])];
        case "axis": return at[n[1]];
        case "read": return this.read(n[1], n[2].map((i) => this.index(i, at)));
        case "call": return this.call(n[1], n[2], at);
        case "reduce": return this.reduce(n, at);
        case "scan": {
          let sum = 0;
          for (let k = 0; k < this.sizes[base(n[2])]; k++) {
            if (FUNCTIONS[n[3]](k, at[n[1]])) sum = this.round(sum + this.node(n[4], { ...at, [n[2]]: k }));
          }
          return sum;
        }
        case "join": return this.join(n, at);
        default: throw new Error(`no node ${n[0]}`);
      }
    }

    number(name) {
      if (!(name in this.numbers)) throw new Error(`no number ${name}`);
      return this.round(this.numbers[name]);
    }

    call(fn, args, at) {
      if (fn === "where") return this.node(this.node(args[0], at) ? args[1] : args[2], at); // the other is not read
      const values = args.map((a) => this.node(a, at));
      if (!(fn in FUNCTIONS)) throw new Error(`no function ${fn}`);
      const value = FUNCTIONS[fn](...values);
      return typeof value === "boolean" ? value : this.round(value);
    }

    reduce([, kind, axes, body], at) {
      const values = [];
      for (const place of places(axes, this.sizes, at)) values.push(+this.node(body, place));
      if (kind === "amax") return Math.max(...values);
      if (kind === "amin") return Math.min(...values);
      if (kind === "prod") return values.reduce((a, b) => this.round(a * b), 1);
      const sum = values.reduce((a, b) => this.round(a + b), 0);
      return kind === "mean" ? this.round(sum / values.length) : sum;
    }

    join([, axis, parts, own], at) {
      let k = at[axis];
      for (let p = 0; p < parts.length; p++) {
        const length = own[p] ? this.sizes[base(own[p])] : 1;
        if (k < length) return this.node(parts[p], own[p] ? { ...at, [own[p]]: k } : at);
        k -= length;
      }
      throw new Error(`past the end of ${axis}`);
    }

    read(name, index) {
      const t = this.tensors[name];
      if (!t) throw new Error(`no tensor ${name}`);
      let flat = 0;
      index.forEach((i, k) => {
        if (!(i >= 0 && i < t.shape[k])) throw new RangeError(`${name} has no place ${i}`);
        flat = flat * t.shape[k] + i;
      });
      return t.data[flat];
    }

    index(i, at) {
      if (typeof i === "string") return at[i];
      switch (i[0]) {
        case "merged": return i[1].reduce((flat, x) => flat * this.length(x) + this.index(x, at), 0);
        case "place": return this.index(i[1], at);
        case "part": {
          const lengths = i[3].map((n) => this.node(n, at));
          const below = lengths.slice(i[2] + 1).reduce((a, b) => a * b, 1);
          return Math.floor(this.index(i[1], at) / below) % lengths[i[2]];
        }
        case "window": return i[1].reduce((sum, [axis, step]) => sum + step * at[axis], this.node(i[2], at));
        case "arithmetic": return i[1].reduce((sum, [x, step]) => sum + step * this.index(x, at), this.node(i[2], at));
        default: return this.node(i, at);
      }
    }

    length(i) {
      if (typeof i === "string") return this.sizes[base(i)];
      if (i[0] === "merged") return i[1].reduce((n, x) => n * this.length(x), 1);
      if (i[0] === "place") return this.node(i[2], {});
      if (i[0] === "part") return this.node(i[3][i[2]], {});
      throw new Error("an index without a length");
    }

    axesOf(i) {
      if (typeof i === "string") return [i];
      if (i[0] === "merged") return i[1].flatMap((x) => this.axesOf(x));
      if (i[0] === "place" || i[0] === "part") return this.axesOf(i[1]);
      if (i[0] === "window") return i[1].map(([axis]) => axis);
      if (i[0] === "arithmetic") return i[1].flatMap(([x]) => this.axesOf(x));
      if (i[0] === "read") return i[2].flatMap((x) => this.axesOf(x));
      return [];
    }

    scattered(kind, there, value) {
      if (kind === "sum") return this.round(there + value);
      return kind === "amax" ? Math.max(there, value) : Math.min(there, value);
    }

    statement(s) {
      const scatters = "slots" in s;
      const shape = s.axes.map((i) => this.length(i));
      const from = s.onto ? this.tensors[s.onto].data.slice() : null;
      const data = from || Array(shape.reduce((a, b) => a * b, 1)).fill(scatters ? this.node(["num", ...s.start], {}) : 0);
      const slots = scatters ? s.slots : s.axes;
      const over = [...new Set(slots.flatMap((i) => this.axesOf(i)))];
      for (const at of places(over, this.sizes, {})) {
        const flat = slots.reduce((sum, i, k) => sum * shape[k] + this.index(i, at), 0);
        const value = +this.node(s.value, at);
        data[flat] = scatters ? this.scattered(s.kind, data[flat], value) : value;
      }
      this.tensors[s.name] = { axes: s.axes.map((i) => typeof i === "string" ? i : ""), shape, data };
    }
  }

  /* Runs one program; returns every tensor by name. `round` is applied after each operation. */
  function run(program, tensors, numbers, sizes, round = (x) => x) {
    const known = { ...sizes };
    for (const [name, axes] of program.given) {
      axes.forEach((axis, k) => { if (tensors[name]) known[base(axis)] ??= tensors[name].shape[k]; });
    }
    const it = new Run(tensors, numbers, known, round);
    for (const s of program.statements) it.statement(s);
    return { tensors: it.tensors, sizes: it.sizes };
  }

  /* Forward, then backward: all tensors of both. The backward is given what the forward keeps and nothing else. */
  function both(op, inputs, cotangents, numbers = {}, sizes = {}, round) {
    const all = { ...op.defaults, ...numbers };
    const forward = run(op.forward, inputs, all, sizes, round);
    const kept = Object.fromEntries(op.kept.map((name) => [name, forward.tensors[name]]));
    const backward = run(op.backward, { ...kept, ...cotangents }, all, forward.sizes, round);
    const gradients = op.backward.returns.map((name) => backward.tensors[name]);
    return { forward: forward.tensors, backward: backward.tensors, gradients, sizes: forward.sizes };
  }

  const tensor = (shape, data) => ({ axes: [], shape, data: Array.from(data) });
  return { run, both, tensor };
})();
