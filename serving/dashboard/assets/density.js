// Forecast median against realised length: how many outcomes lie in each cell, both axes doubling.
import { put, s } from "./dom.js";
import { Figure, keyed } from "./figure.js";
import { count, tokens } from "./format.js";

const EDGE = { left: 48, right: 10, top: 8, bottom: 40 };

/** `data`: the board's `density`: `{ edges, counts[forecast][length], left_out }`. */
export class Density extends Figure {
  constructor() {
    super("Forecast against realised length",
      "Output tokens of the window. On the line the forecast median came true; below it answers were " +
      "shorter than forecast. Stronger: more outcomes. Lower bounds are left out.", 320);
  }

  get size() { return this.data.counts.length; }
  get most() { return Math.max(1, ...this.data.counts.flat()); }
  has([i, j]) { return i < this.size && j < this.size; }
  empty() {
    return this.data.counts.flat().some((n) => n > 0) ? "" : "No scored request has ended yet.";
  }

  show(data) {
    super.show(data);
    put(this.legend, keyed("swatch k-accent", "outcomes"), keyed("dashed k-points", "forecast = realised"));
  }

  /** First and last bin in use, on both axes alike. */
  used() {
    const { counts } = this.data;
    const any = counts.map((row, i) => row.some(Boolean) || counts.some((other) => other[i] > 0));
    return [Math.max(0, any.indexOf(true)), any.lastIndexOf(true)];
  }

  draw(width, height) {
    const [first, last] = this.used();
    const bins = last - first + 1;
    const cellX = (width - EDGE.left - EDGE.right) / bins;
    const cellY = (height - EDGE.top - EDGE.bottom) / bins;
    this.cell = { first, last, cellX, cellY, bottom: height - EDGE.bottom };
    const group = s("g");
    for (let i = first; i <= last; i += 1) {
      for (let j = first; j <= last; j += 1) {
        const n = this.data.counts[i][j];
        if (!n) continue;
        group.append(s("rect", { class: "cell", ...this.place(i, j),
          "fill-opacity": (0.12 + 0.88 * Math.sqrt(n / this.most)).toFixed(3) }));
      }
    }
    const middle = height - EDGE.bottom;
    const right = EDGE.left + bins * cellX;
    return [this.axes(width, height), group,
      s("line", { class: "level k-points", x1: EDGE.left, y1: middle, x2: right, y2: EDGE.top }),
      this.active ? s("rect", { class: "chosen", ...this.place(...this.active) }) : null,
    ].filter(Boolean);
  }

  place(i, j) {
    const { first, cellX, cellY, bottom } = this.cell;
    return { x: EDGE.left + (i - first) * cellX + 0.5, y: bottom - (j - first + 1) * cellY + 0.5,
      width: Math.max(1, cellX - 1), height: Math.max(1, cellY - 1) };
  }

  axes(width, height) {
    const { first, last, cellX, cellY, bottom } = this.cell;
    const group = s("g", { class: "axes" });
    const every = Math.max(1, Math.ceil((last - first + 2) / Math.max(3, Math.floor(width / 60))));
    for (let i = first; i <= last + 1; i += every) {
      const x = EDGE.left + (i - first) * cellX;
      const y = bottom - (i - first) * cellY;
      const text = tokens(this.data.edges[i]);
      group.append(
        s("text", { x, y: bottom + 16, "text-anchor": x > width - 24 ? "end" : "middle" }, text),
        s("text", { x: EDGE.left - 7, y: y + 4, "text-anchor": "end" }, text));
    }
    const middle = (EDGE.top + bottom) / 2;
    group.append(
      s("line", { class: "tick", x1: EDGE.left, x2: EDGE.left, y1: EDGE.top, y2: bottom }),
      s("line", { class: "tick", x1: EDGE.left, x2: width - EDGE.right, y1: bottom, y2: bottom }),
      s("text", { class: "title", x: (EDGE.left + width) / 2, y: height - 5, "text-anchor": "middle" },
        "forecast median, tokens"),
      s("text", { class: "title", x: 11, y: middle, "text-anchor": "middle",
        transform: `rotate(-90 11 ${middle})` }, "realised, tokens"));
    return group;
  }

  move(key, active) {
    const [first, last] = this.used();
    const clamp = (v) => Math.max(first, Math.min(last, v));
    if (key === "Home") return [first, first];
    if (key === "End") return [last, last];
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] }[key];
    if (!step) return undefined;
    if (!active) return this.fullest();
    return [clamp(active[0] + step[0]), clamp(active[1] + step[1])];
  }

  fullest() {
    const { counts } = this.data;
    let best = [0, 0];
    counts.forEach((row, i) => row.forEach((n, j) => { if (n > counts[best[0]][best[1]]) best = [i, j]; }));
    return best;
  }

  nearest(x, y) {
    const { first, last, cellX, cellY, bottom } = this.cell;
    const clamp = (v) => Math.max(first, Math.min(last, v));
    return [clamp(first + Math.floor((x - EDGE.left) / cellX)), clamp(first + Math.floor((bottom - y) / cellY))];
  }

  describe([i, j]) {
    return `forecast ${this.bin(i)}, realised ${this.bin(j)}: ${count(this.data.counts[i][j])} outcomes`;
  }

  bin(i) { return `${tokens(this.data.edges[i])} to ${tokens(this.data.edges[i + 1])} tokens`; }

  summary() {
    const { counts, left_out: left } = this.data;
    let on = 0;
    let all = 0;
    counts.forEach((row, i) => row.forEach((n, j) => { all += n; if (Math.abs(i - j) <= 1) on += n; }));
    return `Of ${count(all)} outcomes ${count(on)} were within about a factor of two to four of the ` +
      `forecast median. ${this.describe(this.fullest())}, the most of any cell. ${count(left)} left out.`;
  }

  table() {
    const [first, last] = this.used();
    const bins = Array.from({ length: last - first + 1 }, (_, k) => first + k);
    return {
      columns: ["Forecast \\ realised", ...bins.map((j) => this.bin(j).replace(" tokens", ""))],
      rows: bins.map((i) => [this.bin(i), ...bins.map((j) => count(this.data.counts[i][j]))]),
    };
  }
}
