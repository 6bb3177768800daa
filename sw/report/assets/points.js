"use strict";
// The table of points: sorted by any column, a hundred rows a page.
((R) => {
  const PAGE = 100;
  const sort = { key: "", down: false };
  let page = 0;

  const columns = () => {
    const objectives = R.data.objectives.filter((o) => R.data.points.some((p) => p.values[o.key] !== undefined));
    return [
      { key: "label", text: "point", value: (p) => p.label },
      { key: "status", text: "status", value: status },
      ...objectives.map((o) => ({
        key: o.key,
        text: o.label.includes(o.unit) ? o.label : `${o.label}, ${o.unit}`,
        number: true,
        up: o.up,
        value: (p) => R.value(p, o.key),
        cell: (p) => cell(p, o.key),
      })),
    ];
  };

  const cell = (point, key) => {
    const value = R.value(point, key);
    if (value === null || !R.isPredicted(point, key)) return R.show(value);
    const error = R.measured(point)?.error_pct;
    return `≈${R.show(value)}${error === undefined ? "" : ` ±${R.show(error)}%`}`;
  };

  const status = (point) => {
    if (point.reason) return `illegal: ${point.reason}`;
    const bad = point.measurements.find((m) => m.status !== "passed");
    if (bad) return `${bad.status}: ${bad.workload}${bad.quarantine ? " (quarantined)" : ""}`;
    return point.notes?.[0] ?? (point.measurements.length ? "passed" : "–");
  };

  const ordered = () => {
    const column = columns().find((c) => c.key === sort.key);
    const rows = R.filtered();
    if (!column) return rows;
    const sign = sort.down ? -1 : 1;
    const keyed = rows.map((point) => [column.value(point), point]);
    keyed.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
    });
    return keyed.map(([, point]) => point);
  };

  R.startPoints = () => {
    const host = document.getElementById("points");
    const head = R.h("tr", {});
    const body = R.h("tbody", {});
    const note = R.h("p", { class: "muted", role: "status" });
    const caption = R.h("caption", { class: "hidden-text" }, "Points, as filtered above");
    const turn = (step) => () => {
      page += step;
      update();
    };
    const back = R.h("button", { type: "button", onclick: turn(-1) }, "Previous page");
    const on = R.h("button", { type: "button", onclick: turn(1) }, "Next page");
    const table = R.h("table", { id: "points-table" }, caption, R.h("thead", {}, head), body);
    host.append(
      note,
      R.h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Table of points" }, table),
      R.h("div", { class: "buttons" }, back, on),
    );

    const heads = () => {
      const found = columns().map((column) => {
        const button = R.h("button", { type: "button", class: "sort" }, column.text);
        button.addEventListener("click", () => {
          const again = sort.key === column.key;
          sort.down = again ? !sort.down : Boolean(column.up);
          sort.key = column.key;
          page = 0;
          update();
          R.say(`Sorted by ${column.text}, ${sort.down ? "descending" : "ascending"}`);
        });
        return R.h("th", { scope: "col", class: column.number ? "number" : null, "data-key": column.key }, button);
      });
      head.replaceChildren(...found);
    };

    // The rows stay as they are: the focus may be in one of them.
    const mark = () => {
      for (const row of body.rows) row.classList.toggle("selected", row.dataset.id === R.state.selected);
    };

    const update = () => {
      const rows = ordered();
      const shown = columns();
      const pages = Math.max(1, Math.ceil(rows.length / PAGE));
      page = Math.min(Math.max(0, page), pages - 1);
      for (const th of head.children) {
        if (th.dataset.key === sort.key) th.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
        else th.removeAttribute("aria-sort");
      }
      body.replaceChildren(
        ...rows.slice(page * PAGE, (page + 1) * PAGE).map((point) => {
          const cells = shown.slice(1).map((c) =>
            R.h("td", { class: c.number ? "number" : "status" }, c.cell ? c.cell(point) : c.value(point)),
          );
          return R.h("tr", { "data-id": point.id },
            R.h("th", { scope: "row" }, R.pointButton(point)), cells);
        }),
      );
      mark();
      back.disabled = page === 0;
      on.disabled = page >= pages - 1;
      const which = pages > 1 ? ` Page ${page + 1} of ${R.show(pages)}.` : "";
      note.textContent = `${R.show(rows.length)} of ${R.count(R.data.points.length, "point")}.${which} ≈ marks what the compiler's model predicts.`;
    };

    R.onChange((changed) => {
      if (["text", "brushes"].some((name) => changed.has(name))) page = 0;
      if (changed.has("data")) heads();
      if (["text", "brushes", "workload", "data"].some((name) => changed.has(name))) update();
      else if (changed.has("selected")) mark();
    });
    heads();
    update();
  };
})(Report);
