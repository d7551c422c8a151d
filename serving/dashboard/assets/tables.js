// Tables of data, each in a region that scrolls by itself.
import { h } from "./dom.js";

/**
 * Cells are text or nodes; the first of a row heads it. Rows of `kind` "text" stand as cards where
 * it is narrow, so roles are said: a table that is laid out as blocks is none to a screen reader.
 */
export const dataTable = (title, columns, rows, note = "", kind = "numbers") =>
  h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
    h("table", { class: kind, role: "table" },
      note ? h("caption", {}, note) : null,
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" },
        columns.map((name) => h("th", { scope: "col", role: "columnheader" }, name)))),
      h("tbody", { role: "rowgroup" }, rows.map((cells) => h("tr", { role: "row" },
        cells.map((cell, i) => (i
          ? h("td", { role: "cell", "data-label": columns[i] }, cell)
          : h("th", { scope: "row", role: "rowheader" }, cell))))))));
