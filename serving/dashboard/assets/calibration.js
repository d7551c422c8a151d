// Reliability: of lengths, the share at or below the forecast quantile, against what was forecast.
import { put, s } from "./dom.js";
import { Figure, along, keyed } from "./figure.js";
import { percent } from "./format.js";
import { linear, nearest } from "./scales.js";

const EDGE = { left: 48, right: 12, top: 10, bottom: 40 };
const TICKS = [0, 0.25, 0.5, 0.75, 1];

/** `data`: the board's `calibration`: `[{ level, observed }]`. */
export class Calibration extends Figure {
  constructor() {
    super("Calibration of the quantiles",
      "On the line the quantiles are honest. Above it answers were shorter than forecast, below it longer: " +
      "the order may still be right, but the lengths need recalibration.", 320);
  }

  get points() { return this.data.filter((p) => p.observed !== null); }
  has(active) { return active < this.points.length; }
  empty() { return this.points.length ? "" : "No scored request has ended yet."; }

  show(data) {
    super.show(data);
    put(this.legend, keyed("line k-accent", "observed"), keyed("dashed k-points", "as forecast"));
  }

  draw(width, height) {
    const x = (this.x = linear([0, 1], [EDGE.left, width - EDGE.right]));
    const y = linear([0, 1], [height - EDGE.bottom, EDGE.top]);
    const axes = s("g", { class: "axes" });
    for (const tick of TICKS) {
      axes.append(
        s("line", { class: "grid", x1: x(0), x2: x(1), y1: y(tick), y2: y(tick) }),
        s("text", { x: x(tick), y: height - EDGE.bottom + 16, "text-anchor": tick === 1 ? "end" : "middle" }, percent(tick)),
        s("text", { x: EDGE.left - 7, y: y(tick) + 4, "text-anchor": "end" }, percent(tick)));
    }
    axes.append(s("text", { class: "title", x: (x(0) + x(1)) / 2, y: height - 5, "text-anchor": "middle" },
      "forecast quantile"));
    const path = this.points.map((p) => `${x(p.level)} ${y(p.observed)}`).join("L");
    return [axes,
      s("line", { class: "level k-points", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
      s("path", { class: "curve k-accent", d: `M${path}` }),
      ...this.points.map((p, i) => s("circle", { class: "dot k-accent", cx: x(p.level), cy: y(p.observed),
        r: i === this.active ? 6 : 3.5 })),
    ];
  }

  move(key, active) { return along(key, active, this.points.length); }
  nearest(x) { return nearest(this.points.map((p) => this.x(p.level)), x); }
  describe(active) {
    const { level, observed } = this.points[active];
    return `${percent(level)} quantile: ${percent(observed, 1)} of lengths at or below it`;
  }

  summary() { return this.points.map((_, i) => this.describe(i)).join("; ") + "."; }
  table() {
    return { columns: ["Forecast quantile", "Observed share"],
      rows: this.data.map((p) => [percent(p.level), percent(p.observed, 1)]) };
  }
}
