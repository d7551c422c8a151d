// The four states: a word, a shape and a colour each, so that none of them is needed alone.
import { h, s } from "./dom.js";

export const STATES = ["ok", "warn", "degraded", "fcfs"];
export const WORDS = { ok: "OK", warn: "Warning", degraded: "Degraded", fcfs: "Back to FCFS" };
export const rank = (state) => STATES.indexOf(state);
export const known = (state) => (rank(state) < 0 ? "unknown" : state);

const SHAPES = {
  ok: "M3 8.5l3.2 3.2L13 5",
  warn: "M8 2.5L14.5 13.5H1.5Z",
  degraded: "M8 1.5L14.5 8L8 14.5L1.5 8Z",
  fcfs: "M3 3h10v10H3Z",
  unknown: "M4 8h8",
};

export const icon = (state) =>
  s("svg", { class: `icon s-${known(state)}`, viewBox: "0 0 16 16", "aria-hidden": "true" },
    s("path", { d: SHAPES[known(state)] }));

export const badge = (state) =>
  h("span", { class: `badge s-${known(state)}` }, icon(state), WORDS[state] || "Unknown");
