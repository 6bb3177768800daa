"use strict";
/* What the engines do over time, from bins of the run: each pixel shows the sum of its bins. */
(() => {
  const { time, layers, MARGIN } = views;
  const { width: binWidth, count, engines, states } = time;
  const NO_LAYER = 0xffff;
  const ROW = 40;
  const TOP = 34;
  const HEIGHT = TOP + engines.length * ROW + 24;
  const COLOURS = ["series-1", "series-2", "series-6", "series-4", "series-7"];
  const charged = views.unpack(time.charged, 2);
  const owners = time.owners.map((text) => views.unpack(text, 2));
  const IDLE = states.length - 1;

  // sums[engine][state][b]: shares of all bins before b, in 255 parts.
  const sums = time.shares.map((text) => {
    const shares = views.unpack(text, 1);
    return states.map((_, s) => {
      const sum = new Float64Array(count + 1);
      for (let b = 0; b < count; b += 1) sum[b + 1] = sum[b] + shares[b * states.length + s];
      return sum;
    });
  });
  function upTo(sum, bin) {
    const whole = Math.min(count, Math.floor(bin));
    const rest = Math.min(count, bin) - whole;
    return sum[whole] + (rest > 0 ? (sum[whole + 1] - sum[whole]) * rest : 0);
  }
  /** Shares of the states of an engine between two cycles. */
  function between(engine, from, to) {
    const [a, b] = [from / binWidth, to / binWidth];
    const found = sums[engine].map((sum) => upTo(sum, b) - upTo(sum, a));
    const total = found.reduce((x, y) => x + y, 0) || 1;
    return found.map((value) => value / total);
  }
  function binAt(cycle) {
    return Math.max(0, Math.min(count - 1, Math.floor(cycle / binWidth)));
  }

  // The instructions of each engine, by their start.
  const spans = time.spans;
  const firsts = engines.map((_, e) => lowest(spans.engine, e, 0, spans.engine.length));
  firsts.push(spans.engine.length);
  function lowest(sorted, value, low, high) {
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  /** Numbers of the instructions of an engine that may lie between two cycles. */
  function within(engine, from, to) {
    const [first, last] = [firsts[engine], firsts[engine + 1]];
    const begin = Math.max(first, lowest(spans.start, from, first, last) - 1);
    return [begin, lowest(spans.start, to, first, last)];
  }

  /** The longest stretch of cycles that are charged to a layer, or else in which it works. */
  views.setExtent((layer) => {
    for (const row of [charged, ...owners]) {
      let [best, length] = [-1, 0];
      for (let b = 0, run = 0; b < count; b += 1) {
        run = row[b] === layer ? run + 1 : 0;
        if (run > length) [best, length] = [b - run + 1, run];
      }
      if (length) return [best * binWidth, (best + length) * binWidth];
    }
    return null;
  });

  function draw(context, width) {
    const selected = views.selected();
    const text = systola.colour("text");
    const colours = COLOURS.map(systola.colour);
    drawLayers(context, width, selected);
    engines.forEach((name, e) => {
      const top = TOP + e * ROW;
      context.fillStyle = text;
      context.textAlign = "right";
      context.fillText(name, MARGIN - 8, top + ROW / 2);
      drawStates(context, width, e, top + 3, ROW - 12, colours, selected);
      drawSpans(context, width, e, top + ROW - 8, selected);
    });
    context.fillStyle = text;
    context.textAlign = "right";
    context.fillText("charged to", MARGIN - 8, TOP / 2);
    views.axis(context, width, HEIGHT - 20);
  }

  /** The row of layers: stretches of bins with the same layer. */
  function drawLayers(context, width, selected) {
    const [from, to] = views.range();
    let b = binAt(from);
    const last = binAt(to - 1e-9);
    while (b <= last) {
      const layer = charged[b];
      const start = b;
      while (b <= last && charged[b] === layer) b += 1;
      const x = Math.max(MARGIN, views.xOf(start * binWidth, width));
      const size = Math.min(width, views.xOf(b * binWidth, width)) - x;
      context.globalAlpha = selected === null || selected === layer ? 1 : 0.25;
      context.fillStyle = views.layerColour(layer);
      context.fillRect(x, 4, Math.max(0.5, size), TOP - 10);
      if (selected === layer) {
        context.strokeStyle = systola.colour("text");
        context.lineWidth = 2;
        context.strokeRect(x, 4, Math.max(1, size), TOP - 10);
      }
      const name = layers[layer].name;
      if (size > context.measureText(name).width + 6) {
        context.fillStyle = context.globalAlpha < 1 ? systola.colour("text") : "#000";
        context.textAlign = "left";
        context.fillText(name, x + 3, TOP / 2 - 1);
      }
    }
    context.globalAlpha = 1;
  }

  /** A bar of states in each pixel; cycles of other layers than the selected one are pale. */
  function drawStates(context, width, engine, top, height, colours, selected) {
    context.fillStyle = systola.colour("panel");
    context.fillRect(MARGIN, top, width - MARGIN, height);
    const [from, to] = views.range();
    const each = (to - from) / (width - MARGIN);
    for (let x = MARGIN; x < width; x += 1) {
      const start = from + (x - MARGIN) * each;
      const shares = between(engine, start, start + each);
      if (shares[IDLE] > 0.999) continue;
      const layer = owners[engine][binAt(start + each / 2)];
      context.globalAlpha = selected === null || layer === selected ? 1 : 0.25;
      let y = top + height;
      for (let s = 0; s < IDLE; s += 1) {
        const size = shares[s] * height;
        if (size < 0.02) continue;
        context.fillStyle = colours[s];
        context.fillRect(x, y - size, 1, size);
        y -= size;
      }
    }
    context.globalAlpha = 1;
  }

  /** Instructions as a thin row, when there are few enough to tell them apart. */
  function drawSpans(context, width, engine, top, selected) {
    const [from, to] = views.range();
    const [first, last] = within(engine, from, to);
    if (last - first > width) return;
    for (let k = first; k < last; k += 1) {
      const x = Math.max(MARGIN, views.xOf(spans.start[k], width));
      const end = Math.min(width, views.xOf(spans.start[k] + spans.length[k], width));
      if (end < MARGIN || x > width) continue;
      context.globalAlpha = selected === null || spans.layer[k] === selected ? 1 : 0.25;
      context.fillStyle = views.layerColour(spans.layer[k]);
      context.fillRect(x, top, Math.max(0.5, end - x - 0.5), 5);
    }
    context.globalAlpha = 1;
  }

  function hit(x, y) {
    if (x < MARGIN) return null;
    const canvas = document.getElementById("timeline");
    const cycle = views.cycleAt(x, canvas);
    if (y < TOP) {
      const layer = charged[binAt(cycle)];
      const facts = layers[layer];
      return { layer, text: `${facts.name}\n${systola.number(facts.cycles)} cycles are charged to it` };
    }
    const engine = Math.floor((y - TOP) / ROW);
    if (engine >= engines.length) return null;
    const [from, to] = views.range();
    const each = (to - from) / (canvas.clientWidth - MARGIN);
    const start = from + (Math.floor(x) - MARGIN) * each;
    const shares = between(engine, start, start + each);
    const parts = states
      .map((name, s) => [name, shares[s]])
      .filter(([, share]) => share > 0.005)
      .map(([name, share]) => `${name} ${views.percent(share)}`);
    const lines = [`${engines[engine]} at cycle ${systola.number(cycle)}: ${parts.join(", ")}`];
    let layer = owners[engine][binAt(cycle)];
    const [first, last] = within(engine, cycle, cycle + 1);
    for (let k = first; k < last; k += 1) {
      if (spans.start[k] <= cycle && cycle < spans.start[k] + spans.length[k]) {
        layer = spans.layer[k];
        lines.push(`${spans.notes[spans.note[k]]} (${systola.number(spans.length[k])} cycles)`);
      }
    }
    if (layer === NO_LAYER) return { text: lines.join("\n") };
    lines.push(`layer ${layers[layer].name}`);
    return { layer, text: lines.join("\n") };
  }

  views.drawing(document.getElementById("timeline"), HEIGHT, draw, hit);
})();
