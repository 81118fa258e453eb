/* The theme, the pairs of equations and lines, the folds, and the search. Pages read well without it. */
"use strict";
(() => {
  const root = document.documentElement;

  /* --- light and dark: the reader's choice, else that of the system --- */
  const button = document.getElementById("theme");
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const show = () => button.setAttribute("aria-pressed", String(isDark()));
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* a page opened from a file may keep nothing */ }
    show();
  });
  show();

  /* --- an equation lights its lines, and a line its equations --- */
  const paired = [...document.querySelectorAll(".pair [data-eq]")];
  const light = (keys) => {
    for (const e of paired) e.classList.toggle("lit", e.dataset.eq.split(" ").some((k) => keys.includes(k)));
  };
  for (const e of paired) {
    const own = () => light(e.dataset.eq.split(" "));
    e.addEventListener("mouseenter", own);
    e.addEventListener("focusin", own);
    e.addEventListener("mouseleave", () => light([]));
    e.addEventListener("focusout", () => light([]));
  }

  /* --- folds: all at once, and whatever the address points into --- */
  for (const b of document.querySelectorAll("[data-fold]")) {
    b.addEventListener("click", () => {
      const folds = [...document.getElementById(b.dataset.fold).querySelectorAll("details")];
      const open = folds.some((d) => !d.open);
      for (const d of folds) d.open = open;
      b.textContent = open ? "Close all" : "Open all";
    });
  }

  /* --- search: every word must begin somewhere in what is said of the op --- */
  const input = document.getElementById("search");
  const cards = [...document.querySelectorAll(".card[data-words]")];
  if (!input) return;
  const filter = () => {
    const words = input.value.toLowerCase().split(/[\s_]+/).filter(Boolean);
    let count = 0;
    for (const card of cards) {
      const text = ` ${card.dataset.words.toLowerCase().replaceAll("_", " ")}`;
      card.hidden = !words.every((w) => text.includes(w));
      count += card.hidden ? 0 : 1;
    }
    for (const f of document.querySelectorAll("section.family")) f.hidden = !f.querySelector(".card:not([hidden])");
    const lessons = document.getElementById("lessons");
    if (lessons) lessons.hidden = words.length > 0;
    document.getElementById("found").textContent = count === 1 ? "1 op" : `${count} ops`;
    document.getElementById("nothing").hidden = count > 0;
  };
  if (cards.length) {
    input.value = new URLSearchParams(location.search).get("q") || "";
    input.addEventListener("input", filter);
    input.form.addEventListener("submit", (e) => {
      e.preventDefault();
      const first = cards.find((c) => !c.hidden);
      if (first && input.value) first.querySelector("a").focus();
    });
    filter();
  }
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && !e.ctrlKey && !e.metaKey && !["INPUT", "TEXTAREA", "SELECT"].includes(document.activeElement.tagName)) {
      e.preventDefault();
      input.focus();
    }
  });
})();
