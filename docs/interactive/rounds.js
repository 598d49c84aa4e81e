// What the trace viewer and the server's page share: elements, numbers and tokens as text, and the pictures of rounds.

const $ = id => document.getElementById(id);

// An element. Children that are strings become text, never markup.
function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'style') Object.assign(element.style, value);
    else if (!isNone(value) && value !== '') element.setAttribute(key, value);
  }
  element.append(...children.flat(Infinity).filter(child => !isNone(child)));
  return element;
}
const span = (name, ...children) => el('span', {class: name}, ...children);
const div = (name, ...children) => el('div', {class: name}, ...children);
const para = (name, ...children) => el('p', {class: name}, ...children);
const picture = (name, words, ...children) =>
  el('div', {class: name, role: 'img', 'aria-label': words}, ...children);

const isNone = x => x === null || x === undefined;
const isNumber = x => typeof x === 'number' && Number.isFinite(x);

const plural = (n, word) => `${n} ${word}${n === 1 ? '' : 's'}`;
const short = (x, digits) => String(Number(x.toPrecision(digits)));

// What would be invisible, or would reorder the line, gets a visible stand-in.
function visible(character) {
  const code = character.codePointAt(0);
  const sign = {' ': '␣', '\n': '⏎', '\t': '⇥'}[character];
  if (sign) return sign;
  return /[\p{C}\p{Z}]/u.test(character) ? `[${code.toString(16).toUpperCase()}]` : null;
}

// A token's text as nodes. In running text a space stays a space, and a new line breaks the line.
function textNodes(text, running = false) {
  const blank = !text.trim();
  if (!text) return [span('ws', '∅')];
  return [...text].map(character => {
    const sign = running && character === ' ' && !blank ? null : visible(character);
    return sign === null ? character : [span('ws', sign), running && /[\n\t]/.test(character) ? character : null];
  });
}
const chipOf = (text, kind, attributes = {}) => el('span', {...attributes, class: `chip ${kind}`}, textNodes(text));

// A round in a strip of rounds. label: what it says to a screen reader.
const stripRow = (r, label, chips, emitted) => el('li', {},
  el('button', {type: 'button', 'data-round': r, 'aria-label': label}, span('index', String(r + 1)),
    el('span', {class: 'tokens', 'aria-hidden': 'true'}, chips), span('count', `+${emitted}`)));

// Shows which row is chosen; it alone is reached by Tab.
function markRow(strip, r, focus = false) {
  const rows = [...strip.querySelectorAll('button')];
  rows.forEach((row, at) => {
    row.setAttribute('aria-current', String(at === r));
    row.tabIndex = at === r ? 0 : -1;
  });
  if (focus) rows[r].focus({preventScroll: true});
  reveal(strip, rows[r].parentElement);
}

// A tree as lists in lists. after: for each parent, what follows it, top to bottom: {id: its name as a parent, kind, content}.
// Kinds of `path` hang on thick lines.
function treeOf(after, root, label, first, path) {
  const branch = parent => (after.get(parent) ?? []).map(({id, kind, content}) => {
    const follow = isNone(id) ? [] : branch(id);
    return el('li', {class: `is-${kind}${path.includes(kind) ? ' on-path' : ''}`}, content, follow.length ? el('ul', {}, follow) : null);
  });
  return el('ul', {class: 'tree', 'aria-label': label}, el('li', {}, span('soft small', first), el('ul', {}, branch(root))));
}

// Scrolls the box, never the page.
function reveal(box, child) {
  if (!child) return;
  const margin = 24, top = child.getBoundingClientRect().top - box.getBoundingClientRect().top + box.scrollTop;
  const bottom = top + child.offsetHeight;
  if (top - margin < box.scrollTop) box.scrollTop = top - margin;
  else if (bottom + margin > box.scrollTop + box.clientHeight) box.scrollTop = bottom + margin - box.clientHeight;
}
