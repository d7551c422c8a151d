// Light, dark, or as the system says; kept in this browser.

const NEXT = { auto: "light", light: "dark", dark: "auto" };
const KEY = "shortfirst-theme";

const kept = () => {
  try { return localStorage.getItem(KEY); } catch { return null; } // storage may be switched off
};

export const themeButton = (button) => {
  const root = document.documentElement;
  let choice = kept() in NEXT ? kept() : "auto";
  const apply = () => {
    if (choice === "auto") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", choice);
    button.textContent = `Theme: ${choice}`;
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    choice = NEXT[choice];
    try { localStorage.setItem(KEY, choice); } catch { /* then it lasts as long as the page */ }
    apply();
  });
  apply();
};
