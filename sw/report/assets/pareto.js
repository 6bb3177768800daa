"use strict";
// Which points no other point beats, and points that lie on each other.
((R) => {
  // The front of [{x, y}], best in both directions: positions, ordered by x. Equal points all count.
  R.front = (rows, xUp, yUp) => {
    const sx = xUp ? -1 : 1;
    const sy = yUp ? -1 : 1;
    const order = rows.map((_, n) => n);
    order.sort((a, b) => sx * (rows[a].x - rows[b].x) || sy * (rows[a].y - rows[b].y));
    const found = [];
    let best = Infinity;
    let last = null;
    for (const n of order) {
      const y = sy * rows[n].y;
      if (y < best || (last !== null && rows[last].x === rows[n].x && rows[last].y === rows[n].y)) {
        found.push(n);
        best = Math.min(best, y);
        last = n;
      }
    }
    return found.sort((a, b) => rows[a].x - rows[b].x);
  };

  // Points at nearly the same place as one mark: {x, y, points}. The mark stands at the first of
  // them. Places are cells of a grid: `cells` across the range of each axis, by its scale.
  R.stacks = (rows, scales, cells) => {
    const found = new Map();
    const cell = ["x", "y"].map((name, n) => {
      const scale = scales[n] ? Math.log : (v) => v;
      const values = rows.map((row) => scale(row[name]));
      const least = values.reduce((a, b) => Math.min(a, b), Infinity);
      const most = values.reduce((a, b) => Math.max(a, b), -Infinity);
      return (row) => Math.round((cells * (scale(row[name]) - least)) / (most - least || 1));
    });
    for (const row of rows) {
      const key = `${cell[0](row)} ${cell[1](row)}`;
      const stack = found.get(key);
      if (stack) stack.points.push(row.point);
      else found.set(key, { x: row.x, y: row.y, points: [row.point] });
    }
    return [...found.values()];
  };
})(Report);
