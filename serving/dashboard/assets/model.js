// One served model: its numbers, charts and tables.
import { h, say, visible } from "./dom.js";
import { Calibration } from "./calibration.js";
import { Density } from "./density.js";
import { fixed } from "./format.js";
import { Lines } from "./lines.js";
import { Section, bands, happened, shifts, versions } from "./sections.js";
import { Slices } from "./slices.js";
import { WORDS, rank } from "./states.js";
import { showTiles, tiles } from "./tiles.js";

export class Model {
  constructor() {
    this.tiles = tiles();
    this.survival = h("p", { class: "warning", role: "status" });
    this.efficiency = new Lines("SJF efficiency over time",
      "Each arrival cohort replayed: 1 is what perfect forecasts give, 0 is first come, first served. The band is the 95 % interval.",
      { write: fixed, range: [0, 1], nothing: "Nothing has been replayed yet: it takes some 250 outcomes." });
    this.tau = new Lines("Kendall tau-b over time",
      "Order of scores against order of realised lengths, over a sliding window of arrivals. The strip below is the state.",
      { write: fixed, range: [0, 0.6], nothing: "The window has not been looked at yet." });
    this.chart = new Lines("Evidence of decay",
      "The detector's chart: it rises while order is worse than usual and alarms at the upper line.",
      { write: (v) => fixed(v, 1), range: [0, 1], nothing: "There is no chart before a reference has been learned." });
    this.density = new Density();
    this.calibration = new Calibration();
    this.bands = new Section("Order by length", bands);
    this.slices = new Slices();
    this.shifts = new Section("Shifts of traffic", shifts);
    this.versions = new Section("Ranker versions", versions);
    this.happened = new Section("What happened", happened);
    const card = (figure) => h("section", {}, figure.root);
    this.root = h("div", { class: "model" }, this.survival, this.tiles,
      h("div", { class: "pair" }, card(this.efficiency), card(this.tau)),
      this.slices.root,
      h("div", { class: "pair" }, card(this.density), card(this.calibration)),
      h("div", { class: "pair" }, card(this.chart), this.bands.root),
      this.happened.root, this.versions.root, this.shifts.root);
  }

  show(model, { log, at, shadows = [], retraining = [] }) {
    const about = (rows) => rows.filter((row) => row.served_model === model.served_model);
    const own = about(log);
    const all = model.overall;
    const history = joined(model, "history");
    const worth = joined(model, "worth");
    const shared = frame(history, worth, own);
    const from = shared.since; // the reference is that of the version in use
    say(this.survival, visible(model.survival || ""));
    this.survival.hidden = !model.survival;
    showTiles(this.tiles, model, at);
    this.efficiency.show({ ...shared,
      series: [
        { name: "of mean E2EL", look: "k-accent", points: worth.map((w) => ({ at: w.at, by: w.by, ...w.efficiency })) },
        { name: "of mean latency per token", look: "k-sjf", points: worth.map((w) => ({ at: w.at, by: w.by, ...w.efficiency_per_token, low: null, high: null })) },
      ],
      levels: [{ name: "usual", value: all.usual_efficiency, look: "k-realised", from }] });
    this.tau.show({ ...shared,
      series: [{ name: "tau-b", look: "k-accent", points: history.map((p) => ({ at: p.at, by: p.by, ...p.tau })) }],
      levels: [{ name: "reference", value: all.reference_tau, look: "k-realised", from }] });
    this.chart.show({ ...shared,
      series: [{ name: "evidence", look: "k-accent", points: history.map((p) => ({ at: p.at, by: p.by, value: p.chart, low: null, high: null })) }],
      levels: [
        { name: "warns", value: all.chart_warn, look: "k-warn", from },
        { name: "alarms", value: all.chart_degraded, look: "k-degraded", from }] });
    this.density.show(model.density);
    this.calibration.show(model.calibration);
    this.bands.show(model.bands);
    this.slices.show(model.slices);
    this.shifts.show(model.shifts);
    this.versions.show(model.versions, Math.floor(at / 10) * 10, about(shadows), about(retraining));
    this.happened.show(own);
  }
}

/** What was seen of all versions of one served model as one line; `by` says whose each point is. */
const joined = (model, name) => [...(model.past || []), model]
  .flatMap((one) => one[name].map((p) => ({ ...p, by: `${one.ranker} ${one.version}`.trim() })))
  .sort((a, b) => a.at - b.at);

/** Where one version's points end and another's begin. */
const changes = (points) => points.flatMap((p, i) =>
  (i && p.by !== points[i - 1].by ? [{ after: points[i - 1].at, at: p.at, by: p.by }] : []));

/** A promotion is told by itself; its first outcomes come somewhat later. */
const SOON = 300;

/** What the charts over time share: where time begins and ends, the state, and marks. */
const frame = (history, worth, log) => {
  const times = [...history, ...worth].map((p) => p.at);
  let from = times.reduce((a, b) => Math.min(a, b), Infinity);
  let to = times.reduce((a, b) => Math.max(a, b), -Infinity);
  if (!Number.isFinite(from)) [from, to] = [0, 1];
  if (to - from < 1) [from, to] = [from - 0.5, to + 0.5];
  const inside = log.filter((e) => e.at >= from && e.at <= to);
  const rises = inside.filter((e) => e.kind === "state" && e.lane === null && e.tenant === null && rank(e.after) > rank(e.before));
  const moves = inside.filter((e) => e.kind === "promotion" || e.kind === "rollback");
  const changed = changes(history);
  const untold = changed.filter((c) => !moves.some((e) => e.at >= c.after - SOON && e.at <= c.at + SOON));
  return {
    domain: [from, to],
    since: changed.length ? changed[changed.length - 1].at : null,
    strip: history.map((p) => ({ at: p.at, state: p.state })),
    marks: [
      ...rises.map((e) => ({ at: e.at, kind: "alert", state: e.after, text: `alert: ${WORDS[e.after] || "unknown"}` })),
      ...moves.map((e) => ({ at: e.at, kind: "promotion", text: visible(`${e.kind}: version ${e.after || e.version}`) })),
      ...untold.map((c) => ({ at: c.at, kind: "version", text: visible(`from here on ${c.by || "no ranker"}`) })),
    ],
  };
};
