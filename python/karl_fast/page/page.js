// @ts-check
"use strict";

/**
 * What a page of karl-fast does once it is open: a list of rows that draws only what is visible, conversations that are
 * unpacked when they are opened, and values under the pointer. Text of a log is only ever set as textContent.
 *
 * @typedef {{id?: string, function?: Call, name?: string, arguments?: unknown}} Call
 * @typedef {{role: string, content?: unknown, name?: string, reasoning_content?: string, tool_calls?: Call[],
 *   tool_call_id?: string, success?: boolean | null, weight?: number, cut?: boolean, interrupted?: boolean,
 *   error?: string}} Message
 * @typedef {{component?: string, value?: unknown, why?: string, message?: number, call?: string, commit?: string,
 *   file?: string, line?: number}} Evidence
 * @typedef {{messages: Message[], tools: string[], facts: Record<string, any>, readable: boolean}} Content
 * @typedef {{total: number, columns: Record<string, any[]>, groups: string[], domains: string[],
 *   parts: Record<string, (number | null)[]>, lessIsBetter: string[], shares: string[], source: string}} Index
 * @typedef {{name: string, value: (row: number) => any, draw: (row: number) => string | Node, kind: string}} Column
 */

/** Characters of a text that are shown at first, and with each press of its button. */
const FIRST_CHARACTERS = 6000, MORE_CHARACTERS = 60000;

/** Turns of a conversation that are drawn at first, and with each press of the button below them. */
const FIRST_TURNS = 150;

/** Characters of an argument that stands in one line with its name. */
const SHORT_ARGUMENT = 100;

/** Characters of a system prompt from which on it is folded: it is the same in many rows. */
const LONG_SYSTEM = 600;

/** Unpacked blocks that are kept. */
const BLOCKS_KEPT = 6;

/** Columns of outcomes and components in the list. */
const PARTS_SHOWN = 6;

/** Height of a row of the list in pixels: in a table, and in a list on a phone. The style sheet has the same. */
const ROW_HEIGHT = 34, ITEM_HEIGHT = 92;

/** Rows that are drawn above and below what is visible. */
const MARGIN_ROWS = 12;

/** Sequences of terminals, controls of direction, invisible characters, secrets that were replaced. */
const MARKS =
  /\u001b\[[0-?]*[ -\/]*[@-~]|[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|\[REDACTED:[^\]\n]{1,80}\]/gu;

// ---------------------------------------------------------------------------------------------------- text and elements

/**
 * @param {string} name
 * @returns {HTMLElement}
 */
function byId(name) {
  return /** @type {HTMLElement} */ (document.getElementById(name));
}

/**
 * Make an element; children that are texts become text nodes.
 * @param {string} name
 * @param {string} kind
 * @param {...(string | Node)} children
 * @returns {HTMLElement}
 */
function make(name, kind, ...children) {
  const element = document.createElement(name);
  if (kind) element.className = kind;
  for (const child of children) element.append(typeof child === "string" ? visible(child) : child);
  return element;
}

/**
 * @param {string} words
 * @param {() => void} act
 * @returns {HTMLButtonElement}
 */
function button(words, act) {
  const element = /** @type {HTMLButtonElement} */ (make("button", "", words));
  element.type = "button";
  element.addEventListener("click", act);
  return element;
}

/**
 * Return the name of a character or a sequence that would not be seen, or would change what is seen.
 * @param {string} found
 */
function nameMark(found) {
  if (found.startsWith("[REDACTED")) return found.slice(1, -1).toLowerCase();
  if (found.length > 2 && found.startsWith("\u001b")) return "\u241b" + found.slice(1);
  const code = /** @type {number} */ (found.codePointAt(0));
  if (code < 32) return String.fromCodePoint(0x2400 + code);
  return "U+" + code.toString(16).toUpperCase().padStart(4, "0");
}

/**
 * Return a text as nodes, with a mark for whatever is invisible.
 * @param {string} words
 * @returns {DocumentFragment}
 */
function visible(words) {
  const fragment = document.createDocumentFragment();
  let last = 0;
  for (const found of words.matchAll(MARKS)) {
    const at = /** @type {number} */ (found.index);
    fragment.append(words.slice(last, at));
    const mark = document.createElement("span");
    mark.className = "unseen";
    mark.textContent = nameMark(found[0]);
    fragment.append(mark);
    last = at + found[0].length;
  }
  fragment.append(words.slice(last));
  return fragment;
}

/**
 * Return a text as an element that shows its beginning, and the rest in parts.
 * @param {string} words
 * @param {string} kind
 */
function longText(words, kind) {
  const plain = words.replaceAll("\r\n", "\n");
  const element = make("div", kind);
  element.dir = "auto";
  let shown = 0;
  const showMore = (/** @type {number} */ size) => {
    element.append(visible(plain.slice(shown, shown + size)));
    shown += size;
    if (shown >= plain.length) return;
    const left = plain.length - shown;
    const more = button(`Show ${Math.min(left, MORE_CHARACTERS).toLocaleString("en")} of ${left.toLocaleString("en")} more characters`, () => {
      more.remove();
      showMore(MORE_CHARACTERS);
    });
    more.className = "more";
    element.append(more);
  };
  showMore(FIRST_CHARACTERS);
  return element;
}

/**
 * Return a folded part; its content is made when it is first opened.
 * @param {Node} summary
 * @param {() => Node} fill
 * @param {string} kind
 */
function foldedPart(summary, fill, kind) {
  const details = /** @type {HTMLDetailsElement} */ (make("details", kind, make("summary", "", summary)));
  let full = false;
  const open = () => {
    if (!full && details.open) details.append(fill());
    full ||= details.open;
  };
  details.addEventListener("toggle", open);
  details.addEventListener("fill", open);
  return details;
}

/**
 * Format a number with three digits or more.
 * @param {unknown} value
 */
function number(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "\u2013";
  if (Number.isInteger(value) || Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

// ------------------------------------------------------------------------------------------------------------- contents

const index = /** @type {Index | null} */ (JSON.parse(byId("index").textContent || "null"));

/** @type {Map<number, Promise<Content[]>>} */
const blocks = new Map();

/**
 * Return the element of a block; of a page that is still loading, once it is there.
 * @param {number} place
 * @returns {Promise<HTMLElement>}
 */
function blockElement(place) {
  const element = document.getElementById("block-" + place);
  if (element && (document.readyState !== "loading" || element.nextSibling)) return Promise.resolve(element);
  return new Promise((resolve) =>
    document.addEventListener("DOMContentLoaded", () => resolve(byId("block-" + place)), { once: true }));
}

/**
 * @param {number} place
 * @returns {Promise<Content[]>}
 */
async function unpack(place) {
  const element = await blockElement(place);
  const bytes = Uint8Array.from(atob(element.textContent || ""), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/**
 * Return what a row holds; null where the page has no room for it.
 * @param {number} row
 * @returns {Promise<Content | null>}
 */
async function readContent(row) {
  const columns = /** @type {Index} */ (index).columns;
  const block = columns.block[row];
  if (block < 0) return null;
  let content = blocks.get(block);
  if (!content) {
    content = unpack(block);
    blocks.set(block, content);
    const oldest = blocks.keys().next().value;
    if (blocks.size > BLOCKS_KEPT && oldest !== undefined) blocks.delete(oldest);
  }
  return (await content)[columns.place[row]];
}

// ---------------------------------------------------------------------------------------------------- one conversation

/**
 * Return the text of a message's content.
 * @param {unknown} content
 * @returns {string}
 */
function contentText(content) {
  if (typeof content === "string") return content;
  if (content === null || content === undefined) return "";
  if (Array.isArray(content) && content.every((part) => part && typeof part.text === "string"))
    return content.map((part) => part.text).join("\n");
  return JSON.stringify(content, null, 1);
}

/**
 * @param {Call} call
 * @returns {Call}
 */
function calledFunction(call) {
  return call.function && typeof call.function === "object" ? call.function : call;
}

/**
 * Return the arguments of a call as they are read: an object where the text is one.
 * @param {Call} call
 */
function callArguments(call) {
  const given = calledFunction(call).arguments;
  if (typeof given !== "string") return given;
  try {
    return JSON.parse(given);
  } catch {
    return given;
  }
}

/**
 * Return the first argument of a call, in one line.
 * @param {unknown} given
 */
function shortArguments(given) {
  const values = given && typeof given === "object" ? Object.values(given) : [given];
  const first = values.find((value) => typeof value === "string") ?? values[0] ?? "";
  const line = typeof first === "string" ? first : JSON.stringify(first);
  return line.slice(0, 300).replace(/\s+/g, " ");
}

/**
 * Return a sign for a result: passed, failed, unknown.
 * @param {boolean | null | undefined} good
 * @param {string} [what]
 */
function sign(good, what = "") {
  const [letter, kind, words] =
    good === true ? ["\u2713", "good", "passed"] : good === false ? ["\u2717", "bad", "failed"] : ["\u00b7", "unknown", "unknown"];
  const element = make("span", "sign " + kind, letter);
  element.title = what ? `${what}: ${words}` : words;
  element.setAttribute("aria-label", element.title);
  element.setAttribute("role", "img");
  return element;
}

/**
 * Return an argument or any other value as text.
 * @param {unknown} value
 */
function valueText(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 1);
}

/**
 * Return an argument: a short one in one line with its name.
 * @param {string} name
 * @param {string} words
 */
function drawArgument(name, words) {
  if (words.length <= SHORT_ARGUMENT && !words.includes("\n"))
    return [make("p", "short", make("span", "name", name), make("code", "", words))];
  return [make("p", "name", name), longText(words, "code")];
}

/**
 * Return a call with its result, folded to one line.
 * @param {number} row
 * @param {Call} call
 * @param {Message | undefined} result
 */
function drawCall(row, call, result) {
  const given = callArguments(call);
  const summary = document.createDocumentFragment();
  summary.append(sign(result ? result.success : undefined, "call"), make("b", "", String(calledFunction(call).name ?? "call")), " ",
    make("span", "line", shortArguments(given)));
  const fill = () => {
    const body = make("div", "inside");
    const pairs = given && typeof given === "object" && !Array.isArray(given) ? Object.entries(given) : [["arguments", given]];
    const asked = make("div", "given");
    for (const [name, value] of pairs)
      if (value !== undefined) asked.append(...drawArgument(name, valueText(value)));
    body.append(asked);
    if (result) body.append(make("p", "name", "result"), longText(contentText(result.content), "code"));
    if (result && result.error) body.append(make("p", "name", "error"), longText(result.error, "code"));
    if (!result) body.append(make("p", "soft", "no result in the log"));
    for (const child of childrenOf(row, call.id)) body.append(drawChild(child));
    return body;
  };
  const details = foldedPart(summary, fill, "call");
  if (childrenOf(row, call.id).length) details.firstElementChild?.append(" ", make("span", "tag", "sub-agent"));
  return details;
}

/**
 * Rows of sub-agents, by the id of the session that called them.
 * @type {Map<string, number[]>}
 */
const children = new Map();
index?.columns.parent?.forEach((parent, row) => {
  if (parent !== null) children.set(parent, [...(children.get(parent) ?? []), row]);
});

/**
 * Return the rows of sub-agents that a row called, by one call or without a known one.
 * @param {number} row
 * @param {string} [call]
 */
function childrenOf(row, call) {
  const { columns } = /** @type {Index} */ (index);
  return (children.get(columns.id[row]) ?? []).filter((child) => (columns.call?.[child] ?? undefined) === call);
}

/**
 * @param {number} row
 * @returns {HTMLElement}
 */
function drawChild(row) {
  const { columns } = /** @type {Index} */ (index);
  const summary = document.createDocumentFragment();
  summary.append(make("b", "", "Sub-agent"), " ", make("span", "line", columns.prompt[row]));
  return foldedPart(summary, () => {
    const body = make("div", "inside child");
    drawInto(body, row);
    return body;
  }, "call");
}

/**
 * Return evidence as a line: component, value, why, place.
 * @param {Evidence} entry
 */
function drawEvidence(entry) {
  const line = make("li", "");
  const value = typeof entry.value === "number" ? entry.value : null;
  const name = String(entry.component ?? "evidence");
  line.append(goodness(name, value), " ", make("b", "", outcomeName(name, value)), value === null || value === 0 || value === 1 ? "" : ` ${number(value)}`);
  if (entry.why) line.append(" ", make("span", "", String(entry.why).slice(0, 400)));
  for (const key of /** @type {const} */ (["commit", "file"]))
    if (entry[key]) line.append(" ", make("code", "", `${key} ${String(entry[key])}${key === "file" && entry.line ? ":" + entry.line : ""}`));
  return line;
}

/**
 * Return the sign of an outcome, or its number.
 * @param {string} name
 * @param {number | null | undefined} value
 */
function goodness(name, value) {
  if (value === null || value === undefined) return sign(null, name);
  const { lessIsBetter, shares } = /** @type {Index} */ (index);
  if ((value === 1 || value === 0) && !shares.includes(name)) return sign((value === 1) !== lessIsBetter.includes(name), name);
  return make("span", "part", number(value));
}

/**
 * Return the name of an outcome as its sign reads: a check mark beside "not corrected".
 * @param {string} name
 * @param {number | null} value
 */
function outcomeName(name, value) {
  const words = name.replaceAll("_", " ");
  return value === 0 && /** @type {Index} */ (index).lessIsBetter.includes(name) ? "not " + words : words;
}

/**
 * Return whether a trainer learns a message.
 * @param {Message} message
 * @param {Content} content
 */
function isLearned(message, content) {
  return message.role === "assistant" && message.weight !== 0 && message.cut !== true && content.facts.learned !== false;
}

/**
 * Return results by the call that they answer, by place in the conversation.
 * @param {Message[]} messages
 * @returns {{results: Map<Call, number>, answered: Set<number>}}
 */
function pairResults(messages) {
  const results = new Map(), answered = new Set();
  /** @type {Call[]} */
  let open = [];
  messages.forEach((message, place) => {
    if (message.role === "assistant") open = Array.isArray(message.tool_calls) ? [...message.tool_calls] : [];
    if (message.role !== "tool") return;
    const match = message.tool_call_id
      ? open.findIndex((call) => call && call.id === message.tool_call_id)
      : open.length ? 0 : -1;
    if (match < 0) return;
    results.set(open[match], place);
    answered.add(place);
    open.splice(match, 1);
  });
  return { results, answered };
}

/**
 * @param {Content} content
 * @returns {Evidence[]}
 */
function evidenceOf(content) {
  return Array.isArray(content.facts.evidence) ? content.facts.evidence.filter((entry) => entry && typeof entry === "object") : [];
}

/**
 * Return the turns of a conversation.
 * @param {number} row
 * @param {Content} content
 */
function drawTurns(row, content) {
  const list = make("div", "turns");
  const { results, answered } = pairResults(content.messages);
  const places = content.messages.map((_, place) => place).filter((place) => !answered.has(place));
  const evidence = evidenceOf(content);
  let shown = 0;
  const showMore = () => {
    for (const place of places.slice(shown, shown + FIRST_TURNS)) list.append(drawTurn(row, content, place, results, evidence));
    shown += FIRST_TURNS;
    if (shown >= places.length) return;
    const more = button(`Show more of ${(places.length - shown).toLocaleString("en")} turns`, () => {
      more.remove();
      showMore();
    });
    more.className = "more";
    list.append(more);
  };
  showMore();
  return list;
}

/**
 * @param {number} row
 * @param {Content} content
 * @param {number} place
 * @param {Map<Call, number>} results
 * @param {Evidence[]} evidence
 */
function drawTurn(row, content, place, results, evidence) {
  const message = content.messages[place];
  const calls = (Array.isArray(message.tool_calls) ? message.tool_calls : []).filter((call) => call && typeof call === "object");
  const own = new Set([place, ...calls.map((call) => results.get(call))]);
  const ids = new Set(calls.map((call) => call.id));
  const body = make("div", "said");
  if (message.reasoning_content)
    body.append(foldedPart(make("span", "line", message.reasoning_content.slice(0, 300).replace(/\s+/g, " ")),
      () => longText(String(message.reasoning_content), "text thought"), "thoughts"));
  const words = contentText(message.content);
  const kind = message.role === "tool" ? "code" : "text";
  if (message.role === "system" && words.length > LONG_SYSTEM)
    body.append(foldedPart(make("span", "line", words.slice(0, 300).replace(/\s+/g, " ")), () => longText(words, kind), "instructions"));
  else if (words.trim()) body.append(longText(words, kind));
  for (const call of calls) {
    const result = results.get(call);
    body.append(drawCall(row, call, result === undefined ? undefined : content.messages[result]));
  }
  const here = evidence.filter((entry) =>
    entry.message !== undefined ? own.has(entry.message) : entry.call !== undefined && ids.has(entry.call));
  const flags = message.interrupted ? " interrupted" : message.cut ? " cut" : message.weight === 0 ? " not learned" : "";
  const turn = make("div", "turn" + (isLearned(message, content) ? " learned" : ""),
    make("p", "role", make("span", "", message.role + flags), make("span", "place", String(place))), body);
  if (here.length) turn.append(make("ul", "evidence", ...here.map(drawEvidence)));
  return turn;
}

/**
 * Fill an element with a conversation, when it is unpacked.
 * @param {HTMLElement} element
 * @param {number} row
 */
async function drawInto(element, row) {
  const content = await readContent(row);
  if (!content) {
    element.append(make("p", "soft", "The page has no room for this row: karl-fast show --row prints it."));
    return;
  }
  const placed = (/** @type {Evidence} */ entry) => entry.message !== undefined || entry.call !== undefined;
  const general = evidenceOf(content).filter((entry) => !placed(entry));
  const attributed = Array.isArray(content.facts.attributed) ? content.facts.attributed : [];
  if (general.length || attributed.length)
    element.append(make("ul", "evidence", ...general.map(drawEvidence), ...attributed.map(drawCommit)));
  if (!content.readable) element.append(make("p", "soft", "karl-fast sample cannot write this row; karl-fast inspect says why."));
  if (content.messages.some((message) => isLearned(message, content)))
    element.append(make("p", "soft", make("span", "key", " "), " what a trainer learns"));
  element.append(drawTurns(row, content));
  for (const child of childrenOf(row)) element.append(drawChild(child));
  element.append(drawFacts(content));
}

/** @param {any} entry */
function drawCommit(entry) {
  return make("li", "", make("b", "", "commit"), " ", make("code", "", String(entry?.commit ?? "").slice(0, 12)),
    ` ${number(entry?.lines)} lines, by ${String(entry?.rule ?? "an unknown rule").replaceAll("_", " ")}`);
}

/**
 * Return the other keys of a record, folded.
 * @param {Content} content
 */
function drawFacts(content) {
  const facts = Object.entries(content.facts).filter(([key]) => key !== "evidence");
  const fill = () => {
    const list = make("dl", "pairs");
    for (const [key, value] of facts) {
      const long = value && typeof value === "object" && typeof value.long === "number";
      const words = long ? `${value.long.toLocaleString("en")} characters, not on this page` : valueText(value);
      list.append(make("div", "", make("dt", "", key), make("dd", "", longText(String(words), "text"))));
    }
    if (content.tools.length) list.append(make("div", "", make("dt", "", "tools"), make("dd", "", content.tools.join(", "))));
    return list;
  };
  return foldedPart(make("span", "", "Other keys of the record"), fill, "facts");
}

// ------------------------------------------------------------------------------------------------------ list of all rows

/** State of the list: the order of rows after search and filters, which row is selected, which are open. */
const state = {
  /** @type {number[]} */ order: [],
  selected: 0,
  /** @type {number[]} */ open: [],
  sort: "",
  down: true,
  /** @type {Set<number> | null} */ hits: null,
};

/**
 * Return the columns of the list that this log has values for.
 * @param {Index} data
 * @returns {Column[]}
 */
function listColumns(data) {
  const { columns, parts, groups, domains } = data;
  const has = (/** @type {string} */ name) => name in columns;
  const plain = (/** @type {string} */ name, /** @type {string} */ label, kind = "n extra") => ({
    name: label, value: (/** @type {number} */ row) => columns[name][row], draw: (/** @type {number} */ row) => number(columns[name][row]), kind,
  });
  const coded = (/** @type {string} */ name, /** @type {string[]} */ names) => ({
    name, value: (/** @type {number} */ row) => names[columns[name][row]] ?? "", draw: (/** @type {number} */ row) => names[columns[name][row]] ?? "\u2013", kind: "name extra",
  });
  const rewarded = columns.reward.some((value) => value !== null);
  const all = [
    ...(rewarded ? [plain("reward", "reward", "n first")] : []),
    ...Object.keys(parts).slice(0, PARTS_SHOWN).map((name, place) => ({
      name: data.lessIsBetter.includes(name) ? "not " + name.replaceAll("_", " ") : name,
      value: (/** @type {number} */ row) => parts[name][row],
      draw: (/** @type {number} */ row) => goodness(name, parts[name][row]),
      kind: place < 2 ? "mark" : "mark extra",
    })),
    { name: "first prompt", value: (/** @type {number} */ row) => columns.prompt[row], draw: drawPrompt, kind: "prompt" },
    { name: "id", value: (/** @type {number} */ row) => columns.id[row], draw: (/** @type {number} */ row) => columns.id[row], kind: "name extra" },
    ...(groups.length ? [coded("group", groups)] : []),
    ...(domains.length > 1 ? [coded("domain", domains)] : []),
    ...(has("round") ? [plain("round", "round")] : []),
    ...(has("split") ? [{ name: "split", value: (/** @type {number} */ row) => columns.split[row], draw: (/** @type {number} */ row) => columns.split[row] ?? "\u2013", kind: "extra" }] : []),
    plain("messages", "messages"), ...(columns.calls.some(Boolean) ? [plain("calls", "calls")] : []), plain("characters", "written"),
    ...(columns.copies.some((value) => value > 1) ? [plain("copies", "copies")] : []),
  ];
  return all;
}

/** @param {number} row */
function drawPrompt(row) {
  const { columns } = /** @type {Index} */ (index);
  const fragment = document.createDocumentFragment();
  if (columns.parent?.[row]) fragment.append(make("span", "tag", "sub-agent"), " ");
  fragment.append(visible(columns.prompt[row] || "(no prompt)"));
  return fragment;
}

/**
 * Return the name of a row in the address: its id, and which of equal ones it is.
 * @param {number} row
 */
function rowName(row) {
  const ids = /** @type {Index} */ (index).columns.id;
  const before = ids.slice(0, row).filter((id) => id === ids[row]).length;
  return encodeURIComponent(ids[row]).replaceAll("~", "%7E") + (before ? "~" + before : "");
}

/**
 * Return the row of an address; -1 without one.
 * @param {string} hash
 */
function rowOfHash(hash) {
  const found = /^#row=([^~]*)(?:~(\d+))?$/.exec(hash);
  if (!found) return -1;
  let left = Number(found[2] ?? 0), name = "";
  try {
    name = decodeURIComponent(found[1]);
  } catch {
    return -1;
  }
  return /** @type {Index} */ (index).columns.id.findIndex((id) => id === name && left-- === 0);
}

/**
 * Run the list of rows.
 * @param {Index} data
 */
function runList(data) {
  const columns = listColumns(data), count = data.columns.id.length;
  const list = byId("list"), views = byId("views"), browser = byId("browser"), body = /** @type {HTMLElement} */ (list.querySelector("tbody"));
  const search = /** @type {HTMLInputElement} */ (byId("search"));
  const group = /** @type {HTMLSelectElement} */ (byId("group")), domain = /** @type {HTMLSelectElement} */ (byId("domain"));
  const words = data.columns.id.map((id, row) =>
    [id, data.columns.prompt[row], data.groups[data.columns.group[row]], data.domains[data.columns.domain[row]]].join("\n").toLowerCase());
  const phone = matchMedia("(max-width: 720px)");
  const height = () => (phone.matches ? ITEM_HEIGHT : ROW_HEIGHT);

  const heads = columns.map((column) => {
    const head = make("th", column.kind, button(column.name, () => sortBy(column)));
    head.setAttribute("scope", "col");
    list.querySelector("thead tr")?.append(head);
    return head;
  });

  /**
   * @param {HTMLSelectElement} element
   * @param {string[]} names
   * @param {number[]} codes
   */
  function fillSelect(element, names, codes) {
    byId(element.id + "-label").hidden = names.length < 2;
    const counts = names.map(() => 0);
    for (const code of codes) if (code >= 0) counts[code] += 1;
    const options = names.map((name, code) => ({ code, words: `${name} (${counts[code]})` })).sort((a, b) => a.words.localeCompare(b.words, "en", { numeric: true }));
    element.append(new Option(`all ${names.length.toLocaleString("en")}`, "-1"));
    for (const option of options) {
      const choice = new Option("", String(option.code));
      choice.replaceChildren(visible(option.words).textContent ?? "");
      element.append(choice);
    }
    element.addEventListener("change", refresh);
  }

  /** @param {Column} column */
  function sortBy(column) {
    state.down = state.sort === column.name ? !state.down : true;
    state.sort = column.name;
    refresh();
  }

  /** Order the rows anew, and draw them. */
  function refresh() {
    const wanted = search.value.trim().toLowerCase();
    const inGroup = Number(group.value), inDomain = Number(domain.value);
    const order = [];
    for (let row = 0; row < count; row++) {
      if (inGroup >= 0 && data.columns.group[row] !== inGroup) continue;
      if (inDomain >= 0 && data.columns.domain[row] !== inDomain) continue;
      if (state.hits ? !state.hits.has(row) : wanted && !words[row].includes(wanted)) continue;
      order.push(row);
    }
    const column = columns.find((one) => one.name === state.sort);
    if (column) order.sort((a, b) => compare(column.value(a), column.value(b)) * (state.down ? -1 : 1) || a - b);
    state.order = order;
    state.selected = Math.max(0, Math.min(state.selected, order.length - 1));
    heads.forEach((head, place) => head.setAttribute("aria-sort", columns[place] !== column ? "none" : state.down ? "descending" : "ascending"));
    const whole = data.total === count ? "" : `; the log has ${data.total.toLocaleString("en")}`;
    byId("count").textContent = `${order.length.toLocaleString("en")} of ${count.toLocaleString("en")} rows${whole}`;
    list.scrollTop = 0;
    draw();
  }

  /**
   * Draw the rows that are visible.
   * @param {boolean} [all]
   */
  function draw(all = false) {
    const size = height(), room = list.clientHeight || 600;
    const first = all ? 0 : Math.max(0, Math.floor(list.scrollTop / size) - MARGIN_ROWS);
    const last = all ? state.order.length : Math.min(state.order.length, first + Math.ceil(room / size) + 2 * MARGIN_ROWS);
    const space = (/** @type {number} */ rows) => {
      const cell = make("td", "");
      cell.setAttribute("colspan", String(columns.length));
      cell.style.height = rows * size + "px";
      const line = make("tr", "space", cell);
      line.setAttribute("aria-hidden", "true");
      line.hidden = rows === 0;
      return line;
    };
    const lines = state.order.slice(first, last).map((row, at) => drawRow(row, first + at));
    body.replaceChildren(space(first), ...lines, space(state.order.length - last));
  }

  /**
   * @param {number} row
   * @param {number} place
   */
  function drawRow(row, place) {
    const line = make("tr", "");
    line.setAttribute("aria-selected", String(place === state.selected));
    if (state.open.includes(row)) line.classList.add("open");
    for (const column of columns) {
      const cell = make("td", column.kind, column.draw(row));
      cell.dataset.name = column.name;
      line.append(cell);
    }
    line.addEventListener("click", () => {
      state.selected = place;
      open([row]);
    });
    return line;
  }

  /**
   * Show rows whole, side by side where there are two.
   * @param {number[]} rows
   */
  function open(rows) {
    state.open = rows;
    browser.classList.toggle("opened", rows.length > 0);
    browser.classList.toggle("pair", rows.length > 1);
    views.replaceChildren(...rows.map(drawView));
    const hash = rows.length === 1 ? "#row=" + rowName(rows[0]) : "";
    if (location.hash !== hash) history.replaceState(null, "", hash || location.pathname + location.search);
    draw();
  }

  /** @param {number} row */
  function drawView(row) {
    const { columns: values } = data;
    const head = make("header", "", make("h3", "", values.id[row]), button("Close", () => open([])));
    const facts = [];
    if (values.reward[row] !== null) facts.push(`reward ${number(values.reward[row])}`);
    if (data.groups[values.group[row]]) facts.push(`group ${data.groups[values.group[row]]}`);
    if (data.domains[values.domain[row]]) facts.push(data.domains[values.domain[row]]);
    facts.push(`${number(values.messages[row])} messages`);
    if (values.started?.[row]) facts.push(String(values.started[row]).slice(0, 16).replace("T", " "));
    if (values.copies[row] > 1) facts.push(`${values.copies[row]} rows with this conversation`);
    const view = make("article", "view", head, make("p", "soft", facts.join(" \u00b7 ")));
    const known = Object.keys(data.parts).filter((name) => data.parts[name][row] !== null);
    if (known.length)
      view.append(make("p", "parts", ...known.map((name) => make("span", "", goodness(name, data.parts[name][row]), " " + outcomeName(name, data.parts[name][row])))));
    const parent = values.parent ? values.id.indexOf(values.parent[row]) : -1;
    if (parent >= 0) view.append(button("Open the session that called it", () => open([parent])));
    drawInto(view, row).catch((error) => view.append(make("p", "soft", `The row cannot be read: ${error}`)));
    return view;
  }

  /**
   * Move the selection, and the open row with it.
   * @param {number} by
   */
  function move(by) {
    if (!state.order.length) return;
    state.selected = Math.max(0, Math.min(state.order.length - 1, state.selected + by));
    const top = state.selected * height();
    if (top < list.scrollTop) list.scrollTop = top;
    const bottom = top + 2 * height() - list.clientHeight;
    if (bottom > list.scrollTop) list.scrollTop = bottom;
    if (state.open.length) open([state.order[state.selected]]);
    else draw();
  }

  /** Open the rows with the largest and the smallest reward of those listed. */
  function openExtremes() {
    const part = Object.values(data.parts)[0] ?? [];
    const score = (/** @type {number} */ row) => data.columns.reward[row] ?? part[row] ?? null;
    const known = state.order.filter((row) => score(row) !== null).sort((a, b) => score(b) - score(a));
    if (known.length) open([...new Set([known[0], known[known.length - 1]])]);
  }

  /** Search the texts of all conversations, block after block. */
  async function searchTexts() {
    const wanted = search.value.trim().toLowerCase();
    if (!wanted) return;
    const hits = new Set();
    const byBlock = groupRows(data.columns.block);
    let done = 0;
    for (const [block, rows] of byBlock) {
      if (block >= 0) {
        const contents = await unpack(block);
        for (const row of rows) if (allText(contents[data.columns.place[row]]).includes(wanted)) hits.add(row);
      }
      done += rows.length;
      byId("count").textContent = `searching ${done.toLocaleString("en")} of ${count.toLocaleString("en")} rows`;
      if (search.value.trim().toLowerCase() !== wanted) return;
    }
    words.forEach((line, row) => line.includes(wanted) && hits.add(row));
    state.hits = hits;
    refresh();
  }

  search.addEventListener("input", () => {
    state.hits = null;
    refresh();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    search.value = "";
    state.hits = null;
    refresh();
  });
  byId("tools").addEventListener("submit", (event) => {
    event.preventDefault();
    void searchTexts();
  });
  byId("extremes").addEventListener("click", openExtremes);
  byId("extremes").hidden = !columns.some((column) => column.kind === "n first" || column.kind.startsWith("mark"));
  list.addEventListener("scroll", () => requestAnimationFrame(() => draw()), { passive: true });
  phone.addEventListener("change", () => draw());
  addEventListener("resize", () => draw());
  addEventListener("hashchange", () => {
    const row = rowOfHash(location.hash);
    if (row >= 0 && state.open[0] !== row) open([row]);
  });
  addEventListener("beforeprint", () => {
    draw(true);
    for (const details of document.querySelectorAll("details")) {
      details.open = true;
      details.dispatchEvent(new Event("fill"));
    }
  });
  addEventListener("afterprint", () => draw());
  document.addEventListener("keydown", (event) => {
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement) return;
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "Escape") open([]);
    else if (event.key === "Enter" && (target === list || target === document.body) && state.order.length) open([state.order[state.selected]]);
    else return;
    event.preventDefault();
  });
  fillSelect(group, data.groups, data.columns.group);
  fillSelect(domain, data.domains, data.columns.domain);
  const linked = rowOfHash(location.hash);
  state.sort = columns.find((column) => column.kind === "n first")?.name ?? "";
  refresh();
  if (linked >= 0) {
    state.selected = state.order.indexOf(linked);
    list.scrollTop = state.selected * height();
    open([linked]);
    byId("rows").scrollIntoView();
  }
}

/**
 * @param {unknown} a
 * @param {unknown} b
 */
function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

/**
 * @param {number[]} keys
 * @returns {Map<number, number[]>}
 */
function groupRows(keys) {
  /** @type {Map<number, number[]>} */
  const rows = new Map();
  keys.forEach((key, row) => {
    const own = rows.get(key);
    if (own) own.push(row);
    else rows.set(key, [row]);
  });
  return rows;
}

/**
 * Return all text of a row, in small letters.
 * @param {Content} content
 */
function allText(content) {
  return content.messages
    .map((message) => [contentText(message.content), message.reasoning_content ?? "", message.tool_calls ? JSON.stringify(message.tool_calls) : ""].join("\n"))
    .join("\n")
    .toLowerCase();
}

// ------------------------------------------------------------------------------------------------------------- pointer

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {Element} layer
 * @returns {[number, number, number, number][]}
 */
function pointsOf(layer) {
  return JSON.parse(/** @type {HTMLElement | SVGElement} */ (layer).dataset.points ?? "[]");
}

/**
 * @param {string} name
 * @param {Record<string, string | number>} values
 */
function svg(name, values) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(values)) element.setAttribute(key, String(value));
  return element;
}

/**
 * Show the value of each curve of a row of plots at one place.
 * @param {Element} layer
 * @param {number} at
 */
function showValue(layer, at) {
  const points = pointsOf(layer);
  if (!points.length) return;
  const [x, y, value, height] = points.reduce((best, point) => (Math.abs(point[2] - at) < Math.abs(best[2] - at) ? point : best));
  const words = svg("text", { x: x + (x > 180 ? -8 : 8), y: Math.max(24, y - 8), "text-anchor": x > 180 ? "end" : "start", class: "value" });
  words.textContent = `${number(value)}: ${number(height)}`;
  layer.replaceChildren(svg("line", { x1: x, x2: x, y1: 10, y2: 130, class: "pointer-line" }), svg("circle", { cx: x, cy: y, r: 3.5, class: "fill-accent" }), words);
}

/** Follow the pointer over plots: one line for all plots of a row. */
function followPointer() {
  for (const plot of document.querySelectorAll(".plot svg")) {
    const own = plot.querySelector(".pointer");
    if (!(plot instanceof SVGSVGElement) || !own) continue;
    const layers = () => (plot.closest(".multiples") ?? plot).querySelectorAll(".pointer");
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const x = ((event.clientX - box.left) * plot.viewBox.baseVal.width) / box.width;
      const points = pointsOf(own);
      if (!points.length) return;
      const nearest = points.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best));
      for (const layer of layers()) showValue(layer, nearest[2]);
    });
    plot.addEventListener("pointerleave", () => layers().forEach((layer) => layer.replaceChildren()));
  }
}

followPointer();
if (index) runList(index);
