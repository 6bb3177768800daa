"use strict";
/* What the views of a profile share: the selected layer, the window of cycles, the tip. */
const views = (() => {
  const layers = systola.data("layers");
  const time = systola.data("time");
  const cycles = time.cycles;
  const SMALLEST = Math.min(16, cycles);
  const MARGIN = 110; // Pixels of the labels left of both drawings over time.
  const selections = [];
  const windows = [];
  let selected = null;
  let range = [0, cycles];

  function select(layer) {
    selected = layer;
    describe();
    selections.forEach((listener) => listener(layer));
  }
  function step(by) {
    const next = selected === null ? (by > 0 ? 0 : layers.length - 1) : selected + by;
    select(Math.max(0, Math.min(layers.length - 1, next)));
  }
  function onSelect(listener) {
    selections.push(listener);
  }

  // The window of cycles -----------------------------------------------------------------------
  function show(from, to) {
    const width = Math.min(cycles, Math.max(SMALLEST, to - from));
    const start = Math.max(0, Math.min(cycles - width, from));
    range = [start, start + width];
    const text = `cycles ${systola.number(range[0])} to ${systola.number(range[1])}`;
    document.getElementById("window").textContent = text;
    windows.forEach((listener) => listener());
  }
  function onWindow(listener) {
    windows.push(listener);
  }
  function zoom(factor, centre = (range[0] + range[1]) / 2) {
    show(centre - (centre - range[0]) * factor, centre + (range[1] - centre) * factor);
  }
  function move(share) {
    const by = (range[1] - range[0]) * share;
    show(range[0] + by, range[1] + by);
  }
  const ACTIONS = {
    in: () => zoom(0.5),
    out: () => zoom(2),
    left: () => move(-0.3),
    right: () => move(0.3),
    whole: () => show(0, cycles),
  };
  const KEYS = {
    "+": ACTIONS.in,
    "=": ACTIONS.in,
    "-": ACTIONS.out,
    ArrowLeft: ACTIONS.left,
    ArrowRight: ACTIONS.right,
    Home: ACTIONS.whole,
    ArrowUp: () => step(-1),
    ArrowDown: () => step(1),
    Enter: () => showSelected(),
    Escape: () => select(null),
  };

  // The layer in the drawing over time: where cycles are charged to it, or else where it works.
  let extent = () => null;
  function showSelected() {
    const found = selected === null ? null : extent(selected);
    if (found) show(found[0] - (found[1] - found[0]) * 0.1, found[1] + (found[1] - found[0]) * 0.1);
  }

  // The details of the selected layer ------------------------------------------------------------
  function describe() {
    const panel = document.getElementById("details");
    panel.replaceChildren();
    if (selected === null) {
      add(panel, "No layer selected. Select one in any view below: it is marked in all of them.");
      return;
    }
    const layer = layers[selected];
    const share = layer.cycles / cycles;
    const used = layer.utilization === null ? "" : `, array ${percent(layer.utilization)}`;
    const line = add(
      panel,
      `${layer.name}: ${systola.number(layer.cycles)} cycles (${percent(share)}), bound ` +
        `${systola.number(layer.least)}${used}, bound by ${layer.bound}; ` +
        `${systola.number(layer.macs)} MACs, ${systola.number(layer.read)} bytes read, ` +
        `${systola.number(layer.written)} written`,
    );
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Zoom to it";
    button.addEventListener("click", showSelected);
    line.append(button);
    add(panel, [layer.ops, layer.module, layer.source].filter(Boolean).join(" · "), "muted");
    add(panel, `Why: ${layer.why}. What would mend it: ${layer.mend}.`);
  }
  function add(panel, text, kind = "") {
    const line = document.createElement("p");
    line.textContent = text;
    line.className = kind;
    panel.append(line);
    return line;
  }
  function percent(share) {
    return `${systola.number(share * 100, 1)}%`;
  }

  // Colours --------------------------------------------------------------------------------------
  let [palette, pale] = [[], []];
  function readPalette() {
    palette = Array.from({ length: 8 }, (_, k) => systola.colour(`series-${k + 1}`));
    // Mixed, not transparent: many small rectangles on one pixel would add up.
    const [back, ...front] = [systola.colour("panel"), ...palette].map((colour) =>
      colour.match(/[\d.]+/g).map(Number),
    );
    pale = front.map((rgb) => `rgb(${rgb.map((n, i) => Math.round(0.2 * n + 0.8 * back[i]))})`);
  }
  readPalette();
  function layerColour(layer) {
    return palette[layer % palette.length];
  }
  function paleColour(layer) {
    return pale[layer % pale.length];
  }

  // The tip under the pointer --------------------------------------------------------------------
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  function showTip(event, text) {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 6);
    const below = event.clientY + 16 + tip.offsetHeight < innerHeight;
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${below ? event.clientY + 16 : event.clientY - tip.offsetHeight - 8}px`;
  }

  // A drawing over time --------------------------------------------------------------------------
  /** draw(context, width): paint. hit(x, y): {text, layer} under the pointer, or null. */
  function drawing(canvas, height, draw, hit) {
    const context = canvas.getContext("2d");
    let drag = null;
    let waiting = false;
    function paint() {
      waiting = false;
      const scale = devicePixelRatio || 1;
      const width = canvas.clientWidth;
      canvas.style.height = `${height}px`;
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.fillStyle = systola.colour("page");
      context.fillRect(0, 0, width, height);
      context.font = "12px system-ui, sans-serif";
      context.textBaseline = "middle";
      draw(context, width);
      if (drag && drag.to !== null) {
        context.globalAlpha = 0.25;
        context.fillStyle = systola.colour("accent");
        context.fillRect(Math.min(drag.from, drag.to), 0, Math.abs(drag.to - drag.from), height);
        context.globalAlpha = 1;
      }
    }
    function repaint() {
      if (!waiting) requestAnimationFrame(paint);
      waiting = true;
    }
    canvas.addEventListener("pointerdown", (event) => {
      drag = { from: event.offsetX, to: null };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (drag && Math.abs(event.offsetX - drag.from) > 4) drag.to = event.offsetX;
      if (drag && drag.to !== null) repaint();
      const found = hit(event.offsetX, event.offsetY);
      showTip(event, found && found.text);
    });
    canvas.addEventListener("pointerup", (event) => {
      const { from, to } = drag || { from: 0, to: null };
      drag = null;
      if (to === null) {
        const found = hit(event.offsetX, event.offsetY);
        select(found && found.layer !== undefined ? found.layer : null);
      } else {
        show(cycleAt(Math.min(from, to), canvas), cycleAt(Math.max(from, to), canvas));
      }
      repaint();
    });
    canvas.addEventListener("pointerleave", (event) => showTip(event, ""));
    canvas.addEventListener("dblclick", ACTIONS.whole);
    canvas.addEventListener(
      "wheel",
      (event) => {
        // Without a key the wheel scrolls the page.
        if (!event.ctrlKey && !event.shiftKey) return;
        event.preventDefault();
        const by = event.deltaY || event.deltaX;
        zoom(by > 0 ? 1.25 : 0.8, cycleAt(event.offsetX, canvas));
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => {
      const action = KEYS[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      action();
    });
    new ResizeObserver(repaint).observe(canvas);
    systola.onTheme(repaint);
    onSelect(repaint);
    onWindow(repaint);
    paint();
  }
  function cycleAt(x, canvas) {
    const share = (x - MARGIN) / Math.max(1, canvas.clientWidth - MARGIN);
    return range[0] + Math.max(0, Math.min(1, share)) * (range[1] - range[0]);
  }
  function xOf(cycle, width) {
    return MARGIN + ((cycle - range[0]) / (range[1] - range[0])) * (width - MARGIN);
  }
  /** Ticks of cycles along the lower edge. */
  function axis(context, width, top) {
    const span = range[1] - range[0];
    const raw = (span / Math.max(1, width - MARGIN)) * 110;
    const power = 10 ** Math.floor(Math.log10(raw));
    const every = Math.max(1, [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw));
    context.fillStyle = systola.colour("muted");
    context.textAlign = "center";
    for (let at = Math.ceil(range[0] / every) * every; at <= range[1]; at += every) {
      const x = xOf(at, width);
      context.fillRect(x, top, 1, 4);
      if (x > MARGIN + 20 && x < width - 25) context.fillText(systola.number(at), x, top + 11);
    }
    context.textAlign = "right";
    context.fillText("cycles", MARGIN - 8, top + 11);
  }
  /** Numbers that came as base64 of little-endian bytes. */
  function unpack(text, bytes) {
    const raw = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return bytes === 2 ? new Uint16Array(raw.buffer) : raw;
  }

  document.querySelectorAll("[data-zoom]").forEach((button) => {
    button.addEventListener("click", ACTIONS[button.dataset.zoom]);
  });
  systola.onTheme(readPalette);
  addEventListener("DOMContentLoaded", () => {
    select(null);
    show(0, cycles);
  });
  return {
    ...{ layers, time, MARGIN, select, step, onSelect, drawing, cycleAt, xOf, axis, unpack },
    ...{ layerColour, paleColour, percent, show, showSelected },
    selected: () => selected,
    range: () => range,
    setExtent: (finder) => {
      extent = finder;
    },
  };
})();
