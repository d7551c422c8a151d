"use strict";
// Draws the figures in the colours of the page and again when the theme changes.
(() => {
  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 520px)");
  let choice = "auto";

  const colours = () => {
    const style = getComputedStyle(root);
    return (role) => {
      // A colour's name with "band" or "veil" behind it is that colour, let through a bit.
      const [, name, alpha] = role.match(/^@(\w+?)(band|veil)?$/);
      const value = style.getPropertyValue("--" + name).trim() || "#888888";
      return value + ({ band: "38", veil: "b8" }[alpha] || "");
    };
  };

  const paint = (value, colour) => {
    if (typeof value === "string") return value.startsWith("@") ? colour(value) : value;
    if (Array.isArray(value)) return value.map((item) => paint(item, colour));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, paint(v, colour)]));
    }
    return value;
  };

  const draw = () => {
    if (!window.Plotly) return;
    const colour = colours();
    for (const [id, figure] of Object.entries(figures)) {
      const { data, layout } = paint(figure, colour);
      if (narrow.matches) {
        layout.margin = { ...layout.margin, l: 40, r: 8 };
        for (const note of layout.annotations || []) note.font = { ...note.font, size: 11 };
      }
      window.Plotly.react(id, data, layout, { displayModeBar: false, responsive: true });
    }
  };

  const button = document.getElementById("theme");
  const label = () => { button.textContent = "Theme: " + choice; };
  button.hidden = false;
  button.addEventListener("click", () => {
    choice = { auto: "light", light: "dark", dark: "auto" }[choice];
    if (choice === "auto") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", choice);
    label();
    draw();
  });
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);
  label();
  draw();
})();
