// What a reader sets for this page: light or dark, and on a narrow screen which part is shown.

import { byId, setAttribute, setText } from "./dom.js";

const NEXT = /** @type {Record<string, string>} */ ({ auto: "dark", dark: "light", light: "auto" });

export function setUpTheme() {
  const button = byId("theme");
  const set = (/** @type {string} */ theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    setText(/** @type {Element} */ (button.lastElementChild), theme);
    setAttribute(button, "aria-label", `Colours: ${theme}. Change to ${NEXT[theme]}`);
  };
  let theme = localStorage.getItem("theme") ?? "auto";
  if (!(theme in NEXT)) theme = "auto";
  set(theme);
  button.addEventListener("click", () => {
    theme = NEXT[theme] ?? "auto";
    localStorage.setItem("theme", theme);
    set(theme);
  });
}

export function setUpViews() {
  const buttons = [...byId("views").querySelectorAll("button")];
  const set = (/** @type {string} */ view) => (document.body.dataset.view = view);
  for (const button of buttons) button.addEventListener("click", () => set(button.value));
  new MutationObserver(() => {
    for (const button of buttons) setAttribute(button, "aria-pressed", String(button.value === document.body.dataset.view));
  }).observe(document.body, { attributes: true, attributeFilter: ["data-view"] });
  set("talk");
}
