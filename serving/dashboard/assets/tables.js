// Tables of data, each in a region that scrolls by itself.
import { h } from "./dom.js";

/** Cells are text or nodes; the first of a row heads it. */
export const dataTable = (title, columns, rows, note = "", kind = "numbers") =>
  h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
    h("table", { class: kind },
      note ? h("caption", {}, note) : null,
      h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map((cells) => h("tr", {},
        cells.map((cell, i) => (i ? h("td", {}, cell) : h("th", { scope: "row" }, cell))))))));
