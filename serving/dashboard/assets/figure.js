// What all charts share: a frame with a title, keys and pointer that read it out, and a table.
import { h, put, s, say } from "./dom.js";
import { dataTable } from "./tables.js";

const MOST_ROWS = 200;
let made = 0;

/**
 * A chart in a `<figure>`. Those that extend it draw and describe:
 * - `draw(width, height)`: SVG children
 * - `empty()`: why there is nothing to see, or ""
 * - `move(key, active)`: the point that a key leads to, or `undefined` when the key means nothing
 * - `nearest(x, y)`: the point under the pointer
 * - `describe(active)`: that point in words
 * - `summary()`: the whole in words
 * - `table()`: `{ columns, rows }`
 */
export class Figure {
  constructor(title, caption, height) {
    this.height = height;
    this.active = null;
    made += 1;
    const id = `figure-${made}`;
    this.legend = h("ul", { class: "legend" });
    this.plot = h("div", {
      class: "plot", tabindex: 0, role: "group", "aria-roledescription": "chart",
      "aria-labelledby": `${id}-title`, "aria-describedby": `${id}-summary`,
      onkeydown: (event) => this.key(event),
      onpointermove: (event) => this.point(event),
      onpointerleave: () => this.leave(),
      onblur: () => this.leave(),
    });
    this.said = h("p", { class: "visually-hidden", id: `${id}-summary` });
    this.readout = h("p", { class: "readout" });
    this.spoken = h("p", { class: "visually-hidden", "aria-live": "polite" });
    this.rows = h("div");
    this.details = h("details", { ontoggle: () => this.tabulate() },
      h("summary", {}, "As a table"), this.rows);
    this.root = h("figure", { class: "chart" },
      h("h2", { id: `${id}-title` }, title), this.legend, this.plot, this.readout, this.said,
      this.spoken, caption ? h("figcaption", {}, caption) : null, this.details);
    new ResizeObserver(() => {
      if (Math.abs(this.plot.clientWidth - (this.width || 0)) >= 1) this.redraw();
    }).observe(this.plot);
  }

  /** Show new data, keeping the point that is being read. */
  show(data) {
    this.data = data;
    if (this.active !== null && !this.has(this.active)) this.active = null;
    say(this.said, `${this.empty() || this.summary()} ${HINT}`);
    this.redraw();
    this.tabulate();
  }

  has() { return true; }

  redraw() {
    if (!this.data) return;
    this.width = this.plot.clientWidth;
    if (this.width < 40) return; // not laid out
    const nothing = this.empty();
    this.details.hidden = Boolean(nothing);
    if (nothing) {
      put(this.plot, h("p", { class: "nothing" }, nothing));
      say(this.readout, "");
      return;
    }
    const size = { width: this.width, height: this.height };
    put(this.plot, s("svg", { ...size, viewBox: `0 0 ${this.width} ${this.height}`, "aria-hidden": "true" },
      this.draw(this.width, this.height)));
    say(this.readout, this.active === null ? "" : this.describe(this.active));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.data || this.empty()) return;
    const next = event.key === "Escape" ? null : this.move(event.key, this.active);
    if (next === undefined) return;
    event.preventDefault();
    this.active = next;
    this.redraw();
    say(this.spoken, this.readout.textContent);
  }

  point(event) {
    if (!this.data || this.empty()) return;
    const box = this.plot.getBoundingClientRect();
    this.active = this.nearest(event.clientX - box.left, event.clientY - box.top);
    this.redraw();
  }

  leave() {
    if (this.active === null) return;
    this.active = null;
    this.redraw();
  }

  tabulate() {
    if (!this.details.open || !this.data || this.empty()) return;
    const { columns, rows } = this.table();
    const title = this.root.querySelector("h2").textContent;
    const note = rows.length > MOST_ROWS ? `The newest ${MOST_ROWS} of ${rows.length}.` : "";
    put(this.rows, dataTable(title, columns, rows.slice(-MOST_ROWS), note));
  }
}

const HINT = "Arrow keys, Home and End read its points out; the same stands in the table below it.";

/** Where left, right, Home, End and the page keys lead in a row of `length` points. */
export const along = (key, active, length) => {
  const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[key];
  if (key === "Home") return 0;
  if (key === "End") return length - 1;
  if (step === undefined) return undefined;
  if (active === null) return length - 1;
  return Math.max(0, Math.min(length - 1, active + step));
};

/** Entry of a legend: how a mark looks, and what it is. */
export const keyed = (look, text) =>
  h("li", {}, h("span", { class: `key ${look}`, "aria-hidden": "true" }), text);
