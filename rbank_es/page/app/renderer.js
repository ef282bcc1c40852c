// The renderer: trees of plain objects, patched into the document so that focus, selection, open folds and scroll stay.
//
// Text becomes text nodes only, markup is never parsed, and addresses lead nowhere but into this page.
import { visible } from "./visible_text.js";

const SVG = "http://www.w3.org/2000/svg";
// Set once, when the element is made: afterwards they belong to the person who opened a fold or typed a word.
const INITIAL = new Set(["open"]);
const PROPERTIES = new Set(["value", "checked", "disabled", "selected"]);
const TYPED = new Set(["search", "text", "number"]);
const shown = new WeakMap();

/** Return a tree: `h("p", {class: "note"}, "text", child)`. `key` in the attributes names a child among its siblings. */
export function h(tag, attributes, ...children) {
  const { key = null, ...rest } = attributes ?? {};
  return { tag, key, attributes: rest, children: flat(children) };
}

// Null, undefined and booleans show nothing, as in `condition && child`.
function flat(children) {
  const kept = [];
  for (const child of children) {
    if (Array.isArray(child)) kept.push(...flat(child));
    else if (child === null || child === undefined || typeof child === "boolean") continue;
    else if (typeof child === "object") kept.push(child);
    else kept.push({ tag: null, key: null, text: visible(String(child)) });
  }
  return kept;
}

/** Make the children of an element those of the trees; elements that stay the same are kept. */
export function render(container, ...trees) {
  const focused = document.activeElement;
  patchChildren(container, flat(trees), container.namespaceURI);
  // Browsers without `moveBefore` take the focus from an element that moves among its siblings.
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}

function patchChildren(parent, trees, space) {
  const old = [...parent.childNodes];
  const reused = matched(old, trees);
  const kept = new Set(reused);
  for (const node of old) if (!kept.has(node)) node.remove();
  let next = parent.firstChild;
  trees.forEach((tree, i) => {
    const node = reused[i] ?? made(tree, space);
    if (node === next) next = next.nextSibling;
    else place(parent, node, next);
    patch(node, tree, space);
  });
}

/** Return for each tree the old node that it may become, or undefined: by key, otherwise in order by tag. */
function matched(old, trees) {
  const keyed = new Map();
  const queues = new Map();
  for (const node of old) {
    const was = shown.get(node);
    const name = was ? was.tag : node.nodeType === 3 ? null : undefined;
    if (was && was.key !== null) keyed.set(name + " " + was.key, node);
    else if (name !== undefined) queues.set(name, [...(queues.get(name) ?? []), node]);
  }
  return trees.map((tree) => {
    if (tree.key === null) return queues.get(tree.tag)?.shift();
    const node = keyed.get(tree.tag + " " + tree.key);
    keyed.delete(tree.tag + " " + tree.key);
    return node;
  });
}

function made(tree, space) {
  if (tree.tag === null) return document.createTextNode("");
  const inside = tree.tag === "svg" ? SVG : space;
  return inside === SVG ? document.createElementNS(SVG, tree.tag) : document.createElement(tree.tag);
}

function place(parent, node, next) {
  // `moveBefore` keeps focus, selection and scroll of a node that is in the document already.
  if (node.parentNode === parent && parent.moveBefore) parent.moveBefore(node, next);
  else parent.insertBefore(node, next);
}

function patch(node, tree, space) {
  const was = shown.get(node);
  if (was === tree) return;
  shown.set(node, tree);
  if (tree.tag === null) {
    if (node.data !== tree.text) node.data = tree.text;
    return;
  }
  patchChildren(node, tree.children, node.namespaceURI === SVG ? SVG : space);
  // After the children, because a select takes only the value of an option that it has.
  patchAttributes(node, was?.attributes ?? {}, tree.attributes);
}

function patchAttributes(node, was, is) {
  for (const name of Object.keys(was)) if (!(name in is)) setAttribute(node, name, null);
  for (const [name, value] of Object.entries(is)) {
    if (PROPERTIES.has(name)) setProperty(node, name, value);
    else if (was[name] !== value && !(INITIAL.has(name) && name in was)) setAttribute(node, name, value);
  }
}

function setProperty(node, name, value) {
  const wanted = typeof value === "boolean" ? value : String(value ?? "");
  const typing = node === document.activeElement && TYPED.has(node.type);
  if (node[name] !== wanted && !typing) node[name] = wanted;
}

function setAttribute(node, name, value) {
  if (name.startsWith("on")) node[name] = value;
  else if (PROPERTIES.has(name)) setProperty(node, name, typeof node[name] === "boolean" ? false : "");
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (name === "href" && !String(value).startsWith("#")) throw new Error("a link must stay in the page");
  else node.setAttribute(name, value === true ? "" : visible(String(value)));
}
