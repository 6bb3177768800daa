"use strict";
// Tables: static ones, and a text alternative for each figure.
((R) => {
  const MOST_ROWS = 200;

  // columns: texts, or {text, number: true}. rows: arrays of texts or elements.
  R.table = (caption, columns, rows) => {
    const heads = columns.map((c) => (typeof c === "string" ? { text: c } : c));
    return R.h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      R.h(
        "table",
        {},
        R.h("caption", { class: "hidden-text" }, caption),
        R.h(
          "thead",
          {},
          R.h(
            "tr",
            {},
            heads.map((c) => R.h("th", { scope: "col", class: c.number ? "number" : null }, c.text)),
          ),
        ),
        R.h(
          "tbody",
          {},
          rows.map((row) =>
            R.h(
              "tr",
              {},
              row.map((cell, n) =>
                n
                  ? R.h("td", { class: heads[n].number ? "number" : null }, cell)
                  : R.h("th", { scope: "row" }, cell),
              ),
            ),
          ),
        ),
      ),
    );
  };

  // A closed list below a figure; `make()` gives {columns, rows} when it is opened.
  R.alternative = (title, make) => {
    const place = R.h("div", {});
    const element = R.h("details", { class: "alternative" }, R.h("summary", {}, "As a table"), place);
    const fill = () => {
      if (!element.open) return;
      const { columns, rows } = make();
      const note =
        rows.length > MOST_ROWS
          ? R.h("p", {}, `The first ${MOST_ROWS} of ${R.show(rows.length)} rows; the table of points has all.`)
          : null;
      place.replaceChildren(
        ...[note, R.table(title(), columns, rows.slice(0, MOST_ROWS))].filter(Boolean),
      );
    };
    element.addEventListener("toggle", fill);
    return { element, update: fill };
  };

  R.pointButton = (point) =>
    R.h(
      "button",
      { type: "button", class: "link", "data-point": point.id, onclick: () => R.openPoint(point.id) },
      point.label,
    );

  R.command = (text) => {
    const button = R.h("button", { type: "button" }, "Copy");
    button.addEventListener("click", async () => {
      const done = await copy(text);
      button.textContent = done ? "Copied" : "Select and copy it";
      R.say(done ? "Copied" : "The browser does not let this page copy: select the command");
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    button.setAttribute("aria-label", `Copy the command ${text}`);
    return R.h("div", { class: "command" }, R.h("code", { tabindex: "0" }, text), button);
  };

  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Pages from the disk may have no clipboard of this kind.
      const area = R.h("textarea", { class: "hidden-text", "aria-hidden": "true" }, text);
      (document.querySelector("dialog[open]") ?? document.body).append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  };
})(Report);
