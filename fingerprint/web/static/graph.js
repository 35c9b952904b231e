// The drawing of an investigation picture. Names come from records: they are drawn as text on a canvas, never as HTML.
const box = document.getElementById("graph"), says = document.getElementById("graph-says");
const SHAPES = { principal: "round-rectangle", access_key: "round-diamond", session: "round-tag", address: "ellipse", resource: "round-hexagon" };
const MAX_LABEL = 34, COLUMNS = ["principal", "access_key", "session", "address", "resource"];
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const shorten = (text) => (text.length > MAX_LABEL ? `${text.slice(0, MAX_LABEL / 2)}…${text.slice(1 - MAX_LABEL / 2)}` : text);
const times = (count) => `${count.toLocaleString("en")} ${count === 1 ? "event" : "events"}`;

function styles() {
  const [ink, soft, card] = ["ink", "soft", "card"].map(colour);
  return [
    { selector: "node", style: { label: "data(short)", color: ink, "font-size": 11, "font-family": "system-ui, sans-serif", "text-valign": "bottom", "text-margin-y": 4, "text-wrap": "wrap", "text-max-width": 150, "text-background-color": card, "text-background-opacity": 0.85, "text-background-padding": 2, width: 26, height: 26, "border-width": 2, "background-color": card } },
    ...COLUMNS.map((kind) => ({ selector: `node[kind = "${kind}"]`, style: { shape: SHAPES[kind], "border-color": colour(kind), "background-color": colour(kind), "background-opacity": 0.9 } })),
    { selector: 'node[kind = "principal"]', style: { width: 40, height: 30, "font-weight": "bold", "font-size": 12 } },
    { selector: "node[folded > 0]", style: { "border-style": "dashed", "background-opacity": 0.15 } },
    { selector: "edge", style: { label: "data(text)", color: soft, "font-size": 9, "text-rotation": "autorotate", "text-background-color": card, "text-background-opacity": 0.9, "text-background-padding": 1, width: "data(width)", "line-color": soft, "target-arrow-color": soft, "target-arrow-shape": "triangle", "curve-style": "bezier", opacity: 0.75 } },
    { selector: "edge[failed > 0]", style: { "line-style": "dashed" } },
    { selector: ".chosen", style: { "border-width": 5, "border-color": ink, "line-color": ink, "target-arrow-color": ink, color: ink, opacity: 1, "z-index": 9 } },
    { selector: ".aside", style: { opacity: 0.18 } },
  ];
}

function elements(graph) {
  const nodes = graph.nodes.map((node) => ({ data: { ...node, id: node.node_id, short: shorten(node.label) } }));
  const edges = graph.edges.map((edge) => ({ data: { ...edge, id: edge.edge_id, text: edge.events > 1 ? `${edge.label} × ${edge.events}` : edge.label, width: 1 + Math.min(4, Math.log10(edge.events + 1) * 1.6) } }));
  return [...nodes, ...edges];
}

// Principals, then keys and sessions, then addresses and resources: a column each, or a row each on a narrow screen.
function places(graph) {
  const narrow = box.clientWidth < 600, found = {}, across = narrow ? 120 : 260, along = narrow ? 78 : 74;
  const columns = COLUMNS.map((kind) => graph.nodes.filter((node) => node.kind === kind)).filter((some) => some.length);
  let left = 0;
  for (const some of columns) {
    const lanes = Math.ceil(some.length / (narrow ? 8 : 9)), each = Math.ceil(some.length / lanes);
    some.forEach((node, at) => {
      const lane = Math.floor(at / each), rank = at % each - (Math.min(each, some.length - lane * each) - 1) / 2;
      found[node.node_id] = { x: left + lane * across * 0.7, y: rank * along + (lane % 2) * along / 2 };
    });
    left += across + (lanes - 1) * across * 0.7;
  }
  return found;
}

function describe(node) {
  const links = node.connectedEdges().toArray().slice(0, 8).map((edge) => {
    const out = edge.source().id() === node.id(), other = out ? edge.target() : edge.source();
    return `${out ? edge.data("label") : `${edge.data("label")} by`} ${shorten(other.data("label"))} (${times(edge.data("events"))})`;
  });
  return `${node.data("kind").replace("_", " ")} ${node.data("label")}: ${links.join("; ") || "no connection"}`;
}

function choose(cy, node) {
  cy.elements().removeClass("chosen aside");
  if (!node) return;
  const near = node.closedNeighborhood();
  cy.elements().not(near).addClass("aside");
  near.edges().add(node).addClass("chosen");
  says.textContent = describe(node);
  const at = node.renderedPosition();
  if (at.x < 0 || at.y < 0 || at.x > cy.width() || at.y > cy.height()) cy.center(node);
}

function keyboard(cy, graph) {
  const order = graph.nodes.map((node) => node.node_id);
  let at = -1;
  cy.on("tap", "node", (event) => { at = order.indexOf(event.target.id()); choose(cy, event.target); });
  cy.on("tap", (event) => { if (event.target === cy) { at = -1; choose(cy, null); } });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) {
      at = (Math.max(at, step < 0 ? 0 : -1) + step + order.length) % order.length;
      choose(cy, cy.getElementById(order[at]));
    } else if (event.key === "Escape") {
      at = -1;
      choose(cy, null);
    } else if (event.key === "+" || event.key === "-") zoom(cy, event.key === "+" ? 1.25 : 0.8);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

const zoom = (cy, by) => cy.zoom({ level: cy.zoom() * by, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });

async function draw() {
  const answer = await fetch(box.dataset.url, { headers: { accept: "application/json" } });
  if (!answer.ok) return;
  const graph = await answer.json();
  if (!graph.nodes.length) return;
  document.getElementById("graph-area").hidden = false;
  const where = places(graph);
  const cy = window.cytoscape({ container: box, elements: elements(graph), style: styles(), layout: { name: "preset", positions: (node) => where[node.id()], padding: 34 }, minZoom: 0.15, maxZoom: 3, userZoomingEnabled: false, boxSelectionEnabled: false, autounselectify: true });
  keyboard(cy, graph);
  const acts = { in: () => zoom(cy, 1.25), out: () => zoom(cy, 0.8), fit: () => cy.fit(undefined, 34) };
  for (const button of document.querySelectorAll("[data-graph]")) button.addEventListener("click", acts[button.dataset.graph]);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => cy.style(styles()));
  box.dataset.drawn = graph.nodes.length;
}

if (box && window.cytoscape) draw();
