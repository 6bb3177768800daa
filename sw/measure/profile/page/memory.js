"use strict";
/* What lies where in each memory over time: a rectangle for each life of a tensor or tile. */
(() => {
  const { layers, MARGIN } = views;
  const memories = systola.data("memories");
  const GAP = 10;
  const panels = [];
  let bottom = 4;
  for (const memory of memories) {
    const height = memory.name === "scratchpad" ? 220 : memory.size < 64 ? 40 : 90;
    panels.push({ memory, top: bottom, height, drawn: [] });
    bottom += height + GAP;
  }
  const HEIGHT = bottom + 16;

  function draw(context, width) {
    const selected = views.selected();
    const [from, to] = views.range();
    for (const panel of panels) {
      const { memory, top, height } = panel;
      context.fillStyle = systola.colour("panel");
      context.fillRect(MARGIN, top, width - MARGIN, height);
      label(context, panel);
      panel.drawn = [];
      const perUnit = height / memory.size;
      for (let k = 0; k < memory.start.length; k += 1) {
        const end = memory.start[k] + memory.length[k];
        if (end < from || memory.start[k] > to) continue;
        const x = Math.max(MARGIN, views.xOf(memory.start[k], width));
        const w = Math.max(0.7, Math.min(width, views.xOf(end, width)) - x);
        const h = Math.max(0.7, memory.size_of[k] * perUnit);
        const y = top + height - (memory.low[k] + memory.size_of[k]) * perUnit;
        panel.drawn.push([x, y, w, h, k]);
        const mine = selected === memory.layer[k];
        const colour = selected === null || mine ? views.layerColour : views.paleColour;
        context.fillStyle = colour(memory.layer[k]);
        context.fillRect(x, y, w, h);
        if (w > 3 && h > 3) {
          context.strokeStyle = mine ? systola.colour("text") : systola.colour("page");
          context.lineWidth = mine ? 1.5 : 0.5;
          context.strokeRect(x, y, w, h);
        }
      }
    }
    views.axis(context, width, HEIGHT - 20);
  }

  function label(context, { memory, top, height }) {
    context.textAlign = "right";
    context.fillStyle = systola.colour("text");
    const words = memory.name.split(" ");
    words.forEach((word, n) => {
      context.fillText(word, MARGIN - 8, top + height / 2 + (n - words.length / 2) * 14);
    });
    context.fillStyle = systola.colour("muted");
    const size = `${systola.number(memory.size)} ${memory.unit === "bytes" ? "B" : memory.unit}`;
    context.fillText(size, MARGIN - 8, top + height / 2 + (words.length / 2) * 14);
  }

  function hit(x, y) {
    const panel = panels.find((each) => y >= each.top && y <= each.top + each.height);
    if (!panel) return null;
    // The smallest rectangle under the pointer: others may lie behind it.
    let best = null;
    for (const drawn of panel.drawn) {
      const [left, top, w, h] = drawn;
      const inside = x >= left - 1 && x <= left + w + 1 && y >= top - 1 && y <= top + h + 1;
      if (inside && (!best || w * h < best[2] * best[3])) best = drawn;
    }
    if (!best) return null;
    const { memory } = panel;
    const k = best[4];
    const low = memory.low[k];
    const times = memory.count[k] > 1 ? `, ${systola.number(memory.count[k])} times` : "";
    const layer = memory.layer[k];
    const text =
      `${memory.names[memory.name_of[k]]}${times}\nlayer ${layers[layer].name}\n` +
      `0x${low.toString(16)} to 0x${(low + memory.size_of[k]).toString(16)}: ` +
      `${systola.number(memory.size_of[k])} ${memory.unit}\n` +
      `cycles ${systola.number(memory.start[k])} to ` +
      `${systola.number(memory.start[k] + memory.length[k])}`;
    return { layer, text };
  }

  views.drawing(document.getElementById("memory"), HEIGHT, draw, hit);
})();
