// Tables of one board: bands, shifts, versions, what happened, reporters, faults.
import { given, h, put, visible } from "./dom.js";
import { DASH, ago, count, fixed, interval, percent, when } from "./format.js";
import { badge } from "./states.js";
import { dataTable } from "./tables.js";

const MOST = 60;
const FIRST = 8; // of what happened, before one asks for more

/** A section that is written anew at each board, but not while it stays the same. */
export class Section {
  constructor(title, write) {
    const id = title.toLowerCase().replace(/[^a-z]+/g, "-");
    this.write = write;
    this.body = h("div");
    this.root = h("section", { "aria-labelledby": id }, h("h2", { id }, title), this.body);
    this.last = "";
  }

  show(...data) {
    const now = JSON.stringify(data);
    if (now === this.last) return;
    this.last = now;
    const inside = this.body.contains(document.activeElement);
    const open = this.body.querySelector("details")?.open;
    put(this.body, this.write(...data));
    if (open) this.body.querySelectorAll("details").forEach((fold) => { fold.open = true; });
    if (inside) this.body.querySelector("[tabindex]")?.focus({ preventScroll: true });
  }
}

const nothing = (text) => h("p", { class: "nothing" }, text);
const share = (value) => h("span", { class: "share" },
  h("meter", { min: 0, max: 1, value: value ?? 0, "aria-hidden": "true" }), percent(value));

export const bands = (rows) => rows.length
  ? [h("p", {}, "Of pairs of requests, the share that the scores put in the right order, by the length of the longer one. 50 % is chance."),
    dataTable("Order by length", ["Longer one, tokens", "Right order", "Pairs", "Outcomes"], rows.map((b) => [
      b.high === null ? `${count(b.low)} and more` : `${count(b.low)} to ${count(b.high - 1)}`,
      b.accuracy === null ? DASH : share(b.accuracy), count(b.pairs), count(b.outcomes)]))]
  : nothing("No pair of scored requests has ended yet.");

const SHIFTED = { output_tokens: "answer length", prompt_tokens: "prompt length", score: "forecast score", novelty: "novelty of prompts", embedding: "meaning of prompts" };
const MEANING = " Meaning is where prompts lie by the ranker's encoder: what is asked can change while its length and score do not.";
const psi = (value) => value === null ? "not known" : value > 0.25 ? "large" : value > 0.1 ? "some" : "none";

// The largest of several PSIs is above 0.1 by chance while there are few outcomes; its distance knows.
const chanced = (r) => r.name === "embedding" && r.distance !== null && r.distance <= r.chance;

export const shifts = (rows) => rows.length
  ? [h("p", {}, "Traffic now against the reference. A shift is no harm by itself: it says where to look when order decays.",
    rows.some((r) => r.name === "embedding") ? MEANING : null),
    dataTable("Shifts", ["What", "Shift", "PSI", "Distance", "Chance", "Reference", "Window"], rows.map((r) => [
      SHIFTED[r.name] || visible(r.name), psi(chanced(r) ? 0 : r.psi), fixed(r.psi), fixed(r.distance), fixed(r.chance),
      count(r.reference), count(r.window)]))]
  : nothing("There is no reference yet to compare with: it is learned from the first outcomes.");

const VERDICTS = { better: "orders better", worse: "orders worse", unclear: "not certain yet" };
const shadows = (rows) => rows.length
  ? [h("p", {}, "A challenger scores live prompts in the background; what schedules is the version in use. Both orders on the same outcomes:"),
    dataTable("Challengers", ["Challenger", "Verdict", "tau-b", "Of the version in use", "Difference", "Outcomes", "Dropped"], rows.map((s) => [
      h("span", {}, given(s.ranker), " ", given(s.challenger), " beside ", given(s.champion)), VERDICTS[s.verdict] || visible(s.verdict),
      fixed(s.challenger_tau, 3), fixed(s.champion_tau, 3),
      interval({ value: s.difference, low: s.low, high: s.high }, (v) => fixed(v, 3)), count(s.pairs), count(s.dropped)]))]
  : [];

const PHASES = {
  gathering: "waits for outcomes of the new traffic", training: "trains", trained: "trained; compared on live traffic",
  promoting: "asks the gate", promoted: "promoted", refused: "refused", failed: "failed", recovered: "not needed any more",
  "rolled back": "was rolled back; waits until somebody promotes a version",
};
const retrained = (rows) => rows.map((r) => h("p", {}, "Retraining of ", given(r.ranker), " version ", given(r.version), ": ",
  h("strong", {}, PHASES[r.phase] || visible(r.phase)), " since ", when(r.since), ". ", visible([...r.reasons, r.gate].filter(Boolean).join("; "))));

export const versions = (rows, now, tried, attempts) => [...retrained(attempts), ...shadows(tried), inUse(rows, now)];

const inUse = (rows, now) => rows.length
  ? dataTable("Ranker versions", ["Ranker", "State", "tau-b", "Reference", "Outcomes", "Since", "Last"],
    [...rows].reverse().map((v) => [
      h("span", {}, given(v.ranker), " ", given(v.version), v.current ? h("strong", { class: "now" }, " in use") : null),
      v.current || v.state !== "ok" ? badge(v.state) : DASH, interval(v.tau), fixed(v.reference_tau), count(v.outcomes), when(v.first_arrival), ago(v.last_arrival, now)]),
    "", "numbers states")
  : nothing("No outcome has named a ranker yet.");

const KINDS = { state: "State", scale: "Scale of lengths", promotion: "Promotion", rollback: "Rollback", retraining: "Retraining", shadow: "Challenger", action: "Action" };
const change = (e) => e.kind === "state"
  ? h("span", { class: "change" }, badge(e.before), " → ", badge(e.after))
  : h("span", {}, given(e.before || ""), e.before && e.after ? " → " : "", given(e.after || ""));

const told = (title, entries, note) => dataTable(title, ["When", "What", "Of", "Change", "By", "Why"], entries.map((e) => [
  when(e.at), KINDS[e.kind] || visible(e.kind),
  e.label === "all" ? "all traffic" : given(e.label), change(e), given(e.actor),
  visible([e.cause, ...e.reasons, e.gate].filter(Boolean).join("; ") || e.message || DASH)]), note, "text");

/** The newest ones; those before them folded away, or a narrow page would be nothing else. */
export const happened = (log) => {
  if (!log.length) return nothing("Nothing has: no change of state, no promotion.");
  const newest = [...log].reverse().slice(0, MOST);
  const earlier = newest.slice(FIRST);
  const note = log.length > MOST ? `The newest ${MOST} of ${log.length}; shortfirst drift history has all.` : "";
  return [told("What happened", newest.slice(0, FIRST), ""), earlier.length
    ? h("details", {}, h("summary", {}, `${earlier.length} earlier`), told("What happened earlier", earlier, note))
    : null];
};

export const reporters = (rows, now) => rows.length
  ? dataTable("Reporters", ["Reporter", "Last report", "Outcomes", "Open", "Late", "Notes"], rows.map((r) => [
    r.reporter ? given(r.reporter) : "(no name)", ago(r.last_report, now), count(r.outcomes), count(r.open), count(r.late),
    r.notes.length ? h("strong", {}, visible(r.notes.join(" · "))) : "none"]), "", "text")
  : nothing("Nobody has reported since the service started.");

const FAULTS = {
  duplicates: "reports of an outcome that was known",
  conflicts: "of those with other numbers; the first count",
  late: "came after their place in order: in the statistics, not on the chart",
  bounds: "open requests that entered as lower bounds",
  settled: "of those that ended since",
  clock: "times that had to be set right",
  refused: "outcomes not stored because the store could not; their reporters send them again",
  jobs: "work around the monitor that found no place to wait",
};

export const faults = (values) => dataTable("Reports", ["Since the service started", "Count"],
  Object.entries(FAULTS).filter(([name]) => name in values).map(([name, text]) =>
    [`${name}: ${text}`, count(values[name])]), "", "text counts");
