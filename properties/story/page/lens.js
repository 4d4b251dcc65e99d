// SPDX-License-Identifier: Apache-2.0
// The page of a lens: it unpacks a run, recomputes the state after any operation from differences,
// and draws it. properties/story/README.md says what the payload holds.
'use strict';

/**
 * A block: id, references, key, group, tokens of the key, second key, further keys; key 0 is none.
 * @typedef {[number, number, number, number, number, number, number[]]} Block
 * A request: tokens, computed tokens, table of each group, progress, table in the host tier.
 * @typedef {[number, number, number[][], (?number)[], number[][]]} Req
 * @typedef {{f: number, q: number[], qb: ?number[], b: Block[], r: Map<string, Req>,
 *   l: Map<string, number[]>, raw: number[], cp: number[], hf: number, hq: number[],
 *   hqb: ?number[], hb?: Block[], t: [string, number[][]][], c: any}} State
 * @typedef {{kind?: string, block_size: number, window?: number, chunk?: number}} Group
 * @typedef {{step: number, law: string, name: string, sentence: string, says: string,
 *   blocks: number[]}} Verdict
 * @typedef {{steps: number, frame: number, keys: [number, number, number, string][],
 *   verdicts: Verdict[], hidden: string[], config: any, [more: string]: any}} Head
 * @typedef {{op?: any, out?: any, ev?: any[], say?: string, [more: string]: any}} Step
 * @typedef {{who: string, at: string}} Owner
 * What a draw needs: the state shown, and what the operation changed.
 * @typedef {{n: number, line: Step, state: State, owners: Map<number, Owner[]>, blocks: Set<number>,
 *   host: Set<number>, requests: Set<string>, accused: Set<number>, counted: boolean}} View
 */

const $ = id => /** @type {any} */ (document.getElementById(id));
const FLAGS = /** @type {{[letter: string]: number}} */ ({e: 1, h: 2, r: 4, p: 8});

// ---- The run ----------------------------------------------------------------------------------

/** A run: its head, and its lines, each of which is parsed only when it is needed. */
class Story {
  constructor(/** @type {Uint8Array} */ bytes) {
    this.bytes = bytes;
    this.decoder = new TextDecoder();
    const end = bytes.indexOf(10);
    /** @type {Head} */
    this.head = JSON.parse(this.decoder.decode(bytes.subarray(0, end)));
    /** @type {Group[]} */
    this.groups = this.head.config.groups || [];
    const {steps, frame} = this.head, lines = steps + Math.ceil(steps / frame) + 3;
    this.offsets = new Uint32Array(lines + 1).fill(bytes.length + 1);
    this.flags = new Uint8Array(lines);
    this.scan(end);
    /** @type {Map<string, {step: number, blocks: number[], tokens: number}[]>} */
    this.hits = new Map();
    for (let n = 0; n < steps; ++n) if (this.flag(n) & (FLAGS.h | FLAGS.p)) this.noteHit(n);
    this.cache = /** @type {Map<number, State>} */ (new Map());
  }

  /** Finds the lines and their flags, without parsing. */
  scan(from) {
    const {bytes, offsets, flags} = this, bits = new Uint8Array(256);
    for (const letter in FLAGS) bits[letter.charCodeAt(0)] = FLAGS[letter];
    for (let i = from, line = 0; i < bytes.length; ++i) {
      if (bytes[i] === 10) {
        offsets[++line] = i + 1;
      } else if (bytes[i] === 34 && bytes[i + 1] === 120 && bytes[i + 2] === 34 &&
          bytes[i + 3] === 58 && bytes[i + 4] === 34) {  // "x":"
        for (let j = i + 5; bytes[j] !== 34; ++j) flags[line] |= bits[bytes[j]];
      }
    }
  }

  text(line) {
    return this.decoder.decode(this.bytes.subarray(this.offsets[line], this.offsets[line + 1] - 1));
  }
  lineOf(n) {
    const {frame} = this.head;
    return n < 0 ? 1 : 2 + Math.floor(n / frame) * (frame + 1) + n % frame;
  }
  /** @returns {Step} */
  step(n) { return n < 0 ? {} : JSON.parse(this.text(this.lineOf(n))); }
  flag(n) { return this.flags[this.lineOf(n)]; }

  /** Notes how many positions of each table a request has hit; its preemption ends that. */
  noteHit(n) {
    const {op, out, r} = this.step(n), row = r && r[op.req];
    const blocks = row && out && out.blocks ? this.groups.map((_, g) => {
      const added = row[2][g].reduce((sum, splice) =>
        sum + splice[2].length - splice[1], 0);
      return added - out.blocks[g].length;
    }) : [];
    const tokens = Math.max(0, ...blocks.map((many, g) => many * this.groups[g].block_size));
    into(this.hits, op.req, {step: n, blocks, tokens: out && out.hit_tokens || tokens});
  }
  hitOf(name, n) {
    return (this.hits.get(name) || []).filter(hit => hit.step <= n).pop();
  }

  /** The state after operation n, which -1 has not begun. */
  state(n) {
    const {frame, steps} = this.head;
    const base = Math.floor(Math.max(0, Math.min(n + 1, steps - 1)) / frame) * frame - 1;
    let m = n;
    while (m > base && !this.cache.has(m)) --m;
    let state = this.cache.get(m) || this.frame((base + 1) / frame);
    while (m < n) {
      state = apply(state, this.step(++m));
      if (m % 16 === 0 || m === n) this.cache.set(m, state);
    }
    for (const old of this.cache.keys()) if (this.cache.size > 160) this.cache.delete(old);
    return state;
  }
  /** @returns {State} */
  frame(index) {
    const {F} = JSON.parse(this.text(1 + index * (this.head.frame + 1)));
    const {config, host} = this.head, rows = size => withRows([], [], size);
    return apply({f: 0, q: [], qb: null, b: rows(config.num_blocks), r: new Map(), l: new Map(),
      raw: [], cp: [], hf: 0, hq: [], hqb: null, t: [], c: null,
      hb: host ? rows(config.num_host_blocks) : undefined}, F);
  }
}

/** Adds to the list of a key. */
function into(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value); else map.set(key, [value]);
}
function withRows(/** @type {Block[]} */ old, /** @type {Block[]} */ changed, size) {
  const out = old.slice();
  for (let id = out.length; id < size; ++id) out.push([id, 0, 0, 0, 0, 0, []]);
  for (const row of changed) out[row[0]] = row;
  return out;
}
function spliced(/** @type {number[]} */ list = [], splices) {
  const out = list.slice();
  for (const [from, removed, ids] of splices) out.splice(from, removed, ...ids);
  return out;
}

/** The state behind a step; what did not change is shared with the state before.
 * @param {State} old @param {Step} step @returns {State} */
function apply(old, step) {
  const now = /** @type {any} */ ({...old});
  for (const part of ['f', 'qb', 'raw', 'cp', 'hf', 'hqb', 't', 'c']) {
    if (part in step) now[part] = step[part];
  }
  for (const part of ['q', 'hq']) if (step[part]) now[part] = spliced(now[part], step[part]);
  for (const part of ['b', 'hb']) if (step[part]) now[part] = withRows(now[part], step[part], 0);
  for (const part of ['r', 'l']) if (step[part]) now[part] = new Map(now[part]);
  for (const [name, ids] of Object.entries(step.l || {})) {
    if (ids) now.l.set(name, ids); else now.l.delete(name);
  }
  for (const [name, row] of Object.entries(step.r || {})) {
    const was = old.r.get(name) || [0, 0, [], [], []];
    const tables = part => (row[part] || []).map(
        (splices, g) => spliced(was[part][g], splices));
    if (row) now.r.set(name, [row[0], row[1], tables(2), row[3] || [], tables(4)]);
    else now.r.delete(name);
  }
  return now;
}

// ---- Text -------------------------------------------------------------------------------------

const list = ids => ids.length <= 14 ? ids.join(', ') :
  `${ids.slice(0, 12).join(', ')} and ${ids.length - 12} more`;
const count = (n, what) => `${n} ${what}${n === 1 ? '' : 's'}`;
const blocks = ids => `${ids.length === 1 ? 'block' : 'blocks'} ${list(ids)}`;
const esc = text => String(text).replace(/[&<>"]/g, c => `&#${c.charCodeAt(0)};`);
const keysOf = (/** @type {Block} */ b) => [b[2], b[5], ...(b[6] || [])].filter(key => key > 0);

/** A, B, ..., Z, AA, ... @returns {string} */
const keyName = (/** @type {number} */ key) => key < 1 ? '' :
  keyName(Math.floor((key - 1) / 26)) + String.fromCharCode(65 + (key - 1) % 26);

/** Who holds each block of a tier. */
function ownersOf(/** @type {State} */ state, host = false) {
  /** @type {Map<number, Owner[]>} */
  const out = new Map();
  for (const [name, request] of [...state.r].sort(byName)) {
    const tables = request[host ? 4 : 2];
    tables.forEach((table, g) => table.forEach((id, i) => into(out, id,
      {who: name, at: `${name}${tables.length > 1 ? ` group ${g}` : ''} [${i}]`})));
  }
  if (host) return out;
  for (const [name, ids] of [...state.l].sort(byName)) {
    for (const id of new Set(ids)) into(out, id, {who: `lease ${name}`, at: `lease ${name}`});
  }
  for (const id of new Set(state.raw)) {
    const times = state.raw.filter(other => other === id).length;
    into(out, id, {who: 'raw', at: times === 1 ? 'raw' : `raw x${times}`});
  }
  return out;
}
const byName = (a, b) => a[0] < b[0] ? -1 : 1;

/** A block as `replay --draw` says it; without a count where none is shown. */
function blockText(/** @type {Block} */ b, /** @type {Owner[]} */ owners = []) {
  const text = (hides(/reference/) ? '' : `refs ${b[1]}`) +
    (b[2] ? `  key ${keyName(b[2])}` : '') + (b[2] && b[4] ? ` of ${b[4]} tokens` : '') +
    (b[5] ? `  second key ${keyName(b[5])}` : '') +
    (b[6] || []).map(key => `  further key ${keyName(key)}`).join('') +
    (owners.length ? `  in ${owners.map(owner => owner.at).join(', ')}` : '');
  return text.trimStart() || 'no key, and no request holds it';
}

/** The lines of `replay --draw`, which are also the text of the pictures. */
function stateText(/** @type {State} */ state) {
  /** @type {[number, number, string, string][]} */
  const lines = [];
  const ids = table => `[${table.join(', ')}]`;
  for (const host of state.hb ? [false, true] : [false]) {
    const owners = ownersOf(state, host), tier = host ? 'host ' : '', first = host ? 10 : 0;
    const [free, queue, back, blocks] = host ? [state.hf, state.hq, state.hqb, state.hb || []] :
      [state.f, state.q, state.qb, state.b];
    lines.push([first, 0, `${tier}queue`, `${free} free` +
      (queue.length ? `: head ${queue.join(' > ')} tail` : '') +
      (back ? `; from the tail ${ids(back)}` : '')]);
    for (const b of blocks) {
      if (b[0] === 0 || !(b[1] || b[2] || owners.has(b[0]))) continue;
      const label = `${tier}block ${String(b[0]).padStart(3)}`;
      lines.push([first + 1, b[0], label, blockText(b, owners.get(b[0]))]);
    }
  }
  for (const [name, [tokens, computed, tables, progress, host]] of state.r) {
    const shown = tables.map((table, g) => (tables.length > 1 ? `; group ${g} ` : '; table ') +
      ids(table) + (progress[g] == null ? '' : ` cached up to ${progress[g]}`));
    lines.push([20, 0, `request ${name}`, `${tokens} tokens, ${computed} computed` +
      shown.join('') + host.map(table => `; host ${ids(table)}`).join('')]);
  }
  for (const [name, held] of state.l) lines.push([21, 0, `lease ${name}`, ids(held)]);
  if (state.raw.length) lines.push([22, 0, 'raw owner', ids(state.raw)]);
  lines.sort((a, b) => a[0] - b[0] || a[1] - b[1] || (a[2] < b[2] ? -1 : 1));
  return lines.map(([, , label, text]) => `    ${label.padEnd(12)} ${text}`).join('\n');
}

// ---- Words ------------------------------------------------------------------------------------

const WORDS = /** @type {{[op: string]: (o: any) => string}} */ ({
  arrive: o => `Request ${o.req} arrives with ${count(o.tokens.length, 'token')}.` +
    (o.extra ? ` Its content also depends on ${Object.keys(o.extra).join(', ')}.` : ''),
  append: o => `Request ${o.req} gets ${count(o.tokens.length, 'token')}: ${list(o.tokens)}.`,
  advance: o => `The first ${count(o.computed, 'token')} of ${o.req} are computed now.`,
  lookup: o => `The longest cached prefix of ${o.req} is looked up.`,
  allocate: o => `Slots are allocated for ${count(o.new_tokens, 'new token')} of ${o.req}` +
    (o.use_lookup ? ', behind the prefix that its lookup found' : '') +
    (o.external ? `, and for ${o.external} that come from elsewhere` : '') +
    (o.lookahead ? `, and ${o.lookahead} ahead` : '') + '.',
  free: o => `Request ${o.req} is preempted: it gives its blocks back and keeps its tokens.`,
  finish: o => `Request ${o.req} ends: it gives its blocks back and is forgotten.`,
  recycle: o => `What ${o.req} reads no more after ${o.processed} tokens is given back.`,
  cache: o => `The full blocks of the first ${o.computed} tokens of ${o.req} are published.`,
  evict: o => `The content of ${blocks(o.blocks)} is forgotten.`,
  reset: () => 'All content is to be forgotten.',
  common_prefix: o => `The blocks that all share with ${o.req} are counted.`,
  step: () => 'A step of the scheduler begins.',
  take: o => `The raw owner takes ${count(o.n, 'block')}.`,
  touch: o => `The raw owner holds ${blocks(o.blocks)} once more.`,
  release: o => `The raw owner gives back ${blocks(o.blocks)}.`,
  fork: o => `Request ${o.child} begins as a fork of ${o.req}.`,
  truncate: o => `Request ${o.req} gives up the slots behind ${count(o.tokens, 'token')}.`,
  pin: o => `Lease ${o.lease} holds ${blocks(o.blocks)}.`,
  unpin: o => `Lease ${o.lease} ends.`,
  swap_out: o => `Transfer ${o.transfer} copies ${o.req} to the host.`,
  swap_in: o => `Transfer ${o.transfer} copies ${o.req} back to the device.`,
  complete: o => `Transfer ${o.transfer} has ${o.ok ? 'ended' : 'failed'}.`,
  decode: o => `A decode step: ${list(o.reqs)} get a token each, and a slot for it.`,
});
/** An operation in words; an event of a live run as it stands. */
function wordsOf({op, ...rest}) {
  if (WORDS[op] && !story.head.live) return WORDS[op](rest);
  return `${op}: ${JSON.stringify(rest).replace(/[{}"]/g, '').replace(/,/g, ', ').slice(0, 300)}`;
}

const perGroup = lists => lists.map((ids, g) =>
  (ids.length ? blocks(ids) : 'none') + (lists.length > 1 ? ` in group ${g}` : '')).join(', ');

/** An answer in words. */
function answerText(op, out) {
  if (out === undefined) return '';
  if (out === null) return 'refused: too few blocks are free';
  if (out.error) return `rejected: ${out.error}`;
  if (op === 'lookup' && out.blocks) {
    return `a hit of ${count(out.hit_tokens, 'token')}` +
      (out.hit_tokens ? `, ${perGroup(out.blocks)}` : '');
  }
  const copies = (out.copies || []).map(([from, to]) => `; ${from} is to be copied to ${to}`)
      .join('');
  if (out.refused) {
    return (out.refused.length ? `refused at ${list(out.refused)}` : 'granted') + copies;
  }
  if (!out.blocks) return out === true ? 'done' : out === false ? 'not done' : JSON.stringify(out);
  const none = out.blocks.flat().length === 0;
  return (none ? 'granted, without a new block' :
    `granted, with ${perGroup(out.blocks)}`) + copies;
}
/** An event in words; empty if it tells of no block. */
function eventText(e) {
  if (e.type === 'cleared') return 'the index is empty';
  if (e.type === 'removed') return `content of block ${e.block} removed`;
  return e.blocks.length ? `published ${blocks(e.blocks.map(b => b[0]))}` : '';
}

/** The tokens [from, to) that a group reads when the next one is computed. */
function reads(/** @type {Group} */ {kind, window = 1, chunk = 1}, computed) {
  const from = kind === 'sliding_window' ? computed - window + 1 : kind === 'mamba' ? computed - 1 :
    kind === 'chunked_local' ? computed - computed % chunk : 0;
  return [Math.max(0, from), computed];
}
// ---- Drawing -----------------------------------------------------------------------------------

/** Writes HTML into an element, unless it is there already. */
function put(element, html) {
  if (element.written !== html) element.innerHTML = element.written = html;
}
/** Writes the cells of a grid, of which only those that changed are made anew. */
function putCells(parent, cells) {
  if (parent.children.length !== cells.length) parent.innerHTML = cells.join('');
  else cells.forEach((html, i) => {
    if (html !== parent.cells[i]) parent.children[i].outerHTML = html;
  });
  parent.cells = cells;
}
/** A panel with a heading, a sentence and a place for its cells. @returns the place */
function panel(id, title, note) {
  const section = $(id);
  if (!section.firstChild) {
    section.innerHTML = `<h2>${title}</h2><p class="note"></p><div role="group" ` +
      `aria-label="${title}"${id === 'pool' ? ' tabindex="0"' : ''}></div>`;
  }
  put(section.children[1], esc(note));
  return section.children[2];
}
const button = (classes, data, title, inside) => `<button tabindex="-1" class="${classes}" ` +
  `data-${data}"${title && ` title="${esc(title)}"`}>${inside}</button>`;

/** The class with the colour of an owner. */
const colour = who => !who || who === 'raw' || who.startsWith('lease ') ? 'plain' :
  `o${[...who].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % 7}`;
const tag = who => `<span class="tag ${colour(who)}">` +
  `${esc(who.length > 12 ? `…${who.slice(-9)}` : who)}</span>`;
const keyTags = b => b ? keysOf(b).slice(0, 3).map(k => `<span class="key">${keyName(k)}</span>`)
    .join('') : '';
const hides = what => (story.head.hidden || []).some(part => what.test(part));
/** The classes that mark a block. */
const marks = (/** @type {View} */ view, id) => (view.blocks.has(id) ? ' changed' : '') +
  (chosen.block === id ? ' chosen' : '') + (view.accused.has(id) ? ' accused' : '');

// ---- The pools

const MOST_CELLS = 2000;  // above it a cell stands for several blocks

/** One block; in a pool of many (`short`) as three lines of plain text. */
function cell(/** @type {View} */ view, /** @type {Block} */ b, host, owners, short) {
  const id = b[0], who = id ? [...new Set(owners?.map(owner => owner.who))] : [];
  const held = id > 0 && (b[1] > 0 || who.length > 0), notes = id ? [] : ['null'];
  if (!host && view.state.cp.includes(id)) notes.push('copying');
  for (const [device, other] of view.state.t.flatMap(([, pairs]) => pairs)) {
    if (host && other === id) notes.push(`⇄ device ${device}`);
    if (!host && device === id) notes.push(`⇄ host ${other}`);
  }
  if (id && !held && !short && view.counted) notes.push('free');
  const mark = host ? (view.host.has(id) ? ' changed' : '') : marks(view, id);
  const name = `${view.accused.has(id) && !host ? '! ' : ''}<b>${id}</b>`;
  const first = short ? esc((who[0] || '').slice(-5)) : who.slice(0, 3).map(tag).join(' ');
  const more = who.length - (short ? 1 : 3), holders = `${first}${more > 0 ? ` +${more}` : ''}`;
  const refs = held && view.counted ? `<i>${count(b[1], 'ref')}</i>` : '';
  return button(`cell ${colour(who[0])}${held ? ' held' : ''}${id ? '' : ' null'}${mark}`,
    `${host ? 'host' : 'block'}="${id}`, '', short ?
      `${name}\n${holders}\n${keysOf(b).map(keyName).join(' ').slice(0, 5)} ${notes.join(' ')}` :
      `${refs}${name}<span>${holders}</span><span>${keyTags(b)} ${notes.join(' ')}</span>`);
}
/** A cell that stands for several blocks. */
function sumCell(/** @type {View} */ view, /** @type {Block[]} */ part) {
  const held = part.filter(b => b[1] > 0).length, keyed = part.filter(b => b[2] > 0).length;
  const mark = new Set(part.flatMap(b => marks(view, b[0]).split(' '))), id = part[0][0];
  return button(`cell ${[...mark].join(' ')}`, `block="${id}`,
    `blocks ${id} to ${id + part.length - 1}: ${held} held, ${keyed} with content`,
    `<b>${id}</b><progress value="${held / part.length}"></progress>`);
}
function drawCells(/** @type {View} */ view, place, /** @type {Block[]} */ blocks, host) {
  const owners = host ? ownersOf(view.state, true) : view.owners, many = blocks.length;
  const size = Math.ceil(many / 1000);
  place.className = `cells${many > 300 ? ' tiny' : many > 64 ? ' small' : ''}`;
  putCells(place, many <= MOST_CELLS ?
    blocks.map(b => cell(view, b, host, owners.get(b[0]), many > 64)) :
    blocks.filter(b => b[0] % size === 0).map(b => sumCell(view, blocks.slice(b[0], b[0] + size))));
}
function drawPools(/** @type {View} */ view) {
  const {b, f, hb, hf} = view.state, keyed = b.filter(row => row[2] && !row[1]).length;
  drawCells(view, panel('pool', 'Pool', count(b.length - 1, 'block') + (!view.counted ? '. ' :
    `: ${b.length - 1 - f} held, ${f} free, ${keyed} of these with content. `) +
    (b.length > MOST_CELLS ? `A cell stands for ${Math.ceil(b.length / 1000)} blocks; its bar is ` +
      'the share that is held. ' : 'Solid: held, with its owners. Dashed: free. Round: the key ' +
      'of its content. ') + 'Thick outline: changed by this operation.'), b, false);
  if (!hb) return;
  const moving = view.state.t.map(([name, pairs]) =>
    ` Transfer ${name} of ${count(pairs.length, 'block')} is under way.`);
  drawCells(view, panel('host', 'Host tier', count(hb.length - 1, 'block') +
    (view.counted ? `, ${hf} free.` : '.') + moving.join('')), hb, true);
}

// ---- The free queue

/** What happens next to the blocks of the queue, and why; `at` is the first with content. */
function queueWords(/** @type {State} */ {q, b}, at) {
  if (q.length === 0) return 'No block is free: an allocation that needs one is refused.';
  const first = `Handed out next: block ${q[0]}, the head of the queue. `;
  if (at < 0) return `${first}No free block has content, so nothing can be evicted.`;
  return `${first}Evicted next: block ${q[at]} with key ${keyName(b[q[at]][2])}, ` + (at === 0 ?
    'which is the same. ' :
    `the first one with content; before it ${at === 1 ? 'goes' : 'go'} ${count(at, 'block')} ` +
    'without content. ') + 'Blocks with content stand in the order in which ' +
    'they were given back, and a request gives its last block back first, so that a prefix ' +
    'outlives what follows it.';
}
function drawQueue(/** @type {View} */ view) {
  if (hides(/queue/)) return;
  const {q, qb, b} = view.state, at = q.findIndex(id => b[id] && b[id][2] > 0);
  const chips = q.map((id, i) => {
    if (q.length > 60 && i > 47 && i < q.length - 8) return i > 48 ? '' : '<li>…</li>';
    const over = [i ? '' : 'handed out next', i === at ? 'evicted next' : ''].filter(Boolean);
    return `<li${i === 0 && at > 0 && at < 3 ? ' class="wide"' : ''}><span class="over">` +
      `${over.join(', ')}</span>${button(`cell${marks(view, id)}`, `block="${id}`,
      `place ${i} of the queue`, `<b>${id}</b> ${keyTags(b[id])}`)}</li>`;
  });
  put($('queue'), `<h2>Free queue</h2><p class="note">${queueWords(view.state, at)}${qb ?
    ` <b>Its links disagree: from the tail it is ${list(qb)}.</b>` : ''}</p>` +
    `<ol class="line" aria-label="Free queue, head first">${chips.join('')}</ol>`);
}

// ---- The requests

function groupName(g) {
  const {kind = 'layers', window, chunk} = story.groups[g];
  return `Group ${g}: ` + (/** @type {any} */ ({full: 'full attention', mla: 'latent attention',
    cross: 'cross attention', sliding_window: `a window of ${window} tokens`, mamba: 'a state',
    chunked_local: `chunks of ${chunk} tokens`})[kind] || kind);
}
/** One position of a table: its block, its slots, and which of them the next token reads. */
function slot(/** @type {View} */ view, /** @type {Req} */ [tokens, computed, tables], g, i, hit) {
  const id = tables[g][i], size = story.groups[g].block_size, many = size > 8 ? 1 : size;
  const [from, to] = reads(story.groups[g], computed);
  const part = token => `${100 * Math.max(0, Math.min(1, (token - i * size) / size))}%`;
  const bars = `<span class="bars" style="--n:${many};--c:${part(computed)};--k:${part(tokens)};` +
    `--f:${part(from)};--t:${part(to)}"></span>`;
  return button(`slot${id ? marks(view, id) : ' null'}`, `block="${id}`, `position ${i}, tokens ${
    i * size} to ${(i + 1) * size - 1}`, 
    `${id || 'null'}${hit && id ? ' hit' : ''}${id ? bars : ''}`);
}
function card(/** @type {View} */ view, name, most) {
  const r = /** @type {Req} */ (view.state.r.get(name)), hit = story.hitOf(name, view.n);
  const sizes = story.groups.map(group => group.block_size);
  const room = Math.max(0, ...r[2].map((table, g) => table.length * sizes[g] - r[0]));
  const numbers = [count(r[0], 'token'), hit && hit.tokens ? `${hit.tokens} hit` : '',
    `${r[1]} computed`, room ? `${count(room, 'slot')} reserved beyond` : ''].filter(Boolean);
  const tables = r[2].map((table, g) => {
    const [from, to] = reads(story.groups[g], r[1]), start = Math.max(0, table.length - most);
    const read = table.slice(Math.floor(from / sizes[g]), Math.ceil(to / sizes[g]));
    const slots = table.map((_, i) => i < start ? '' :
      slot(view, r, g, i, hit && i < hit.blocks[g]));
    const said = read.length && to > from ?
      `Attention reads tokens ${from} to ${to - 1}, in ${blocks(read)}.` : '';
    return `<p class="note">${r[2].length > 1 ? `${groupName(g)}. ` : ''}${said}</p><div ` +
      `class="strip">${start ? `<small>… ${start} before</small>` : ''}${slots.join('')}</div>`;
  });
  const mark = view.requests.has(name) ? ' class="changed"' : '';
  return `<div class="request ${colour(name)}${chosen.request === name ? ' chosen' : ''}">` +
    `<button${mark} data-request="${esc(name)}">${tag(name)}</button> ${numbers.join(', ')}` +
    `${tables.join('')}</div>`;
}
function drawRequests(/** @type {View} */ view) {
  const all = [...view.state.r.keys()].sort();
  const first = all.filter(name => view.requests.has(name) || name === chosen.request);
  const shown = [...new Set([...first, ...all])].slice(0, 12).sort();
  const left = all.length - shown.length;
  putCells(panel('requests', 'Requests', !all.length ? 'There is none.' : 'Filled: computed. ' +
    'Hatched: known, not computed. Empty: reserved. Underlined: attention reads it next.' +
    (left ? ` ${left} more are not drawn.` : '')),
  shown.map(name => card(view, name, all.length > 6 ? 20 : 48)));
}

// ---- The prefix index

/** One key with its last tokens, and with the blocks that hold it. */
function chip(/** @type {View} */ view, key, ids = []) {
  const {b} = view.state, [, , tokens, label] = story.head.keys[key - 1];
  const lit = ids.some(id => view.blocks.has(id)) ? ' changed' : '';
  const group = id => story.groups.length > 1 ? ` (group ${b[id][3]})` : '';
  const places = ids.map(id => `<b>${id}</b>${group(id)}`);
  return button(`cell${ids.some(id => b[id][1] > 0) ? ' held' : ''}${lit}`, `block="${ids[0] || 0}`,
    `key ${keyName(key)} covers ${tokens} tokens`, `<span class="key">${keyName(key)}</span> ` +
    `${esc(label)} ${ids.length ? `in ${places.slice(0, 6).join(', ')}` : '<em>gone</em>'}`);
}
function drawIndex(/** @type {View} */ view) {
  const {keys, config} = story.head, held = /** @type {Map<number, number[]>} */ (new Map());
  if (hides(/keys|index|cached/) || config.enable_caching === false) return;
  for (const b of view.state.b) for (const key of keysOf(b)) into(held, key, b[0]);
  const shown = new Set(held.keys());  // a set that grows while it is walked: parents follow
  for (const key of shown) if (keys[key - 1][0]) shown.add(keys[key - 1][0]);
  const below = /** @type {Map<number, number[]>} */ (new Map());
  for (const key of [...shown].sort((a, b) => a - b)) into(below, keys[key - 1][0], key);
  let left = 120;  // a page that draws more is slow, and no help
  /** @returns {string} */
  const branch = key => {
    let row = '', next = [key];
    for (; next.length === 1 && left > 0; --left) {
      row += chip(view, next[0], held.get(next[0]));
      next = below.get(next[0]) || [];
    }
    const rest = next.map(other => left > 0 ? branch(other) : '').join('');
    return `<li><div class="chain">${row}</div>${rest && `<ul>${rest}</ul>`}</li>`;
  };
  const trees = (below.get(0) || []).map(key => left > 0 ? `<ul>${branch(key)}</ul>` : '');
  putCells(panel('index', 'Prefix index', `${count(held.size, 'key')}. A key stands for all ` +
    'tokens up to its end; beside it its last tokens, and the blocks that hold them (solid: ' +
    `held, dashed: free).${left > 0 ? '' : ' Only a part is drawn.'}`), trees.filter(Boolean));
}

// ---- Contiguous beside paged

function drawArena(/** @type {View} */ view) {
  const arena = view.state.c, size = story.groups[0].block_size;
  if (!arena) return put($('arena'), '');
  const total = arena.capacity, percent = part => `${100 * part / total}%`;
  const run = (who, from, length, used, inside = '') => `<span class="${colour(who)}" style="left:${
    percent(from)};width:${percent(length)}"><em style="width:${100 * used / length}%"></em>${
    inside}</span>`;
  let reserved = 0, used = 0, hole = 0, end = 0, held = 0, filled = 0;
  const runs = [...arena.runs].sort((a, b) => a[1] - b[1]).map(([who, from, length, full]) => {
    [reserved, used, hole] = [reserved + length, used + full, Math.max(hole, from - end)];
    end = from + length;
    return run(who, from, length, full, tag(who));
  });
  const pages = [...view.state.r].flatMap(([who, [tokens, , tables]]) => tables[0].map((id, i) => {
    const full = Math.max(0, Math.min(size, tokens - i * size));
    [held, filled] = [held + size, filled + full];
    return run(who, (id - 1) * size, size, full);
  }));
  const out = [...view.state.r.keys()].filter(who => !arena.runs.some(other => other[0] === who));
  const row = (name, left, right) =>
    `<tr><th scope="row">${name}</th><td>${left}</td><td>${right}</td></tr>`;
  put($('arena'), `<h2>Contiguous beside paged</h2><p class="note">${total} tokens each. Filled: ` +
    `used. Hatched: reserved, unused. White: free.${out.length ? ` <b>The arena has no room for ${
      esc(list(out))}.</b>` : ''}</p><h3>One run for each request</h3><div class="arena">${
      runs.join('')}</div><h3>Blocks of ${size} tokens</h3><div class="arena">${pages.join('')}` +
    '</div><table><tr><th>tokens</th><th scope="col">contiguous</th><th scope="col">paged</th>' +
    `</tr>${row('used', used, filled)}` + row('reserved, unused', reserved - used, held - filled) +
    row('free', total - reserved, total - held) +
    row('the longest that still fits', Math.max(hole, total - end), total - held) + '</table>');
}

// ---- The operation, laws, and what is not shown

/** An operation by its number; of a run the line of its file, which begins with a header. */
const numbered = n => story.head.live ? `line ${n + 2}` : `operation ${n}`;

/** What an operation changed, in words. */
function changedText(/** @type {View} */ {line, blocks, host, requests}) {
  const some = (what, ids) => ids.length ? `${what}${ids.length > 1 ? 's' : ''} ${list(ids)}` : '';
  return [some('block', [...blocks]), line.q || 'qb' in line ? 'the free queue' : '',
    some('host block', [...host]), some('request', [...requests]),
    some('lease', Object.keys(line.l || {})), line.raw ? 'the raw owner' : '',
    line.t ? 'the transfers' : ''].filter(Boolean).join('; ') || 'nothing';
}
function drawOperation(/** @type {View} */ view) {
  const {n, line} = view, {op, rec} = line, {steps} = story.head;
  const row = (name, text, style = '') => text ?
    `<p class="${style}"><b>${name}:</b> ${esc(text)}${text.endsWith('.') ? '' : '.'}</p>` : '';
  const {live} = story.head, place = live ? `Line ${n + 2} of ${steps + 1}` :
    `Operation ${n} of ${steps}, counted from 0`;
  $('position').textContent = n < 0 ?
    `Before the first of ${count(steps, live ? 'event' : 'operation')}` :
    place + (before ? '. This is the state before it.' : '');
  $('say').textContent = line.say || '';
  put($('words'), esc(op ? wordsOf(op) : 'The start: nothing has happened yet.'));
  put($('answer'), !op ? '' :
    row('Answer', line.raised ? `an exception: ${line.raised}` : answerText(op.op, line.out) +
      needText(line.need)) + rightText(line, row) +
    (rec === 1 ? row('Recorded', 'the same') : rec ? row('Recorded, and different',
      rec.raised || answerText(op.op, rec.out) || 'no answer', 'differs') : '') +
    row('Announced', (line.ev || []).map(eventText).filter(Boolean).join('; ')) +
    row('Changed', changedText(view)) + row('Lookup', line.why, 'why'));
}
/** How many blocks an allocation takes from the free queue, and how many there are. */
function needText(need) {
  if (!need) return '';
  return need[0] > story.head.config.num_blocks ?
    '; a state that it needs is computed in this step' : `; ${count(need[0], 'block')} ${
      need[0] === 1 ? 'is' : 'are'} needed, ${need[1]} ${need[1] === 1 ? 'is' : 'are'} free`;
}
/** What would have been right, by the model. */
function rightText({op, out, want}, row) {
  if (!want || want === 1) {
    return want && answerText(op.op, out) ? row('Right', 'the model answers the same') : '';
  }
  const events = (list = []) => list.map(eventText).filter(Boolean).join('; ');
  return row('Right would be', [answerText(op.op, want.out) || 'no answer', events(want.ev)]
      .filter(Boolean).join('; '), 'differs');
}
/** Two lines for each block of a verdict, before and after. */
function blocksOf(/** @type {Verdict} */ v) {
  const states = [story.state(v.step - 1), story.state(v.step)];
  const line = (id, side) => {
    const place = states[side].q.indexOf(id), owners = ownersOf(states[side]).get(id);
    return `<dt>block ${id} ${side ? 'after' : 'before'}</dt><dd>${
      esc(blockText(states[side].b[id], owners))}${
      place < 0 ? '' : `  at place ${place} of the free queue`}</dd>`;
  };
  const right = id => (v.right || []).filter(row => row[0] === id).map(([, refs, tokens]) =>
    `<dt>block ${id} by the model</dt><dd>${esc(`refs ${refs}${tokens ? `  a key of ${tokens} tokens` :
      ''}`)}</dd>`).join('');
  return (v.blocks || []).slice(0, 6).filter(id => states[0].b[id])
      .map(id => line(id, 0) + line(id, 1) + right(id)).join('');
}
/** What is drawn once: the title, the laws that broke, the first difference, what is not shown. */
function drawHead() {
  const {title, source, subject, profile, config, hidden = [], verdicts, difference, command} =
    story.head;
  $('title').textContent = title;
  $('about').textContent = [source, subject, profile, `${config.num_blocks} blocks`,
    ...story.groups.map((group, g) => `${groupName(g)}, blocks of ${group.block_size} tokens`)]
      .filter(Boolean).join(' · ');
  const box = (name, inside) => `<section class="verdict"><h2>${esc(name)}</h2>${inside}</section>`;
  const link = n => `<a href="#op=${n}">${numbered(n)}</a>`;
  const boxes = (verdicts || []).map(v => box(`${v.law}: ${v.name}`, `<p>${esc(v.sentence)}</p>` +
    `<p><b>Broken by ${link(v.step)}:</b> ${esc(v.says)}</p><dl>${blocksOf(v)}` +
    ['expected', 'found'].map(name => v[name] ? `<dt>${name}</dt><dd>${esc(v[name])}</dd>` : '')
        .join('') + '</dl>'));
  if (difference) {
    const {step, what, recorded, ours} = difference;
    boxes.push(box('The recording differs', `<p>At ${link(step)}: ${esc(what)}.</p><dl>` +
      `<dt>recorded</dt><dd>${esc(recorded)}</dd><dt>ours</dt><dd>${esc(ours)}</dd></dl>`));
  }
  put($('verdicts'), boxes.join('') +
    (command ? `<p class="note">To replay it: <code>${esc(command)}</code></p>` : ''));
  put($('hidden'), hidden.length === 0 ? '' : '<h2>Not shown</h2><p>The subject does not show ' +
    `${esc(list(hidden))}. The parts of this page that need it are left out.</p>`);
}

// ---- The list of operations

const ROW = 24;  // [px] high, as in lens.css
/** Draws the rows that can be seen, the current one among them if it has changed. */
function drawList(/** @type {boolean} */ follow) {
  const place = $('list'), {steps, verdicts = []} = story.head, top = (at + 1) * ROW;
  if (!place.offsetParent) return;
  if (follow && (top < place.scrollTop || top + ROW > place.scrollTop + place.clientHeight)) {
    place.scrollTop = top - (place.clientHeight - ROW) / 2;
  }
  const first = Math.floor(place.scrollTop / ROW) - 1;
  const many = Math.ceil(place.clientHeight / ROW) + 1;
  const row = n => {
    const {op, want, rec} = story.step(n), flag = story.flag(n);
    const signs = [...verdicts.filter(v => v.step === n).map(v => `! ${v.law}`),
      (want || 1) !== 1 || (rec || 1) !== 1 ? 'differs' : '',
      ...JUMPS.filter(([key]) => flag & FLAGS[key]).map(([, name]) => name)].filter(Boolean);
    return `<div role="option" id="row${n}" data-step="${n}" aria-selected="${n === at}" ` +
      `style="top:${(n + 1) * ROW}px"><b>${n < 0 ? '' : story.head.live ? n + 2 : n}</b> ` +
      `${signs.length ? `<i>${esc(signs.join(', '))}:</i> ` : ''}${
        esc(op ? wordsOf(op) : 'The start')}` +
      '</div>';
  };
  const shown = Array.from({length: many}, (_, i) => first + i).filter(n => n >= -1 && n < steps);
  $('rows').style.height = `${(steps + 1) * ROW}px`;
  put($('rows'), shown.map(row).join(''));
  place.setAttribute('aria-activedescendant', `row${at}`);
}

// ---- The view and its controls -----------------------------------------------------------------

/** @type {Story} */
let story;
let at = -1;
let before = false;  // the state before the operation is shown
/** @type {{block?: number, request?: string}} */
let chosen = {};
let playing = 0, linking = 0;  // timers

function draw() {
  const line = story.step(at), after = story.state(at), old = at < 0 ? after : story.state(at - 1);
  const state = before ? old : after, focus = /** @type {any} */ (document.activeElement)?.dataset;
  const ids = (/** @type {Block[]} */ rows = []) => new Set(rows.map(row => row[0]));
  const accused = (story.head.verdicts || []).filter(v => v.step === at)
      .flatMap(v => v.blocks || []);
  const view = {n: at, line, state, owners: ownersOf(state), blocks: ids(line.b),
    host: ids(line.hb), requests: new Set(Object.keys(line.r || {})), accused: new Set(accused),
    counted: !hides(/reference/)};
  for (const part of [drawOperation, drawPools, drawQueue, drawRequests, drawIndex, drawArena]) {
    part(view);
  }
  if ($('text').open) put($('text').children[1], esc(stateText(state)));
  $('scrub').value = at;
  $('scrub').setAttribute('aria-valuetext', $('position').textContent);
  $('before').setAttribute('aria-pressed', before);
  $('previous').disabled = at < 0;
  $('next').disabled = at >= story.head.steps - 1;
  drawJumps();
  drawList(true);
  if (focus?.block && document.activeElement === document.body) {  // its cell was made anew
    /** @type {any} */ (document.querySelector(`#pool [data-block="${focus.block}"]`))?.focus();
  }
}
function goto(n) {
  at = Math.max(-1, Math.min(story.head.steps - 1, n));
  draw();
  clearTimeout(linking);
  linking = setTimeout(() => history.replaceState(null, '', `#op=${at}`), 100);
}
const fromAddress = () => Number((/^#op=(-?\d+)$/.exec(location.hash) || [0, story.head.open])[1]);

const JUMPS = [['e', 'eviction'], ['h', 'hit'], ['r', 'refusal'], ['p', 'preemption']];
const totals = /** @type {any} */ ({});  // steps of each flag
function drawJumps() {
  const what = chosen.block !== undefined ? `block ${chosen.block}` :
    chosen.request !== undefined ? `request ${chosen.request}` : '';
  const jump = (key, name, text) => `<span>${[-1, 0, 1].map(way => way === 0 ? esc(text) :
    `<button data-jump="${key}" data-way="${way}" aria-label="${way < 0 ? 'previous' : 'next'} ${
      esc(name)}">${way < 0 ? '‹' : '›'}</button>`).join('')}</span>`;
  const kinds = JUMPS.filter(([key]) => totals[key] > 0);
  put($('jumps'), kinds.map(([key, name]) => jump(key, name, count(totals[key], name))).join('') +
    (what ? jump('c', `change of ${what}`, `change of ${what}`) :
      'Choose a block or a request to follow it.'));
}
/** Whether a step changed what is chosen; most lines are told apart without parsing them. */
function changesChosen(n) {
  const text = story.text(story.lineOf(n)), {block, request} = chosen;
  if (!text.includes(request === undefined ? `[${block},` : JSON.stringify(request))) return false;
  const {b = [], r = {}} = JSON.parse(text);
  return request === undefined ? b.some(row => row[0] === block) : request in r;
}
/** Goes to the next or previous step of a kind. */
function jumpTo(key, way) {
  if (key === 'c' && chosen.block === undefined && chosen.request === undefined) return;
  for (let n = at + way; n >= 0 && n < story.head.steps; n += way) {
    if (key === 'c' ? changesChosen(n) : story.flag(n) & FLAGS[key]) return goto(n);
  }
}
function choose(what) {
  chosen = what.block === chosen.block && what.request === chosen.request ? {} : what;
  draw();
}
function play(on) {
  clearTimeout(playing);
  playing = 0;
  $('play').textContent = on ? 'Stop' : 'Play';
  $('words').setAttribute('aria-live', on ? 'off' : 'polite');
  const beat = () => {
    if (at >= story.head.steps - 1) return play(false);
    goto(at + 1);
    playing = setTimeout(beat, 1000 / $('speed').value);
  };
  if (on) beat();
}
function toggleBefore() {
  before = !before;
  draw();
}
/** Arrows move in the pool while it has the focus. */
function moveFocus(from, key) {
  const all = /** @type {any[]} */ ([...document.querySelectorAll('#pool .cell')]);
  const wide = all.filter(other => other.offsetTop === all[0].offsetTop).length;
  const ways = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -wide, ArrowDown: wide};
  all[all.indexOf(from) + ways[key]]?.focus();
}
function onKey(/** @type {any} */ event) {
  const {key, target} = event, stride = event.shiftKey ? 10 : 1;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (target.matches('select, dialog *, pre')) return;
  if (key === ' ' && target.matches('button, summary')) return;
  if (key.startsWith('Arrow') && target.matches('input')) return;
  const actions = /** @type {any} */ ({ArrowRight: () => goto(at + stride),
    ArrowLeft: () => goto(at - stride), Home: () => goto(-1), End: () => goto(Infinity),
    b: toggleBefore, ' ': () => play(!playing), Escape: () => choose({}),
    '?': () => $('help').showModal()});
  if (target.matches('#list')) {
    const page = Math.floor(target.clientHeight / ROW) - 1;
    for (const [name, way] of Object.entries({ArrowUp: -1, ArrowDown: 1, PageUp: -page,
      PageDown: page})) actions[name] = () => goto(at + way);
  }
  for (const letter of 'ehrpc') {
    actions[letter] = () => jumpTo(letter, 1);
    actions[letter.toUpperCase()] = () => jumpTo(letter, -1);
  }
  const inPool = key.startsWith('Arrow') && target.matches('#pool .cells, #pool .cell');
  if (!inPool && !actions[key]) return;
  event.preventDefault();
  if (inPool) moveFocus(target, key); else actions[key]();
}
function onClick(/** @type {any} */ event) {
  const {block = '0', request, jump, way, step} =
    event.target.closest('button, [role=option]')?.dataset || {};
  if (step) goto(Number(step));
  if (jump) jumpTo(jump, Number(way));
  if (block !== '0') choose({block: Number(block)});
  if (request !== undefined) choose({request});
}
/** Says what is known of a block of the pool when the mouse comes to it. */
function onOver(/** @type {any} */ {target}) {
  const button = target.closest('#pool .cell:not([title])');
  if (!button) return;
  const state = story.state(before ? at - 1 : at), id = Number(button.dataset.block);
  button.title = id ? `block ${id}: ${blockText(state.b[id], ownersOf(state).get(id))}` :
    'null block';
}
function listen() {
  $('scrub').max = story.head.steps - 1;
  $('scrub').addEventListener('input', () => goto(Number($('scrub').value)));
  const clicks = {previous: () => goto(at - 1), next: () => goto(at + 1), before: toggleBefore,
    play: () => play(!playing), ask: () => $('help').showModal()};
  for (const [id, action] of Object.entries(clicks)) $(id).addEventListener('click', action);
  for (const id of ['text', 'operations']) $(id).addEventListener('toggle', draw);
  $('operations').open = window.innerWidth > 860;
  $('list').addEventListener('scroll', () => drawList(false));
  document.addEventListener('keydown', onKey);
  document.addEventListener('click', onClick);
  document.addEventListener('mouseover', onOver);
  document.addEventListener('mousedown', (/** @type {any} */ event) => {  // arrows go on stepping
    if (event.target.closest('[data-block]')) event.preventDefault();
  });
  window.addEventListener('hashchange', () => goto(fromAddress()));
}

async function start() {
  const raw = atob($('lens-data').textContent.trim()), packed = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; ++i) packed[i] = raw.charCodeAt(i);
  const Inflater = /** @type {any} */ (window).DecompressionStream;
  const stream = new Blob([packed]).stream().pipeThrough(new Inflater('deflate'));
  story = new Story(new Uint8Array(await new Response(stream).arrayBuffer()));
  const {steps} = story.head, flags = Array.from({length: steps}, (_, n) => story.flag(n));
  for (const key in FLAGS) totals[key] = flags.filter(flag => flag & FLAGS[key]).length;
  drawHead();
  listen();
  goto(fromAddress());
  Object.assign(/** @type {any} */ (window).kvproofLens, {steps});
}
/** For tests: the state and the text after operation n. */
Object.assign(window, {kvproofLens: {ready: start(), goto, state: n => story.state(n),
  text: n => stateText(story.state(n))}});
