"use strict";
// The colours of the theme as Plotly and canvases take them.
((R) => {
  const NAMES = ["page", "panel", "text", "muted", "line", "accent", "good", "bad", "dim"];

  R.colours = () => {
    const found = Object.fromEntries(NAMES.map((name) => [name, systola.colour(name)]));
    found.series = Array.from({ length: 8 }, (_, n) => systola.colour(`series-${n + 1}`));
    return found;
  };
  systola.onTheme(() => R.refresh(["theme"]));
})(Report);
