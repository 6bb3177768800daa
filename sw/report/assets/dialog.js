"use strict";
// The details of a point, and the choice between points at one place. The browser's own modal
// dialog keeps the focus inside and closes with Escape.
((R) => {
  const dialog = () => document.getElementById("detail");
  let opener = null;

  const show = (title, ...children) => {
    const box = dialog();
    const close = R.h("button", { type: "button", class: "close", onclick: () => box.close() }, "Close");
    box.replaceChildren(
      R.h("div", { class: "dialog-head" }, R.h("h2", { id: "detail-title", tabindex: "-1" }, title), close),
      R.h("div", { class: "dialog-body" }, children),
    );
    if (!box.open) {
      opener = document.activeElement;
      box.showModal();
    }
    box.scrollTop = 0;
    close.focus();
  };

  R.startDialog = () => {
    const box = dialog();
    box.addEventListener("close", () => {
      box.replaceChildren();
      // A table that was drawn anew has another button for the same point.
      const id = opener?.dataset?.point;
      const same = id ? document.querySelector(`main button[data-point="${CSS.escape(id)}"]`) : null;
      (opener?.isConnected ? opener : same)?.focus();
      opener = null;
    });
    box.addEventListener("click", (event) => {
      if (event.target === box) box.close();
    });
  };

  // One point: its details. Several at one place of a figure: which one is meant.
  R.openPoints = (points) => {
    if (points.length === 1) {
      R.openPoint(points[0].id);
      return;
    }
    const items = points.map((point) => R.h("li", {}, R.pointButton(point)));
    show(`${R.count(points.length, "point")} at this place`, R.h("ul", {}, items));
  };

  R.openPoint = (id) => {
    const point = R.byId.get(id);
    if (!point) return;
    R.set({ selected: id });
    show(
      point.label,
      point.reason ? R.h("p", { class: "bad" }, `Illegal: ${point.reason}`) : null,
      ...(point.notes ?? []).map((note) => R.h("p", { class: "bad note" }, note)),
      ...(point.reason ? [] : [figures(point), measurements(point), configuration(point)]),
      files(point),
    );
  };

  const figures = (point) => {
    const rows = R.data.objectives
      .filter((o) => !o.each && R.value(point, o.key) !== null)
      .map((o) => [o.label, `${R.show(R.value(point, o.key))} ${o.unit}`]);
    if (point.critical_ns) rows.push(["longest path", `${R.show(point.critical_ns)} ns`]);
    if (point.sram_bits) rows.push(["memories", `${R.show(point.sram_bits)} bits`]);
    for (const [name, value] of Object.entries(point.synth ?? {})) {
      rows.push([`synthesis: ${name}`, typeof value === "number" ? R.show(value) : String(value)]);
    }
    return part("Hardware", R.table(`Hardware of ${point.label}`, ["figure", "value"], rows));
  };

  const measurements = (point) => {
    const columns = ["workload", "status", "cycles", "inferences/s", "inferences/J", "DRAM bytes",
      "utilization", "predicted"];
    const rows = point.measurements.map((m) => {
      const w = R.data.workloads.indexOf(m.workload);
      const cell = (key) => (R.value(point, key, w) === null ? "–" : R.figureText(point, key, w));
      return [m.workload, status(m), cell("cycles"), cell("rate"), cell("efficiency"), cell("dram"),
        cell("utilization"), prediction(m)];
    });
    const more = point.measurements.filter((m) => m.message || m.mismatch);
    return part(
      "Measurements",
      R.table(`Measurements of ${point.label}`, columns, rows),
      ...more.map((m) => R.h("div", {}, R.h("h4", {}, m.workload), R.trouble(m))),
      R.h("h4", {}, "Repeat"),
      ...point.measurements.filter((m) => m.command).map((m) => R.command(m.command)),
      point.command ? R.command(point.command) : null,
    );
  };

  const status = (m) => (m.quarantine ? `${m.status}, quarantined: ${m.quarantine}` : m.status);

  const prediction = (m) => {
    if (m.predicted) {
      const error = m.error_pct === undefined ? "" : ` ±${R.show(m.error_pct)}%`;
      return `by the compiler's model${error}`;
    }
    if (!m.predicted_cycles || !m.cycles) return "–";
    const off = (100 * (m.predicted_cycles - m.cycles)) / m.cycles;
    return `${R.show(m.predicted_cycles)} (${off < 0 ? "−" : "+"}${R.show(Math.abs(off))}%)`;
  };

  // What a run that is not good says: its message, and where RTL and golden model first differ.
  R.trouble = (found) => {
    const parts = [];
    if (found.message) parts.push(R.h("pre", { tabindex: "0" }, found.message));
    const m = found.mismatch;
    if (m) {
      const rows = [["layer", m.layer], ["instruction", m.instruction], ["text", m.text],
        ["element", m.element], ["expected", m.expected], ["got", m.got]]
        .filter(([, value]) => value !== undefined && value !== "")
        .map(([name, value]) => [name, String(value)]);
      parts.push(R.table("First difference", ["first difference", ""], rows));
    }
    return R.h("div", {}, parts);
  };

  const configuration = (point) => {
    const base = R.data.bases[point.base] ?? {};
    const rows = Object.entries(R.config(point)).map(([field, value]) => {
      const changed = field in point.changes;
      const name = changed ? R.h("strong", {}, field) : field;
      return [name, String(value), changed ? `changed from ${base[field]}` : ""];
    });
    const count = Object.keys(point.changes).length;
    return part(
      "Configuration",
      R.h("p", {}, `${R.count(count, "field")} changed against ${point.base}. Digest ${point.digest}.`),
      R.table(`Configuration of ${point.label}`, ["field", "value", `against ${point.base}`], rows),
    );
  };

  const files = (point) => {
    if (!point.files) return null;
    const links = point.files.map((f) => R.h("li", {}, R.h("a", { href: f.href }, f.label)));
    return part("Files", R.h("ul", {}, links));
  };

  const part = (title, ...children) => R.h("section", {}, R.h("h3", {}, title), children);
})(Report);
