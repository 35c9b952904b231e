// The drawing of an investigation picture. Names come from records: they are drawn as text on a canvas, never as HTML.
import { _, locale, ngettext } from "./words.js";
const box = document.getElementById("graph"), says = document.getElementById("graph-says");
const SHAPES = { principal: "round-rectangle", access_key: "round-diamond", session: "round-tag", address: "ellipse", resource: "round-hexagon" };
const FEW_EDGES = 8; // so many have room for their labels all the time
const MAX_LABEL = 34, MAX_FIT = 1.3, MIN_FIT = 0.88, COLUMNS = ["principal", "access_key", "session", "address", "resource"];
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const shorten = (text) => (text.length > MAX_LABEL ? `${text.slice(0, MAX_LABEL / 2)}…${text.slice(1 - MAX_LABEL / 2)}` : text);
// A label breaks behind punctuation, and inside of a word only where it is too long for a line.
const breakable = (text) => text.replace(/[^:/._@ -]{1,14}[:/._@ -]*/gu, "$&\u200b");
const times = (count) => ngettext("%(num)s event", "%(num)s events", count);
// Written out, so that the catalogue of scripts has them. A label that is not among them is a name from a record.
const words = new Map([
  ["used", _("used")], ["called from", _("called from")], ["touched", _("touched")], ["assumed", _("assumed")],
  ["principal", _("principal")], ["access key", _("access key")], ["session", _("session")],
  ["address", _("address")], ["resource", _("resource")],
]);
const word = (label) => words.get(label) ?? label;

const isNarrow = () => box.clientWidth < 600;

function styles() {
  const beside = (side) => (isNarrow() ? {} : { "text-valign": "center", "text-halign": side, "text-margin-y": 0, "text-margin-x": side === "left" ? -5 : 5, "text-max-width": 300 });
  const [ink, soft, card] = ["ink", "soft", "card"].map(colour);
  return [
    { selector: "node", style: { label: "data(short)", color: ink, "font-size": 12, "font-family": "system-ui, sans-serif", "text-valign": "bottom", "text-margin-y": 4, "text-wrap": "wrap", "text-overflow-wrap": "whitespace", "text-max-width": isNarrow() ? 108 : 190, "text-background-color": card, "text-background-opacity": 0.85, "text-background-padding": 2, width: 22, height: 22, "border-width": 2, "background-color": card } },
    ...COLUMNS.map((kind) => ({ selector: `node[kind = "${kind}"]`, style: { shape: SHAPES[kind], "border-color": colour(kind), "background-color": colour(kind), "background-opacity": 0.9 } })),
    { selector: 'node[kind = "principal"]', style: { width: 40, height: 30, "font-weight": "bold", "font-size": 13 } },
    { selector: 'node[kind = "address"]', style: beside("left") },
    { selector: 'node[kind = "resource"]', style: beside("right") },
    { selector: "node[folded > 0]", style: { "border-style": "dashed", "background-opacity": 0.15 } },
    { selector: "edge", style: { color: soft, "font-size": 11, "text-background-color": card, "text-background-opacity": 0.95, "text-background-padding": 2, width: "data(width)", "line-color": soft, "target-arrow-color": soft, "target-arrow-shape": "triangle", "curve-style": "bezier", opacity: 0.75 } },
    { selector: "edge.labelled", style: { "target-label": "data(text)", "target-text-offset": isNarrow() ? 34 : 62, "target-text-rotation": "autorotate", "z-index": 8 } },
    { selector: "edge[failed > 0]", style: { "line-style": "dashed" } },
    { selector: ".chosen", style: { "border-width": 5, "border-color": ink, "line-color": ink, "target-arrow-color": ink, color: ink, opacity: 1, "z-index": 9 } },
    { selector: ".aside", style: { opacity: 0.18 } },
  ];
}

function elements(graph) {
  const nodes = graph.nodes.map((node) => ({ data: { ...node, id: node.node_id, short: breakable(shorten(node.label)) } }));
  const edges = graph.edges.map((edge) => ({ data: { ...edge, id: edge.edge_id, text: edge.events > 1 ? `${word(edge.label)} × ${edge.events.toLocaleString(locale)}` : word(edge.label), width: 1 + Math.min(4, Math.log10(edge.events + 1) * 1.6) } }));
  return [...nodes, ...edges];
}

// Where from and with what, who, and what was touched: a column each, or rows on a narrow screen.
function places(graph) {
  const narrow = isNarrow(), found = {};
  let depth = 0;
  for (const kind of ["address", "access_key", "session", "principal", "resource"]) {
    const some = graph.nodes.filter((node) => node.kind === kind);
    const beside = kind === "address" || kind === "resource"; // their labels stand beside them, so they need less room
    const [most, along, apart] = narrow ? [3, 118, 74] : [beside ? 20 : 9, beside ? 32 : 84, 150];
    const strips = Math.ceil(some.length / most), each = Math.ceil(some.length / strips);
    some.forEach((node, at) => {
      const strip = Math.floor(at / each), here = Math.min(each, some.length - strip * each);
      const rank = ((at % each) - (here - 1) / 2) * along, deep = depth + strip * apart;
      found[node.node_id] = narrow ? { x: rank, y: deep } : { x: deep, y: rank };
    });
    if (some.length) depth += (narrow ? 96 : 210) + (strips - 1) * apart;
  }
  return found;
}

function describe(node) {
  const links = node.connectedEdges().toArray().slice(0, 8).map((edge) => {
    const out = edge.source().id() === node.id(), other = out ? edge.target() : edge.source();
    const relation = word(edge.data("label"));
    const said = out ? relation : _("%(relation)s by", { relation });
    return `${said} ${shorten(other.data("label"))} (${times(edge.data("events"))})`;
  });
  return `${word(node.data("kind").replace("_", " "))} ${node.data("label")}: ${links.join("; ") || _("no connection")}`;
}

// Lines that leave one node part where they end, so that is where their labels stand: those of what is pointed at or chosen.
function label(cy, edges) {
  cy.edges().removeClass("labelled");
  (cy.edges().length <= FEW_EDGES ? cy.edges() : edges).addClass("labelled");
}

function labelOnHover(cy) {
  const chosen = () => cy.edges(".chosen");
  cy.on("mouseover", "edge, node", ({ target }) => label(cy, (target.isEdge() ? target : target.connectedEdges()).union(chosen())));
  cy.on("mouseout", "edge, node", () => label(cy, chosen()));
  label(cy, chosen());
}

function choose(cy, node) {
  cy.elements().removeClass("chosen aside");
  label(cy, node ? node.connectedEdges() : cy.collection());
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

function showAll(cy) {
  cy.fit(undefined, 30);
  if (cy.zoom() > MAX_FIT) {
    cy.zoom(MAX_FIT);
    cy.center();
  } else if (isNarrow() && cy.zoom() < MIN_FIT) { // readable from the top on; the rest is a drag away
    cy.zoom(MIN_FIT);
    cy.center();
    cy.panBy({ x: 0, y: 20 - cy.elements().renderedBoundingBox().y1 });
  }
}

const zoom = (cy, by) => cy.zoom({ level: cy.zoom() * by, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });

async function draw() {
  const answer = await fetch(box.dataset.url, { headers: { accept: "application/json" } });
  if (!answer.ok) return;
  const graph = await answer.json();
  if (!graph.nodes.length) return;
  document.getElementById("graph-area").hidden = false;
  document.getElementById("no-drawing").hidden = true;
  const where = places(graph);
  const cy = window.cytoscape({ container: box, elements: elements(graph), style: styles(), layout: { name: "preset", positions: (node) => where[node.id()], padding: 34 }, minZoom: 0.15, maxZoom: 3, userZoomingEnabled: false, boxSelectionEnabled: false, autounselectify: true });
  showAll(cy);
  keyboard(cy, graph);
  labelOnHover(cy);
  const acts = { in: () => zoom(cy, 1.25), out: () => zoom(cy, 0.8), fit: () => showAll(cy) };
  for (const button of document.querySelectorAll("[data-graph]")) button.addEventListener("click", acts[button.dataset.graph]);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => cy.style(styles()));
  box.dataset.drawn = graph.nodes.length;
}

if (box && window.cytoscape) draw();
