"use strict";
// The data, what the user chose, numbers as text, and elements. Every other file uses this one.
const Report = (() => {
  const R = {};
  const listeners = [];
  let cache = {};
  let pending = null;

  R.state = {
    workload: 0, // position in data.workloads; the last one is the mean
    text: "",
    brushes: {}, // axis -> [least, most]
    selected: "", // id of a point
  };

  R.load = (data) => {
    R.data = data;
    R.mean = data.workloads.length - 1;
    R.objectives = new Map(data.objectives.map((o) => [o.key, o]));
    R.byId = new Map(data.points.map((p) => [p.id, p]));
    for (const point of data.points) {
      point.changes ??= {};
      point.measurements ??= [];
      point.words = searchable(point);
    }
    cache = {};
  };

  const searchable = (point) =>
    [
      point.label,
      point.digest,
      point.reason,
      ...Object.entries(point.changes).map(([field, value]) => `${field}=${value}`),
      ...point.measurements.map((m) => `${m.workload} ${m.status} ${m.quarantine ?? ""}`),
      ...(point.notes ?? []),
    ]
      .join(" ")
      .toLowerCase();

  // A figure of a point: of one workload, of the mean of all, or of the point itself; or null.
  R.value = (point, key, workload = R.state.workload) => {
    const found = point.values[key];
    return (Array.isArray(found) ? found[workload] : found) ?? null;
  };

  R.isPredicted = (point, key, workload = R.state.workload) =>
    Boolean(R.objectives.get(key)?.each && point.predicted?.[workload]);

  R.measured = (point, workload = R.state.workload) =>
    point.measurements.find((m) => m.workload === R.data.workloads[workload]) ?? null;

  R.config = (point) => ({ ...R.data.bases[point.base], ...point.changes });

  // What the text and the brushes leave of the legal points.
  R.visible = () => (cache.visible ??= R.filtered().filter((p) => !p.reason));

  R.filtered = () =>
    (cache.filtered ??= R.data.points.filter(
      (p) => R.matches(p) && (p.reason ? !R.isBrushed() : R.inBrushes(p)),
    ));

  R.matches = (point) =>
    R.state.text
      .toLowerCase()
      .split(/\s+/)
      .every((word) => point.words.includes(word));

  R.isBrushed = () => Object.keys(R.state.brushes).length > 0;

  R.inBrushes = (point) =>
    Object.entries(R.state.brushes).every(([axis, [least, most]]) => {
      const value = R.axisValue(point, axis);
      return value !== null && value >= least && value <= most;
    });

  // An axis of the parallel coordinates: an objective, or `field:rows`.
  R.axisValue = (point, axis) => {
    if (!axis.startsWith("field:")) return R.value(point, axis);
    const field = axis.slice(6);
    const value = point.changes[field] ?? R.data.bases[point.base]?.[field];
    return value === undefined ? null : Number(value);
  };

  R.onChange = (listener) => listeners.push(listener);

  // Change what the user chose; everything that depends on it is drawn before the next frame.
  R.set = (changes) => {
    Object.assign(R.state, changes);
    R.refresh(Object.keys(changes));
  };

  R.refresh = (names) => {
    cache = {};
    if (pending) {
      names.forEach((name) => pending.add(name));
      return;
    }
    pending = new Set(names);
    setTimeout(() => {
      const changed = pending;
      pending = null;
      for (const listener of listeners) listener(changed);
    }, 0);
  };

  R.say = (text) => {
    document.getElementById("spoken").textContent = text;
  };

  // Numbers: as sw/report/numbers.py writes them.
  R.show = (value) => {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (Number.isInteger(value) && size < 1e15) return commas(value);
    if (size >= 100) return commas(Math.floor(value + 0.5));
    let digits = size >= 10 ? 1 : 2;
    while (digits < 9 && size * 10 ** (digits - 2) < 1) digits += 1;
    const scale = 10 ** digits;
    return (Math.floor(value * scale + 0.5) / scale).toFixed(digits);
  };

  const commas = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ",");

  // `≈1,234 cycles`: the mark says that the cycles behind it are predicted.
  R.figureText = (point, key, workload = R.state.workload) => {
    const value = R.value(point, key, workload);
    const mark = value !== null && R.isPredicted(point, key, workload) ? "≈" : "";
    return `${mark}${R.show(value)} ${R.objectives.get(key).unit}`;
  };

  R.count = (n, what) => `${R.show(n)} ${what}${n === 1 ? "" : "s"}`;

  // h("p", {class: "x", onclick: f}, "text", child): an element; texts are never read as HTML.
  R.h = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name in element && typeof value !== "string") element[name] = value;
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return element;
  };

  R.select = (label, options, value, onpick) => {
    const list = R.h(
      "select",
      { onchange: (event) => onpick(event.target.value) },
      options.map(([key, text]) => R.h("option", { value: key }, text)),
    );
    list.value = value;
    return R.h("label", { class: "field" }, R.h("span", {}, label), list);
  };

  // Text for Plotly, which reads some HTML in labels.
  R.plain = (text) =>
    String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  return R;
})();
if (typeof module !== "undefined") module.exports = Report;
