// SPDX-License-Identifier: MIT
// Shows the data of the page. Text of the data reaches the document as text nodes and attributes alone.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const launches = data.launches;
  const run = data.run;
  const at = (id) => document.getElementById(id);

  function add(parent, tag, attributes = {}, text) {
    const drawn = ["svg", "g", "rect", "circle", "line", "path", "text", "title"];
    const node = drawn.includes(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag)
                                     : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  }

  // Numbers as text.
  const scaled = (x, base, units) => {
    let i = 0;
    while (Math.abs(x) >= base && i + 1 < units.length) { x /= base; ++i; }
    return `${i === 0 ? +x.toPrecision(4) : x.toFixed(x < 10 ? 2 : 1)} ${units[i]}`;
  };
  const unknown = (x) => x === null || x === undefined;
  const milliseconds = (x) => unknown(x) ? "" : `${x.toFixed(x >= 100 ? 1 : x >= 1 ? 3 : 4)} ms`;
  const bytes = (x) => unknown(x) ? "unknown" : scaled(x, 1024, ["B", "KiB", "MiB", "GiB"]);
  const operations = (x) => unknown(x) ? "unknown" : scaled(x, 1000, ["op", "kop", "Mop", "Gop", "Top"]);
  const perSecond = (x, unit) => scaled(x, 1000, [unit, `k${unit}`, `M${unit}`, `G${unit}`, `T${unit}`].map((u) => `${u}/s`));
  // Of any number of values: they do not fit into the arguments of a call.
  const largest = (values, least = -Infinity) => values.reduce((a, b) => Math.max(a, b), least);
  const smallest = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
  const percent = (x) => `${(100 * x).toFixed(1)} %`;
  const rate = (l) => l.ms > 0 && l.operations > 0 ? l.operations * l.calls / l.ms * 1e3 : 0;
  const intensity = (l) => l.operations > 0 && l.bytes > 0 ? l.operations / l.bytes : 0;

  // The selected launch, and who shows it.
  let chosen = -1;
  const watchers = [];
  function choose(i) {
    if (i < 0 || i >= launches.length) return;
    chosen = i;
    for (const watcher of watchers) watcher(i);
  }

  // Steps through a list of launches by keys.
  function keys(element, step) {
    element.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (step(event.key)) event.preventDefault();
    });
  }
  function stepper(order, key, back, forward) {
    const now = order.indexOf(chosen);
    const next = key === "Home" ? 0 : key === "End" ? order.length - 1
      : key === forward ? Math.min(now + 1, order.length - 1) : key === back ? Math.max(now - 1, 0) : -1;
    if (next < 0 || order.length === 0) return false;
    choose(order[next]);
    return true;
  }

  function showFigures() {
    at("model").textContent = data.model.slice(data.model.lastIndexOf("/") + 1);
    at("model").title = data.model;
    document.title = `${data.model} - lathe explain`;
    at("machine").textContent = [`Target ${data.target}`, data.processor,
      run ? `${run.threads} ${run.threads === 1 ? "thread" : "threads"}` : "", ...(run ? run.inputs : [])]
      .filter((text) => text).join(" \u00b7 ");
    const figure = (name, text, key, value) => {
      const box = add(at("figures"), "div");
      add(box, "dt", {}, name);
      add(box, "dd", { "data-figure": key, "data-value": value }, text);
    };
    const kernels = launches.filter((l) => l.work !== "view").length;
    figure("Kernels launched", `${kernels}`, "kernels", kernels);
    figure("Views, which move nothing", `${launches.length - kernels}`, "views", launches.length - kernels);
    if (!run) return;
    figure("Time of the run", milliseconds(run.ms), "ms", run.ms);
    figure("Between launches", percent(run.between_ms / run.ms), "between", run.between_ms / run.ms);
    const sum = (key) => launches.reduce((total, l) => total + (l[key] ?? 0) * l.calls, 0);
    figure("Read and written", bytes(sum("bytes")), "bytes", sum("bytes"));
    figure("Operations", operations(sum("operations")), "operations", sum("operations"));
    figure("Memory", perSecond(run.bytes_per_second, "B"), "bandwidth", run.bytes_per_second);
    for (const roof of run.roofs) {
      figure(`Products in ${roof.compute}`, perSecond(roof.operations_per_second, "op"),
        `roof-${roof.compute}`, roof.operations_per_second);
    }
  }

  function showSelected() {
    const box = at("selected");
    box.replaceChildren();
    if (chosen < 0) {
      add(box, "h3", {}, "No launch is selected");
      add(box, "p", { class: "note" }, "Click on one, or press Tab and the arrow keys. Keys: / filters, t changes the theme.");
      return;
    }
    const l = launches[chosen];
    add(box, "h3", {}, l.name);
    const list = add(box, "dl");
    const fact = (name, text) => {
      if (!text) return;
      add(list, "dt", {}, name);
      add(list, "dd", {}, text);
    };
    fact("Kernel", l.kernel);
    fact("Result", l.result);
    fact("Detail", l.detail);
    fact("Because", l.reason);
    fact("Computes in", l.compute);
    fact("As", l.compute_refusal);
    if (run) {
      fact("Time", `${milliseconds(l.ms)}, ${percent(l.ms / run.ms)} of the run`);
      fact("Calls", `${l.calls}`);
    }
    fact("Bytes", bytes(l.bytes));
    fact("Operations", operations(l.operations));
    if (intensity(l) > 0) fact("Per byte", `${intensity(l).toPrecision(3)} operations`);
    if (run && rate(l) > 0) fact("Speed", perSecond(rate(l), "op"));
    if (run && l.bytes > 0 && l.ms > 0) fact("Moves", perSecond(l.bytes * l.calls / l.ms * 1e3, "B"));
    fact("Reads inputs", l.reads.join(", "));
    fact("Writes outputs", l.writes.join(", "));
    if (l.steps) {
      const steps = add(box, "ol");
      for (const step of l.steps) add(steps, "li", {}, step);
    }
  }

  function showTimeline() {
    const svg = at("timeline");
    if (!run || run.events.length === 0) {
      at("run").remove();
      return;
    }
    const order = [...new Set(run.events.map((event) => event.launch))].filter((launch) => launch !== null);
    const kMost = 10000;
    let events = run.events;
    if (events.length > kMost) {
      const kept = new Set(events.map((event, i) => i).sort((a, b) => events[b].ms - events[a].ms || a - b).slice(0, kMost));
      events = events.filter((event, i) => kept.has(i));
      at("left-out").textContent = `Only the ${kMost} longest of ${run.events.length} events are drawn; the figures count all.`;
      at("left-out").hidden = false;
    }
    const depth = largest(events.map((event) => event.depth));
    let zoom = 1;
    const bars = new Map();
    const draw = () => {
      svg.replaceChildren();
      bars.clear();
      const width = Math.max(svg.parentElement.clientWidth, 300) * zoom;
      const end = largest(run.events.map((event) => event.start_ms + event.ms), run.ms);
      const span = width - 64;
      const x = (ms) => 8 + ms / end * span;
      svg.style.width = `${width}px`;
      svg.style.height = `${64 + 24 * (depth + 1)}px`;
      const exponent = 10 ** Math.floor(Math.log10(end / (width / 90)));
      const tick = [1, 2, 5, 10].map((m) => m * exponent).find((t) => t * (width / end) >= 70) ?? 10 * exponent;
      for (let t = 0; t <= end; t += tick) {
        add(svg, "line", { x1: x(t), x2: x(t), y1: 20, y2: 44 + 24 * (depth + 1), class: "grid" });
        add(svg, "text", { x: x(t) + 3, y: 16, class: "quiet" }, `${+t.toPrecision(6)} ms`);
      }
      for (const event of events) {
        const l = event.launch === null ? null : launches[event.launch];
        const bar = add(svg, "rect", { x: x(event.start_ms), y: 30 + 24 * event.depth, height: 22,
          width: Math.max(event.ms / end * span, 0.7), class: l ? l.work : "other" });
        add(bar, "title", {}, `${l ? l.name : event.name}: ${milliseconds(event.ms)}`);
        if (event.launch === null) continue;
        if (!bars.has(event.launch)) bars.set(event.launch, bar);
        bar.addEventListener("click", () => choose(event.launch));
      }
      mark(chosen);
    };
    const mark = (i) => {
      for (const [launch, bar] of bars) bar.classList.toggle("chosen", launch === i);
      const bar = bars.get(i);
      const area = svg.parentElement;
      if (bar && zoom > 1) area.scrollLeft = bar.getAttribute("x") - area.clientWidth / 2;
    };
    keys(svg, (key) => {
      if (key === "+" || key === "=") zoom = Math.min(zoom * 2, 64);
      else if (key === "-") zoom = Math.max(zoom / 2, 1);
      else if (key === "0") zoom = 1;
      else return stepper(order, key, "ArrowLeft", "ArrowRight");
      draw();
      return true;
    });
    watchers.push(mark);
    addEventListener("resize", draw);
    draw();
    const sums = new Map();
    for (const l of launches) sums.set(l.work, (sums.get(l.work) ?? 0) + (l.ms ?? 0));
    for (const [work, sum] of [...sums].sort((a, b) => b[1] - a[1])) {
      const item = add(at("legend"), "li", { "data-work": work, "data-value": sum });
      add(add(item, "svg", { width: 12, height: 12 }), "rect", { width: 12, height: 12, rx: 2, class: work });
      item.append(` ${work} ${percent(sum / run.ms)}`);
    }
  }

  function showRoofline() {
    const svg = at("roofs");
    const points = launches.map((l, i) => ({ l, i, x: intensity(l), y: rate(l) })).filter((p) => p.x > 0 && p.y > 0);
    if (!run || points.length === 0) {
      at("roofline").remove();
      return;
    }
    points.sort((a, b) => a.x - b.x);
    const peak = largest(run.roofs.map((roof) => roof.operations_per_second));
    const low = (values) => Math.floor(Math.log10(smallest(values)));
    const high = (values) => Math.ceil(Math.log10(largest(values)));
    const xs = points.map((p) => p.x).concat(2 * peak / run.bytes_per_second);
    const ys = points.map((p) => p.y).concat(peak);
    const [x0, x1, y0, y1] = [low(xs), high(xs), Math.max(low(ys), high(ys) - 6), high(ys)];
    const width = 900, height = 460, left = 84, right = 20, top = 16, bottom = 44;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const x = (v) => left + (Math.log10(v) - x0) / (x1 - x0) * (width - left - right);
    const y = (v) => height - bottom - (Math.log10(v) - y0) / (y1 - y0) * (height - top - bottom);
    for (let e = x0; e <= x1; ++e) {
      add(svg, "line", { x1: x(10 ** e), x2: x(10 ** e), y1: top, y2: height - bottom, class: "grid" });
      add(svg, "text", { x: x(10 ** e), y: height - bottom + 16, "text-anchor": "middle", class: "quiet" }, `${+(10 ** e).toPrecision(1)}`);
    }
    for (let e = y0; e <= y1; ++e) {
      add(svg, "line", { x1: left, x2: width - right, y1: y(10 ** e), y2: y(10 ** e), class: "grid" });
      add(svg, "text", { x: left - 6, y: y(10 ** e) + 4, "text-anchor": "end", class: "quiet" }, perSecond(1.0001 * 10 ** e, "op").replace(/[.]0+ /, " "));
    }
    add(svg, "text", { x: (left + width) / 2, y: height - 8, "text-anchor": "middle", class: "quiet" }, "operations per byte");
    for (const roof of run.roofs) {
      const most = roof.operations_per_second, bandwidth = run.bytes_per_second;
      const from = Math.max(10 ** x0, 10 ** y0 / bandwidth), ridge = most / bandwidth;
      add(svg, "path", { class: "roof", d: `M${x(from)} ${y(from * bandwidth)}L${x(ridge)} ${y(most)}L${x(10 ** x1)} ${y(most)}` });
      add(svg, "text", { x: width - right - 4, y: y(most) - 5, "text-anchor": "end" }, `${roof.compute} ${perSecond(most, "op")}`);
    }
    const circles = new Map();
    for (const p of [...points].sort((a, b) => b.l.ms - a.l.ms)) {
      const circle = add(svg, "circle", { cx: x(p.x), cy: Math.min(y(p.y), height - bottom), class: p.l.work,
        r: Math.max(3, 40 * Math.sqrt(p.l.ms / run.ms)), "data-launch": p.i, "data-x": p.x, "data-y": p.y });
      add(circle, "title", {}, `${p.l.name}: ${perSecond(p.y, "op")} at ${p.x.toPrecision(3)} operations per byte`);
      circle.addEventListener("click", () => choose(p.i));
      circles.set(p.i, circle);
    }
    watchers.push((i) => {
      for (const [launch, circle] of circles) circle.classList.toggle("chosen", launch === i);
    });
    const order = points.map((p) => p.i);
    keys(svg, (key) => stepper(order, key, "ArrowLeft", "ArrowRight"));
  }

  // The nodes to draw with their predecessors; a hidden view stands for what it views.
  function visibleNodes(views) {
    const kMost = 2000;
    const shown = launches.map((l) => views || l.work !== "view");
    const sources = [];
    launches.forEach((l, i) => {
      const before = new Set();
      for (const j of l.after) {
        if (shown[j]) before.add(`l${j}`);
        else for (const key of sources[j] ?? []) before.add(key);
      }
      for (const name of l.reads) before.add(`i${l.module}/${name}`);
      sources[i] = before;
    });
    const nodes = new Map();
    let count = 0;
    launches.forEach((l, i) => {
      if (shown[i] && count++ < kMost) {
        for (const key of sources[i]) {
          if (key[0] === "i" && !nodes.has(key)) nodes.set(key, { key, lines: [key.slice(key.indexOf("/") + 1)], before: [] });
        }
        const lines = (l.op.length > 0 && l.steps ? l.op.split("+") : [l.op]);
        nodes.set(`l${i}`, { key: `l${i}`, launch: i, lines: lines.length > 6 ? [...lines.slice(0, 5), `and ${lines.length - 5} more`] : lines,
          before: [...sources[i]].filter((key) => nodes.has(key)) });
      }
      for (const name of l.writes) {
        const from = shown[i] ? [`l${i}`] : [...sources[i]];
        nodes.set(`o${l.module}/${name}`, { key: `o${l.module}/${name}`, lines: [name], before: from.filter((key) => nodes.has(key)) });
      }
    });
    return { nodes, left: Math.max(count - kMost, 0) };
  }

  // Layers by longest path; one chain of places per value that passes layers; order by means.
  function layOut(nodes) {
    const depth = new Map();
    for (const [key, node] of nodes) depth.set(key, largest(node.before.map((k) => (depth.get(k) ?? 0) + 1), 0));
    for (const [key, node] of nodes) {
      if (key[0] !== "i") continue;
      const users = [...nodes.values()].filter((n) => n.before.includes(key)).map((n) => depth.get(n.key));
      depth.set(key, Math.max(0, smallest(users) - 1));
      node.users = users;
    }
    const layers = [];
    const place = (d, item) => { (layers[d] ??= []).push(item); return item; };
    const items = new Map();
    for (const [key, node] of nodes) items.set(key, place(depth.get(key), { node, width: 168, height: 16 + 14 * node.lines.length, up: [], down: [] }));
    const chains = new Map();
    const edges = [];
    for (const [key, node] of nodes) {
      for (const source of node.before) {
        const path = [items.get(source)];
        for (let d = depth.get(source) + 1; d < depth.get(key); ++d) {
          const name = `${source}@${d}`;
          if (!chains.has(name)) {
            const item = place(d, { width: 10, height: 0, up: [path.at(-1)], down: [] });
            path.at(-1).down.push(item);
            chains.set(name, item);
          }
          path.push(chains.get(name));
        }
        const item = items.get(key);
        item.up.push(path.at(-1));
        path.at(-1).down.push(item);
        path.push(item);
        edges.push({ from: source, to: key, path });
      }
    }
    const gap = 18;
    for (let d = 0; d < layers.length; ++d) layers[d] ??= [];
    for (const layer of layers) {
      let x = 0;
      for (const item of layer) { item.x = x + item.width / 2; x += item.width + gap; }
    }
    const settle = (layer, side) => {
      for (const item of layer) {
        const near = item[side];
        item.wish = near.length ? near.reduce((sum, n) => sum + n.x, 0) / near.length : item.x;
      }
      layer.sort((a, b) => a.wish - b.wish);
      let edge = -Infinity, drift = 0;
      for (const item of layer) {
        item.x = Math.max(item.wish, edge + item.width / 2);
        edge = item.x + item.width / 2 + gap;
        drift += item.wish - item.x;
      }
      for (const item of layer) item.x += drift / Math.max(layer.length, 1);
    };
    for (let sweep = 0; sweep < 6; ++sweep) {
      for (let d = 1; d < layers.length; ++d) settle(layers[d], "up");
      for (let d = layers.length - 2; d >= 0; --d) settle(layers[d], "down");
    }
    for (let d = 1; d < layers.length; ++d) settle(layers[d], "up");
    const all = layers.flat();
    const least = smallest(all.map((item) => item.x - item.width / 2));
    let y = 6;
    for (const layer of layers) {
      const tallest = largest(layer.map((item) => item.height), 20);
      for (const item of layer) { item.x += 6 - least; item.y = y; item.bottom = y + (item.node ? item.height : tallest); }
      y += tallest + 26;
    }
    return { items, edges, width: largest(all.map((item) => item.x + item.width / 2)) + 6, height: y };
  }

  function showGraph() {
    const svg = at("nodes");
    let boxes = new Map(), lines = [], drawn = null;
    const draw = () => {
      svg.replaceChildren();
      const { nodes, left } = visibleNodes(at("views").checked);
      if (nodes.size === 0) return;
      drawn = layOut(nodes);
      svg.setAttribute("width", drawn.width);
      svg.setAttribute("height", drawn.height + (left > 0 ? 24 : 0));
      lines = drawn.edges.map((edge) => {
        let d = "";
        edge.path.forEach((item, n) => {
          if (n === 0) { d = `M${item.x} ${item.bottom}`; return; }
          const from = edge.path[n - 1];
          const middle = (from.bottom + item.y) / 2;
          d += `C${from.x} ${middle} ${item.x} ${middle} ${item.x} ${item.y}`;
          if (!item.node) d += `L${item.x} ${item.bottom}`;
        });
        return { edge, line: add(svg, "path", { class: "edge", d }) };
      });
      boxes = new Map();
      for (const [key, item] of drawn.items) {
        const { node } = item;
        const l = node.launch === undefined ? null : launches[node.launch];
        const group = add(svg, "g", { class: l ? (l.reason ? "node refused" : "node") : "node end", "data-node": key });
        add(group, "rect", { class: "box", x: item.x - 84, y: item.y, width: 168, height: item.height, rx: l ? 5 : 12 });
        if (l) add(group, "rect", { class: l.work, x: item.x - 84, y: item.y, width: 5, height: item.height, rx: 2 });
        node.lines.forEach((text, n) => {
          const short = text.length > 22 ? `${text.slice(0, 21)}\u2026` : text;
          add(group, "text", { x: item.x - 72, y: item.y + 18 + 14 * n }, short);
        });
        if (l && run) add(group, "text", { x: item.x + 78, y: item.y + 18, "text-anchor": "end", class: "quiet" }, node.lines[0].length > 14 ? "" : milliseconds(l.ms).replace(" ms", ""));
        add(group, "title", {}, l ? `${l.name}: ${l.kernel}` : node.lines[0]);
        if (l) group.addEventListener("click", () => choose(node.launch));
        boxes.set(key, group);
      }
      if (left > 0) add(svg, "text", { x: 8, y: drawn.height + 12, class: "quiet" }, `${left} more launches are not drawn`);
      mark(chosen);
    };
    const mark = (i) => {
      for (const [key, group] of boxes) group.classList.toggle("chosen", key === `l${i}`);
      for (const { edge, line } of lines) line.classList.toggle("lit", edge.from === `l${i}` || edge.to === `l${i}`);
      const item = drawn?.items.get(`l${i}`);
      const area = at("canvas");
      if (!item) return;
      if (item.y < area.scrollTop || item.bottom > area.scrollTop + area.clientHeight) area.scrollTop = item.y - area.clientHeight / 2;
      if (item.x - 84 < area.scrollLeft || item.x + 84 > area.scrollLeft + area.clientWidth) area.scrollLeft = item.x - area.clientWidth / 2;
    };
    keys(svg, (key) => {
      if (!drawn) return false;
      const order = [...drawn.items.values()].filter((item) => item.node.launch !== undefined);
      const now = drawn.items.get(`l${chosen}`);
      if (key === "Home" || key === "End" || !now) return stepper(order.map((item) => item.node.launch), now ? key : "Home", "", "");
      const launchesOf = (items) => items.flatMap((item) => item.node ? [item] : launchesOf(item[key === "ArrowUp" ? "up" : "down"]))
        .filter((item) => item.node.launch !== undefined);
      if (key === "ArrowUp" || key === "ArrowDown") {
        const next = launchesOf(key === "ArrowUp" ? now.up : now.down).sort((a, b) => Math.abs(a.x - now.x) - Math.abs(b.x - now.x));
        if (next.length > 0) choose(next[0].node.launch);
        return true;
      }
      if (key !== "ArrowLeft" && key !== "ArrowRight") return false;
      const row = order.filter((item) => item.y === now.y).sort((a, b) => a.x - b.x);
      choose((row[row.indexOf(now) + (key === "ArrowLeft" ? -1 : 1)] ?? now).node.launch);
      return true;
    });
    at("views").addEventListener("change", draw);
    watchers.push(mark);
    draw();
  }

  // A table whose columns sort. Columns: name, value(row), text(row), and whether it is a number.
  function table(element, columns, rows, link) {
    let sorted = -1, upwards = false;
    const body = element.querySelector("tbody");
    const head = add(element.querySelector("thead"), "tr");
    const lines = rows.map((row) => {
      const line = add(body, "tr");
      columns.forEach((column, n) => {
        const value = column.value(row);
        const cell = add(line, "td", { class: column.number ? "number" : "text", "data-column": column.name, "data-value": unknown(value) ? "" : value });
        const text = column.text ? column.text(row) : `${value ?? ""}`;
        if (n === link.column) add(cell, "button", { type: "button" }, text).addEventListener("click", () => choose(link.launch(row)));
        else cell.textContent = text;
      });
      return { row, line };
    });
    columns.forEach((column, n) => {
      const cell = add(head, "th", { scope: "col", class: column.number ? "number" : "" });
      add(cell, "button", { type: "button" }, column.name).addEventListener("click", () => {
        upwards = sorted === n ? !upwards : !column.number;
        sorted = n;
        for (const other of head.children) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", upwards ? "ascending" : "descending");
        const order = (a, b) => {
          const [x, y] = [column.value(a.row), column.value(b.row)];
          const sign = column.number ? (x ?? -1) - (y ?? -1) : `${x}`.localeCompare(`${y}`);
          return upwards ? sign : -sign;
        };
        for (const { line } of [...lines].sort(order)) body.append(line);
      });
    });
    return lines;
  }

  function showRefusals() {
    if (data.refusals.length === 0) {
      at("refusals").remove();
      return;
    }
    table(at("refused"), [
      { name: "Bytes", number: true, value: (r) => r.bytes, text: (r) => bytes(r.bytes) },
      { name: "Refused", value: (r) => r.kind },
      { name: "Launch", value: (r) => launches[r.launch].name },
      { name: "Read by", value: (r) => r.reader === undefined ? "" : launches[r.reader].name },
      { name: "Reason", value: (r) => r.reason },
    ], data.refusals, { column: 2, launch: (r) => r.launch });
  }

  function showLaunches() {
    const rows = launches.map((l, i) => ({ l, i }));
    const columns = [
      { name: "#", number: true, value: (r) => r.i },
      { name: "Launch", value: (r) => r.l.name },
      { name: "Kernel", value: (r) => r.l.kernel },
      { name: "Time", number: true, value: (r) => r.l.ms, text: (r) => milliseconds(r.l.ms) },
      { name: "Share", number: true, value: (r) => r.l.ms / run.ms, text: (r) => percent(r.l.ms / run.ms) },
      { name: "Bytes", number: true, value: (r) => r.l.bytes, text: (r) => bytes(r.l.bytes) },
      { name: "Operations", number: true, value: (r) => r.l.operations, text: (r) => operations(r.l.operations) },
      { name: "Detail", value: (r) => r.l.reason || r.l.detail },
    ].filter((column) => run || (column.name !== "Time" && column.name !== "Share"));
    const lines = table(at("list"), columns, rows, { column: 1, launch: (r) => r.i });
    watchers.push((i) => {
      for (const { row, line } of lines) line.classList.toggle("chosen", row.i === i);
    });
    at("filter").addEventListener("input", () => {
      const words = at("filter").value.toLowerCase().split(/\s+/).filter((word) => word);
      for (const { row: { l }, line } of lines) {
        const text = `${l.name} ${l.kernel} ${l.work} ${l.detail} ${l.reason}`.toLowerCase();
        line.hidden = !words.every((word) => text.includes(word));
      }
    });
  }

  function setThemes() {
    const themes = ["system", "light", "dark"];
    let now = 0;
    const next = () => {
      now = (now + 1) % themes.length;
      if (now === 0) delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = themes[now];
      at("theme").textContent = `Theme: ${themes[now]}`;
    };
    at("theme").addEventListener("click", next);
    addEventListener("keydown", (event) => {
      if (event.target instanceof HTMLInputElement) {
        if (event.key === "Escape") event.target.blur();
        return;
      }
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.key === "t") next();
      if (event.key === "/") { at("filter").focus(); event.preventDefault(); }
    });
  }

  watchers.push(showSelected);
  showFigures();
  showSelected();
  showTimeline();
  showRoofline();
  showGraph();
  showRefusals();
  showLaunches();
  setThemes();
  for (const link of document.querySelectorAll("nav a")) {
    if (!document.querySelector(link.getAttribute("href"))) link.remove();
  }
})();
