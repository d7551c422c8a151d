// The slices of a served model, most harm first: sorted by any column, filtered, a page at a time.
import { given, h, put, say } from "./dom.js";
import { count, fixed, limits, percent } from "./format.js";
import { STATES, WORDS, badge, rank } from "./states.js";

const PAGE = 50;

const narrow = (i) => h("span", {}, fixed(i.value), h("small", {}, limits(i)));

/** How a column is written and by what it is sorted; `text` ones start ascending. */
const COLUMNS = [
  { name: "Slice", cell: (r) => given(r.label), by: (r) => r.label.toLowerCase(), text: true },
  { name: "State", cell: (r) => badge(r.state), by: (r) => rank(r.state) },
  { name: "Harm", cell: (r) => fixed(r.harm, 3), by: (r) => r.harm, hint: "share of traffic × SJF efficiency lost" },
  { name: "Traffic", cell: (r) => percent(r.traffic, 1), by: (r) => r.traffic },
  { name: "SJF efficiency", cell: (r) => fixed(r.efficiency.value), by: (r) => r.efficiency.value,
    hint: "1 is an oracle, 0 is first come, first served" },
  { name: "Usual", cell: (r) => fixed(r.usual_efficiency), by: (r) => r.usual_efficiency, hint: "SJF efficiency while all was well" },
  { name: "Trust", cell: (r) => fixed(r.trust), by: (r) => r.trust, hint: "say that schedulers leave to forecasts: 1 all, 0 order of arrival" },
  { name: "tau-b", cell: (r) => narrow(r.tau), by: (r) => r.tau.value },
  { name: "Reference", cell: (r) => fixed(r.reference_tau), by: (r) => r.reference_tau, hint: "tau-b while all was well" },
  { name: "Concordance", cell: (r) => fixed(r.concordance.value), by: (r) => r.concordance.value, hint: "Harrell's C: 0.5 is chance" },
  { name: "Unscored", cell: (r) => percent(r.unscored, 1), by: (r) => r.unscored },
  { name: "Censored", cell: (r) => percent(r.censored, 1), by: (r) => r.censored, hint: "lower bounds: cut at max_tokens, aborted, or still open" },
  { name: "Below p50", cell: (r) => percent(r.coverage_p50), by: (r) => r.coverage_p50, hint: "should be 50 %" },
  { name: "Below p90", cell: (r) => percent(r.coverage_p90), by: (r) => r.coverage_p90, hint: "should be 90 %" },
  { name: "Length shift", cell: (r) => fixed(r.length_shift), by: (r) => r.length_shift, hint: "PSI; above 0.25 is large" },
  { name: "Input shift", cell: (r) => fixed(r.input_shift), by: (r) => r.input_shift, hint: "PSI; above 0.25 is large" },
  { name: "Outcomes", cell: (r) => count(r.outcomes), by: (r) => r.outcomes },
];

export class Slices {
  constructor() {
    this.rows = [];
    this.sort = { column: COLUMNS[2], down: true };
    this.shown = PAGE;
    this.search = h("input", { type: "search", id: "slice-search", autocomplete: "off",
      spellcheck: "false", oninput: () => this.restart() });
    this.state = h("select", { id: "slice-state", onchange: () => this.restart() },
      h("option", { value: "" }, "any"), STATES.map((state) => h("option", { value: state }, WORDS[state])));
    this.heads = COLUMNS.map((column) => h("th", { scope: "col" },
      h("button", { type: "button", class: "sort", title: column.hint, onclick: () => this.by(column) }, column.name)));
    this.body = h("tbody");
    this.counted = h("p", { class: "counted", role: "status" });
    this.more = h("button", { type: "button", onclick: () => { this.shown += PAGE; this.fill(); } });
    this.region = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Slices" },
      h("table", { class: "numbers sticky" }, h("thead", {}, h("tr", {}, this.heads)), this.body));
    this.nothing = h("p", { class: "nothing" }, "All traffic is one slice: no second tenant or lane has been seen.");
    this.tools = h("div", { class: "tools" },
      h("label", { for: "slice-search" }, "Find ", this.search),
      h("label", { for: "slice-state" }, "State ", this.state), this.counted);
    this.root = h("section", { "aria-labelledby": "slices-title" },
      h("h2", { id: "slices-title" }, "Slices"),
      h("p", {}, "Tenants and lanes that are watched on their own. Harm: share of traffic × SJF " +
        "efficiency lost against what is usual. A column's name sorts by it."),
      this.nothing, this.tools, this.region, this.more);
  }

  show(rows) {
    this.rows = rows;
    this.nothing.hidden = rows.length > 0;
    this.tools.hidden = this.region.hidden = rows.length === 0;
    this.fill();
  }

  by(column) {
    const down = this.sort.column === column ? !this.sort.down : !column.text;
    this.sort = { column, down };
    this.restart();
  }

  restart() {
    this.shown = PAGE;
    this.fill();
  }

  found() {
    const wanted = this.search.value.trim().toLowerCase();
    const state = this.state.value;
    const kept = this.rows.filter((row) =>
      (!state || row.state === state) && (!wanted || row.label.toLowerCase().includes(wanted)));
    const { column, down } = this.sort;
    return kept.map((row) => [column.by(row), row]).sort(([a], [b]) => order(a, b, down)).map(([, row]) => row);
  }

  fill() {
    const found = this.found();
    const shown = found.slice(0, this.shown);
    this.heads.forEach((head, i) => {
      const sorted = COLUMNS[i] === this.sort.column;
      if (sorted) head.setAttribute("aria-sort", this.sort.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    put(this.body, shown.map((row) => h("tr", {}, COLUMNS.map((column, i) =>
      i ? h("td", {}, column.cell(row)) : h("th", { scope: "row" }, column.cell(row))))));
    say(this.counted, found.length === this.rows.length
      ? `${count(shown.length)} of ${count(found.length)} slices shown`
      : `${count(found.length)} of ${count(this.rows.length)} slices match, ${count(shown.length)} shown`);
    this.more.hidden = shown.length === found.length;
    this.more.textContent = `Show ${Math.min(PAGE, found.length - shown.length)} more`;
  }
}

/** What isn't known comes last, whichever way. */
const order = (a, b, down) => {
  const missing = (v) => v === null || v === undefined;
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  const way = a < b ? -1 : a > b ? 1 : 0;
  return down ? -way : way;
};
