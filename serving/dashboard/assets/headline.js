// The worst state there is, and what it means in words.
import { given, h, put, say, visible } from "./dom.js";
import { WORDS, badge, known } from "./states.js";

export class Headline {
  constructor() {
    this.badge = h("p", { class: "headline-state" });
    this.words = h("p", { class: "headline-words" });
    this.advice = h("p", { class: "headline-advice" });
    this.root = h("section", { class: "headline", "aria-labelledby": "headline-title", "aria-live": "polite", "aria-atomic": "true" },
      h("h2", { id: "headline-title", class: "visually-hidden" }, "State"), this.badge, this.words, this.advice);
    this.said = "";
  }

  show({ state, words, advice, served_model: model }) {
    const now = JSON.stringify([state, words, advice]);
    if (now === this.said) return; // a live region speaks at every change
    this.said = now;
    this.root.className = `headline s-${model ? known(state) : "unknown"}`;
    put(this.badge, model ? badge(state) : h("span", { class: "badge" }, "No data yet"));
    // The name of the model stands first in the words; it is somebody else's text.
    const named = model && words.startsWith(`${model}:`);
    put(this.words, named ? [given(model), visible(words.slice(model.length))] : visible(words));
    say(this.advice, state === "ok" ? "Nothing to do." : `What to do: ${advice}.`);
    this.advice.hidden = !advice;
    document.title = `${model ? WORDS[state] || "Unknown" : "No data"} · drift · shortfirst`;
  }
}
