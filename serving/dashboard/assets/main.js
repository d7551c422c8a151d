// The page: puts the parts in place and keeps them up to date.
import { given, h, put, say, visible } from "./dom.js";
import { Feed } from "./feed.js";
import { clockSeconds } from "./format.js";
import { Headline } from "./headline.js";
import { Model } from "./model.js";
import { Section, faults, reporters } from "./sections.js";
import { WORDS } from "./states.js";
import { themeButton } from "./theme.js";

class Page {
  constructor(main, connection) {
    this.main = main;
    this.connection = connection;
    this.since = null; // Unix seconds of the server at the last sign of life
    this.board = null;
    this.chosen = "";
    this.headline = new Headline();
    this.picker = h("select", { id: "served-model", onchange: () => { this.chosen = this.picker.value; this.draw(); } });
    this.pick = h("p", { class: "pick" }, h("label", { for: "served-model" }, "Served model "), this.picker, h("span", { class: "ranker" }));
    this.model = new Model();
    this.empty = h("section", { class: "state-page" }, h("h2", {}, "Waiting for the first outcomes"),
      h("p", {}, "The monitor learns from realised lengths. An engine started with ", h("code", {}, "--rank-target"),
        " reports them by itself; any other scheduler calls ", h("code", {}, "RankService.ReportOutcomes"), "."),
      h("p", {}, "This page fills by itself once they come."));
    this.reporters = new Section("Reporters", reporters);
    this.faults = new Section("Reports that were not as they should be", faults);
    this.about = h("div", { class: "pair" }, this.reporters.root, this.faults.root);
    this.waiting = h("section", { class: "state-page", "aria-busy": "true" }, h("p", { role: "status" }, "Loading the board …"),
      h("div", { class: "bone wide" }), h("div", { class: "bone" }), h("div", { class: "bone" }));
    this.failed = h("section", { class: "state-page failed", role: "alert" }, h("h2", {}, "The board cannot be had"), h("p", {}));
    this.retry = h("button", { type: "button" }, "Try now");
    this.failed.append(this.retry);
    put(main, this.waiting);
  }

  show(board) {
    this.board = board;
    this.draw();
  }

  draw() {
    const { board } = this;
    const models = board.models;
    const model = models.find((m) => m.served_model === this.chosen) || models[0];
    this.headline.show(board.headline);
    this.choices(models, model);
    const parts = model ? [this.headline.root, this.pick, this.model.root, this.about] : [this.headline.root, this.empty, this.about];
    if (parts.some((part) => part.parentNode !== this.main) || this.main.children.length !== parts.length) put(this.main, parts);
    if (model) this.model.show(model, board);
    this.reporters.show(board.reporters, Math.floor(board.at / 10) * 10);
    this.faults.show(board.faults);
  }

  choices(models, model) {
    const wanted = models.map((m) => [m.served_model, `${visible(m.served_model)} — ${WORDS[m.state] || "unknown"}`]);
    const now = JSON.stringify(wanted);
    if (now !== this.offered) {
      this.offered = now;
      put(this.picker, wanted.map(([value, text]) => h("option", { value }, text)));
    }
    if (!model) return;
    this.picker.value = model.served_model;
    const ranker = this.pick.lastChild;
    const text = model.ranker ? [" ranked by ", given(model.ranker), " version ", given(model.version)] : [" no ranker seen yet"];
    const meaning = models.length > 1 ? [". ", model.meaning] : [];
    put(ranker, text, meaning);
  }

  status({ kind, at, retryAt }) {
    const stale = kind !== "live";
    document.body.classList.toggle("stale", stale && this.board !== null);
    if (kind === "live") {
      this.since = at;
      this.connection.className = "connection live";
      say(this.connection, "Live");
      return;
    }
    this.connection.className = "connection lost";
    const why = kind === "trouble"
      ? "the server could not put the board together; its log says why."
      : "no connection to the rank server; trying again.";
    if (this.board !== null) {
      say(this.connection, `Stale since ${clockSeconds(this.since ?? this.board.at)}: ${why}`);
      return;
    }
    say(this.connection, "Not live");
    const wait = retryAt ? ` Next try in ${Math.max(1, Math.round((retryAt - Date.now()) / 1000))} s.` : "";
    say(this.failed.querySelector("p"), why[0].toUpperCase() + why.slice(1) + wait);
    if (this.failed.parentNode !== this.main) put(this.main, this.failed);
  }
}

themeButton(document.getElementById("theme"));
const page = new Page(document.getElementById("main"), document.getElementById("connection"));
const feed = new Feed((board) => page.show(board), (status) => page.status(status));
page.retry.addEventListener("click", () => feed.open());
feed.open();
