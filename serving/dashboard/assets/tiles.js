// The few numbers to know, each with what it means.
import { h, put } from "./dom.js";
import { ago, count, fixed, interval, limits, percent, seconds } from "./format.js";

const tile = (title, value, ...below) =>
  h("div", { class: "tile" }, h("dt", {}, title), h("dd", {}, value),
    below.filter(Boolean).map((text) => h("dd", { class: "below" }, text)));

/** SJF efficiency in a sentence. */
const worth = ({ efficiency: { value }, usual_efficiency: usual }) => {
  if (value === null) return "not replayed yet: it takes some 250 outcomes";
  const was = usual === null ? "" : `; it was ${fixed(usual)} while all was well`;
  if (value <= 0) return `ranking is worth nothing now${was}`;
  return `${percent(value)} of what perfect forecasts would save${was}`;
};

const saving = ({ saved_seconds: { value, low, high } }) => {
  if (value === null) return "not known yet: needs an hour's requests that had to wait";
  const way = value >= 0 ? "saved" : "lost";
  const chance = low !== null && high !== null && low < 0 && high > 0 ? "; may be chance" : "";
  return `${way} per request against FCFS, last hour${chance}`;
};

const tail = (ratio) => {
  if (ratio === null) return "";
  return ratio <= 1.02 ? "E2EL: the slowest requests pay nothing for ranking"
    : "E2EL: above 1 the slowest requests pay for ranking";
};

export const tiles = () => h("dl", { class: "tiles" });

export const showTiles = (list, model, now) => {
  const all = model.overall;
  put(list,
    tile("SJF efficiency", fixed(all.efficiency.value), limits(all.efficiency, fixed), worth(all)),
    tile("Worth, in time", seconds(all.saved_seconds.value),
      limits(all.saved_seconds, seconds), saving(all)),
    tile("Kendall tau-b", fixed(all.tau.value), limits(all.tau, fixed),
      all.reference_tau === null ? "no reference yet: it is learned from the first outcomes"
        : `reference ${fixed(all.reference_tau)}; concordance ${interval(all.concordance)}`),
    tile("p99, ranked / FCFS", fixed(all.p99_ratio), tail(all.p99_ratio)),
    tile("Unscored", percent(all.unscored, 1), `of the last ${count(all.window)} requests came without a forecast`,
      `${percent(all.censored, 1)} are lower bounds`),
    tile("Under way", count(model.open), `${count(model.held)} held for their place in order, ${count(model.late)} came late`),
    tile("Outcomes", count(all.outcomes), `the last arrived ${ago(all.last_arrival, now)}`));
};
