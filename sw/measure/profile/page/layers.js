"use strict";
/* The graph of the layers, and the rows of the table: both select layers. */
(() => {
  const { layers } = views;
  const graph = systola.data("graph");
  const [W, H, DX, DY] = [150, 34, 168, 58];

  // The graph ------------------------------------------------------------------------------------
  const svg = document.getElementById("graph");
  function make(name, facts, parent) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(facts)) element.setAttribute(key, value);
    parent.append(element);
    return element;
  }
  let [low, high] = [Infinity, -Infinity];
  for (const x of [...graph.x, ...graph.edges.flatMap((edge) => edge[2])]) {
    low = Math.min(low, x);
    high = Math.max(high, x);
  }
  const deepest = graph.y.reduce((a, b) => Math.max(a, b), 0);
  const size = [(high - low) * DX + W + 20, deepest * DY + H + 20];
  svg.setAttribute("viewBox", `0 0 ${size[0]} ${size[1]}`);
  svg.setAttribute("width", size[0]);
  svg.setAttribute("height", size[1]);
  const xAt = (x) => (x - low) * DX + W / 2 + 10;
  const yAt = (y) => y * DY + 10;

  const edges = graph.edges.map(([writer, reader, between]) => {
    const points = [[xAt(graph.x[writer]), yAt(graph.y[writer]) + H]];
    between.forEach((x, n) => points.push([xAt(x), yAt(graph.y[writer] + n + 1) + H / 2]));
    points.push([xAt(graph.x[reader]), yAt(graph.y[reader])]);
    let way = `M${points[0]}`;
    for (let n = 1; n < points.length; n += 1) {
      const half = (points[n - 1][1] + points[n][1]) / 2;
      way += `C${points[n - 1][0]},${half} ${points[n][0]},${half} ${points[n]}`;
    }
    return { writer, reader, path: make("path", { d: way }, svg) };
  });
  const most = layers.reduce((a, layer) => Math.max(a, layer.loss), 1);
  const nodes = layers.map((layer, n) => {
    const facts = {
      transform: `translate(${xAt(graph.x[n]) - W / 2},${yAt(graph.y[n])})`,
      role: "button",
      tabindex: n === 0 ? 0 : -1,
      "aria-pressed": "false",
      "aria-label": `${layer.name}: ${layer.loss} of ${layer.cycles} cycles above the bound`,
    };
    const group = make("g", facts, svg);
    const shade = Math.round((75 * layer.loss) / most);
    const rect = make("rect", { width: W, height: H, rx: 4 }, group);
    rect.style.fill = `color-mix(in srgb, var(--bad) ${shade}%, var(--panel))`;
    make("text", { x: W / 2, y: 14 }, group).textContent = short(layer.name);
    make("text", { x: W / 2, y: 27 }, group).textContent =
      `${systola.number(layer.cycles)}, lost ${systola.number(layer.loss)}`;
    make("title", {}, group).textContent = `${layer.name}\n${layer.ops}\n${layer.why}`;
    group.addEventListener("click", () => views.select(n));
    group.addEventListener("keydown", (event) => {
      const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
      if (event.key === "Enter" || event.key === " ") views.select(n);
      else if (by) focusNode(Math.max(0, Math.min(layers.length - 1, n + by)));
      else return;
      event.preventDefault();
    });
    return group;
  });
  function short(name) {
    return name.length > 22 ? `${name.slice(0, 12)}…${name.slice(-8)}` : name;
  }
  function focusNode(n) {
    nodes.forEach((node, k) => node.setAttribute("tabindex", k === n ? 0 : -1));
    nodes[n].focus();
  }

  // The table ------------------------------------------------------------------------------------
  const body = document.querySelector("#layers tbody");
  const rows = new Map([...body.rows].map((row) => [Number(row.dataset.layer), row]));
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (row) views.select(Number(row.dataset.layer));
  });
  body.addEventListener("keydown", (event) => {
    const by = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const next = by && event.target.closest("tr")[by];
    if (!next) return;
    event.preventDefault();
    next.querySelector("button").focus();
  });

  /** Scroll a frame so that `element` is in it, without moving the page. */
  function reveal(frame, element) {
    const [outer, inner] = [frame.getBoundingClientRect(), element.getBoundingClientRect()];
    const down = inner.top < outer.top + 40 || inner.bottom > outer.bottom;
    if (down) frame.scrollTop += inner.top - outer.top - outer.height / 2;
    const aside = inner.left < outer.left || inner.left > outer.right - 40;
    if (aside) frame.scrollLeft += inner.left - outer.left - outer.width / 3;
  }

  views.onSelect((selected) => {
    nodes.forEach((node, n) => node.setAttribute("aria-pressed", String(n === selected)));
    for (const { writer, reader, path } of edges) {
      path.classList.toggle("near", writer === selected || reader === selected);
    }
    for (const [n, row] of rows) {
      row.classList.toggle("selected", n === selected);
      row.querySelector("button").setAttribute("aria-pressed", String(n === selected));
    }
    if (selected === null) return;
    reveal(document.getElementById("graph-frame"), nodes[selected]);
    reveal(document.getElementById("table-frame"), rows.get(selected).querySelector("button"));
  });
})();
