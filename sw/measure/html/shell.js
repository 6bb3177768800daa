"use strict";
/* What every page has: its data, its colours, the theme button, tables that sort. */
const systola = (() => {
  const root = document.documentElement;
  const listeners = [];

  function data(name) {
    const block = document.getElementById(`data-${name}`);
    if (!block) throw new Error(`this page has no data called ${name}`);
    return JSON.parse(block.textContent);
  }

  const probe = document.createElement("i");
  probe.hidden = true;
  document.body.append(probe);

  /** The value of a colour variable as the theme is now, such as `rgb(27, 31, 36)`. */
  function colour(name) {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  }

  /** Call `listener` after each change of the theme, by the button or by the system. */
  function onTheme(listener) {
    listeners.push(listener);
  }

  function escape(text) {
    const marks = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;" };
    return String(text).replace(/[&<>"']/g, (c) => marks[c]);
  }

  /** A number with separators of thousands, and at most `digits` decimals. */
  function number(value, digits = 0) {
    return value.toLocaleString("en-GB", { maximumFractionDigits: digits });
  }

  // Theme -------------------------------------------------------------------------------------
  const THEMES = ["auto", "light", "dark"];
  const LABELS = { auto: "as the system", light: "light", dark: "dark" };
  // Storage is refused for some pages that are opened as files.
  function stored() {
    try {
      return localStorage.getItem("systola-theme");
    } catch {
      return null;
    }
  }
  function setTheme(theme, keep) {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    const button = document.getElementById("theme");
    button.textContent = `Theme: ${LABELS[theme]}`;
    button.setAttribute("aria-label", `Theme: ${LABELS[theme]}. Change it`);
    button.dataset.value = theme;
    if (keep) {
      try {
        localStorage.setItem("systola-theme", theme);
      } catch {
        // The choice then holds until the page is closed.
      }
    }
    listeners.forEach((listener) => listener());
  }

  // Tables ------------------------------------------------------------------------------------
  function key(row, column) {
    const cell = row.cells[column];
    const value = cell.dataset.value ?? cell.textContent.trim();
    return value !== "" && !Number.isNaN(Number(value)) ? Number(value) : value;
  }
  function compare(a, b) {
    // Cells without a value come last, whatever the direction.
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }
  function sortBy(table, head, column) {
    const down = head.getAttribute("aria-sort") === "descending";
    const numeric = head.classList.contains("number");
    const direction = head.hasAttribute("aria-sort") ? (down ? 1 : -1) : numeric ? -1 : 1;
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [key(row, column), row]);
    rows.sort(([a], [b]) => {
      if (a === "" || b === "") return (a === "") - (b === "");
      return direction * compare(a, b);
    });
    body.append(...rows.map(([, row]) => row));
  }
  function makeSortable(table) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sortBy(table, head, column));
      head.append(button);
    });
  }

  function start() {
    const before = stored();
    setTheme(THEMES.includes(before) ? before : "auto", false);
    document.getElementById("theme").addEventListener("click", (event) => {
      const next = (THEMES.indexOf(event.currentTarget.dataset.value) + 1) % THEMES.length;
      setTheme(THEMES[next], true);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
      listeners.forEach((listener) => listener()),
    );
    document.querySelectorAll("table.sortable").forEach(makeSortable);
  }
  start();
  return { data, colour, onTheme, escape, number };
})();
