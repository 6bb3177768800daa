"use strict";
// A figure by Plotly with what belongs to it: a name, a text for screen readers, a table, buttons.
((R) => {
  const CONFIG = { displayModeBar: false, scrollZoom: false, doubleClick: "reset" };

  // parts: {id, title, controls, describe(), draw(colours) -> {data, layout}, table(), click(points)}
  // draw gives null where there is nothing to show; `empty` then says why.
  R.figure = (parts) => {
    const plot = R.h("div", { class: "plot", id: parts.id, role: "img" });
    const nothing = R.h("p", { class: "nothing", hidden: true });
    const reset = R.h("button", { type: "button" }, "Reset view");
    const save = R.h("button", { type: "button" }, "Save as SVG");
    const alternative = R.alternative(() => parts.title(), parts.table);
    const caption = R.h("figcaption", {});
    const buttons = R.h("div", { class: "buttons" }, reset, save);
    const element = R.h("figure", { class: parts.wide ? "wide" : null }, caption,
      R.h("div", { class: "controls" }, parts.controls ?? []), plot, nothing, buttons,
      alternative.element);
    let view = 0;
    let listening = false;

    const draw = () => {
      caption.textContent = parts.title();
      reset.setAttribute("aria-label", `Reset the view of: ${parts.title()}`);
      save.setAttribute("aria-label", `Save as SVG: ${parts.title()}`);
      const colours = R.colours();
      const drawn = parts.draw(colours);
      plot.hidden = buttons.hidden = alternative.element.hidden = !drawn;
      nothing.hidden = Boolean(drawn);
      if (!drawn) {
        nothing.textContent = parts.empty;
        return;
      }
      plot.setAttribute("aria-label", parts.describe());
      alternative.update();
      const layout = { ...base(colours), uirevision: view, ...drawn.layout };
      for (const name of ["xaxis", "yaxis"]) {
        if (layout[name]) layout[name] = { ...axis(colours), ...layout[name] };
      }
      Plotly.react(plot, drawn.data, layout, CONFIG);
      if (!listening && parts.click) {
        plot.on("plotly_click", (event) => parts.click(event.points[0]));
        listening = true;
      }
    };
    const update = R.lazy(element, draw);
    reset.addEventListener("click", () => {
      view += 1;
      update();
    });
    save.addEventListener("click", () =>
      Plotly.downloadImage(plot, { format: "svg", filename: parts.id, width: 960, height: 600 }),
    );
    new ResizeObserver(() => {
      if (plot.classList.contains("js-plotly-plot") && !plot.hidden) Plotly.Plots.resize(plot);
    }).observe(plot);
    return { element, update, plot };
  };

  const base = (c) => ({
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: c.text, family: "system-ui, sans-serif", size: 13 },
    margin: { l: 70, r: 20, t: 12, b: 55 },
    height: 420,
    hovermode: "closest",
    hoverlabel: { bgcolor: c.panel, bordercolor: c.line, font: { color: c.text }, align: "left",
      namelength: -1 },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    colorway: c.series,
  });

  const axis = (c) => ({
    gridcolor: c.line,
    linecolor: c.muted,
    zerolinecolor: c.line,
    automargin: true,
    exponentformat: "SI",
  });

  // A function that draws `element` anew: at once where it is in sight, else when it comes near.
  // Pages of ten thousand points thus draw only what is looked at.
  R.lazy = (element, draw) => {
    let isNear = false;
    let isStale = false;
    const update = () => {
      isStale = !isNear;
      if (isNear) draw();
    };
    const watcher = new IntersectionObserver(
      (entries) => {
        isNear = entries.at(-1).isIntersecting;
        if (isNear && isStale) update();
      },
      { rootMargin: "300px" },
    );
    watcher.observe(element);
    addEventListener("beforeprint", () => {
      if (isStale) draw();
    });
    return update;
  };

  // WebGL draws many points faster, where the browser has it.
  R.hasWebgl = () => {
    R.webgl ??= (() => {
      try {
        const context = document.createElement("canvas").getContext("webgl");
        context?.getExtension("WEBGL_lose_context")?.loseContext();
        return Boolean(context);
      } catch {
        return false;
      }
    })();
    return R.webgl;
  };
})(Report);
