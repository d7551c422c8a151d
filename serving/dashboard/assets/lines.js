// Values over time with bands, levels, the state along the bottom, and marks for what happened.
import { put, s, visible } from "./dom.js";
import { Figure, along, keyed } from "./figure.js";
import { clock, clockSeconds, day, when } from "./format.js";
import { digits, linear, nearest, ticks, times } from "./scales.js";
import { WORDS, known, rank } from "./states.js";

const EDGE = { left: 44, right: 12, top: 18, bottom: 26 };
const STRIP = [3, 5, 8, 11];
const MARKS = { alert: "triangle", promotion: "diamond", version: "square" };
const NAMES = { alert: "state rose", promotion: "promotion", version: "another version" };
const ROOM = 14; // for the strip

/**
 * `data`: `{ domain: [from, to], series: [{ name, look, points: [{ at, by, value, low, high }], note }],
 * levels: [{ name, value, look, from }], strip: [{ at, state }], marks: [{ at, kind, state, text }] }`.
 * A line is broken where `by`, the version that a point is of, changes.
 * The first series is the one that keys walk along; others have values at the same places or fewer.
 */
export class Lines extends Figure {
  constructor(title, caption, { write, range, nothing, height = 240 }) {
    super(title, caption, height);
    this.write = write;
    this.range = range; // what the axis shows at least
    this.nothing = nothing;
  }

  get main() { return this.data.series[0].points; }
  get several() { return this.main.some((p) => p.by !== this.main[0].by); }
  has(active) { return active < this.main.length; }
  empty() { return this.main.some((p) => p.value !== null) ? "" : this.nothing; }

  show(data) {
    super.show(data);
    put(this.legend,
      data.series.filter((one) => one.points.length).map((one) => keyed(`line ${one.look}`, one.name)),
      data.levels.filter((l) => l.value !== null).map((l) => keyed(`dashed ${l.look}`, l.name)),
      Object.keys(MARKS).filter((kind) => data.marks.some((m) => m.kind === kind))
        .map((kind) => keyed(`${MARKS[kind]} k-mark`, NAMES[kind])));
  }

  draw(width, height) {
    const { series, levels, domain } = this.data;
    const [low, high] = this.extent(series, levels);
    this.x = linear(domain, [EDGE.left, width - EDGE.right]);
    this.y = linear([low, high], [height - EDGE.bottom - ROOM, EDGE.top]);
    return [
      this.axes(width, height, low, high),
      this.states(height),
      ...series.map((one) => this.band(one.points, one.look)),
      ...levels.filter((l) => l.value !== null).map((l) =>
        s("line", { class: `level ${l.look}`, x1: l.from ? this.x(l.from) : EDGE.left, x2: width - EDGE.right,
          y1: this.y(l.value), y2: this.y(l.value) })),
      ...this.marks(height),
      ...series.map((one) => s("path", { class: `curve ${one.look}`, d: this.path(one.points) })),
      ...this.dots(series),
      this.cursor(height),
    ];
  }

  extent(series, levels) {
    let [low, high] = this.range;
    const take = (value) => {
      if (value === null || value === undefined) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    };
    for (const one of series) for (const p of one.points) [p.value, p.low, p.high].forEach(take);
    for (const level of levels) take(level.value);
    const spare = 0.04 * (high - low);
    return [low < this.range[0] ? low - spare : low, high > this.range[1] ? high + spare : high];
  }

  axes(width, height, low, high) {
    const group = s("g", { class: "axes" });
    const values = ticks(low, high, 5);
    const decimals = digits(values);
    for (const value of values) {
      const y = this.y(value);
      group.append(
        s("line", { class: Math.abs(value) < 1e-9 ? "zero" : "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y, y2: y }),
        s("text", { x: EDGE.left - 7, y: y + 4, "text-anchor": "end" },
          value.toFixed(decimals).replace("-", "−")));
    }
    const [from, to] = this.data.domain;
    const { step, values: places } = times(from, to, Math.max(2, Math.floor(width / 90)));
    const write = step >= 86400 ? day : step >= 60 ? clock : clockSeconds;
    for (const at of places) {
      const x = this.x(at);
      group.append(
        s("line", { class: "tick", x1: x, x2: x, y1: height - EDGE.bottom, y2: height - EDGE.bottom + 4 }),
        s("text", { x, y: height - 6, "text-anchor": x > width - 30 ? "end" : "middle" }, write(at)));
    }
    return group;
  }

  /** A strip that is thicker, and of another colour, the worse the state. */
  states(height) {
    const group = s("g");
    const { strip, domain } = this.data;
    for (let i = 0; i < strip.length; i += 1) {
      let end = i;
      while (end + 1 < strip.length && strip[end + 1].state === strip[i].state) end += 1;
      const state = known(strip[i].state);
      const size = STRIP[Math.max(0, rank(state))];
      const from = this.x(strip[i].at);
      const to = this.x(end + 1 < strip.length ? strip[end + 1].at : Math.max(strip[end].at, domain[0]));
      group.append(s("rect", { class: `strip s-${state}`, x: from, width: Math.max(1, to - from),
        y: height - EDGE.bottom - size, height: size }));
      i = end;
    }
    return group;
  }

  band(points, look) {
    const group = s("g");
    for (const run of runs(points, (p) => p.low !== null && p.high !== null)) {
      const over = run.map((p) => `${this.x(p.at).toFixed(1)} ${this.y(p.high).toFixed(1)}`);
      const under = run.map((p) => `${this.x(p.at).toFixed(1)} ${this.y(p.low).toFixed(1)}`).reverse();
      group.append(s("path", { class: `band ${look}`, d: `M${[...over, ...under].join("L")}Z` }));
    }
    return group;
  }

  path(points) {
    return runs(points, (p) => p.value !== null)
      .map((run) => "M" + run.map((p) => `${this.x(p.at).toFixed(1)} ${this.y(p.value).toFixed(1)}`).join("L"))
      .join("");
  }

  /** Points by themselves, which a path does not show. */
  dots(series) {
    return series.flatMap((one) => (one.points.length > 40 ? [] : one.points)
      .filter((p) => p.value !== null)
      .map((p) => s("circle", { class: `dot ${one.look}`, cx: this.x(p.at), cy: this.y(p.value), r: 2.6 })));
  }

  marks(height) {
    return this.data.marks.map((mark) => {
      const x = this.x(mark.at);
      const look = mark.kind === "alert" ? `s-${known(mark.state)}` : mark.kind;
      const shape = { alert: `M${x - 6} 4h12l-6 10Z`, promotion: `M${x} 3l6 6l-6 6l-6 -6Z`, version: `M${x - 4} 5h8v8h-8Z` }[mark.kind];
      return s("g", { class: `mark ${look}` },
        s("line", { x1: x, x2: x, y1: EDGE.top - 3, y2: height - EDGE.bottom }), s("path", { d: shape }));
    });
  }

  cursor(height) {
    const group = s("g", { class: "cursor" });
    if (this.active === null) return group;
    const x = this.x(this.main[this.active].at);
    group.append(s("line", { x1: x, x2: x, y1: EDGE.top, y2: height - EDGE.bottom }));
    for (const one of this.data.series) {
      const p = this.beside(one, this.active);
      if (p && p.value !== null) {
        group.append(s("circle", { class: `dot ${one.look}`, cx: this.x(p.at), cy: this.y(p.value), r: 5 }));
      }
    }
    return group;
  }

  beside(one, active) {
    return one.points[active];
  }

  move(key, active) { return along(key, active, this.main.length); }
  nearest(x) { return nearest(this.main.map((p) => this.x(p.at)), x); }

  describe(active) {
    const at = this.main[active].at;
    const parts = this.data.series.map((one) => {
      const p = this.beside(one, active);
      if (!p || p.value === null) return null;
      const limits = p.low !== null && p.high !== null ? ` (${this.write(p.low)} to ${this.write(p.high)})` : "";
      return `${one.name} ${this.write(p.value)}${limits}`;
    });
    const state = this.data.strip.length ? this.stateAt(at) : "";
    const near = this.data.marks.filter((m) => this.x && Math.abs(this.x(m.at) - this.x(at)) < 7);
    const by = this.several ? visible(this.main[active].by) : "";
    return [when(at), by, ...parts, state, ...near.slice(0, 3).map((m) => m.text)].filter(Boolean).join(" · ");
  }

  stateAt(at) {
    const found = this.data.strip[nearest(this.data.strip.map((p) => p.at), at)];
    return found ? `state ${WORDS[found.state] || "unknown"}` : "";
  }

  summary() {
    const found = this.data.series[0].points.filter((p) => p.value !== null);
    const values = found.map((p) => p.value);
    const reference = this.data.levels.find((l) => l.value !== null);
    return `${this.data.series[0].name}: ${values.length} points from ${when(found[0].at)} to ` +
      `${when(found[found.length - 1].at)}, lowest ${this.write(Math.min(...values))}, highest ` +
      `${this.write(Math.max(...values))}, now ${this.write(values[values.length - 1])}.` +
      (reference ? ` ${reference.name}: ${this.write(reference.value)}.` : "") +
      (this.data.marks.length ? ` ${this.data.marks.length} marks of what happened.` : "");
  }

  table() {
    const { several } = this;
    const columns = ["Time", ...(several ? ["Version"] : []), ...this.data.series.flatMap((one) =>
      one.points.some((p) => p.low !== null) ? [one.name, "low", "high"] : [one.name])];
    const rows = this.main.map((first, i) => [when(first.at), ...(several ? [visible(first.by)] : []), ...this.data.series.flatMap((one) => {
      const p = this.beside(one, i) || { value: null, low: null, high: null };
      const cells = one.points.some((q) => q.low !== null) ? [p.value, p.low, p.high] : [p.value];
      return cells.map((v) => this.write(v));
    })]);
    return { columns, rows };
  }
}

/** Stretches of `points` that all pass `test` and are of one version. */
const runs = (points, test) => {
  const found = [];
  let open = null;
  for (const p of points) {
    if (!test(p)) open = null;
    else if (open && open[open.length - 1].by === p.by) open.push(p);
    else found.push((open = [p]));
  }
  return found;
};
