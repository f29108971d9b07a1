// The dashboard: asks the daemon's own API every two seconds and shows what it says. Whatever comes from there is put
// on the page as text, never as markup: names of sessions and namespaces are what clients chose.

import {
  NONE, SPACE, number, counted, scaled, bytes, byteRate, rate, blockRate, percent, latency, duration, clock, sum, byId,
  element, drawn, setText, table, renew, none, Chart, isGap, spark,
} from './charts.js';

// ---- what series come to

/** A size of the configuration, such as 1.5GiB, in bytes; 0 where there is no limit. */
function configuredBytes(text) {
  const match = /^(\d+(?:\.\d+)?)\s*(?:([KMGT])iB|B)?$/.exec(text || '');
  return match ? Number(match[1]) * 1024 ** ' KMGT'.indexOf(match[2] || ' ') : 0;
}

/** The time of the figures of this moment, in words. */
const RECENT = `last 10${SPACE}s`;

/** The mean of the newest points of a series, of about ten seconds. */
function recent(history, series) {
  const points = Math.min(series.length, Math.max(1, Math.round(10 / history.step_s)));
  return points === 0 ? 0 : sum(series.slice(-points)) / points;
}

/** What a counter grew by over a whole history, as the daemon counted it. */
const total = (history, name) => history.amounts[name];

/** What was served, by where it came from. */
const HITS = ['hits_host', 'hits_ssd', 'hits_object', 'hits_gpu', 'hits_node'];

const totalHits = (history) => sum(HITS.map((name) => total(history, name))) - total(history, 'tool_hits');

// ---- what it means

const TIER_NAMES = {host: 'Host memory', ssd: 'SSD', object: 'Object store', gpu: 'GPU memory'};

/** A verdict needs so many blocks: a few say nothing of what engines ask for. */
const ASKED_MIN = 100;

/** Of the blocks that engines asked for in a time, how many were there. kvtier's own tools are no engines. */
function hitsOf(history) {
  const looked = total(history, 'lookup_blocks') - total(history, 'tool_lookup_blocks');
  if (looked >= 1) {
    return {asked: looked, hits: total(history, 'lookup_hits') - total(history, 'tool_lookup_hits'), verb: 'looked-up'};
  }
  const hits = totalHits(history);
  return {asked: hits + total(history, 'misses') - total(history, 'tool_misses'), hits, verb: 'requested'};
}

/** What engines did not have to compute within a day, in words; empty where no engine has told. */
function savedText({day}) {
  if (day.saved_tokens < 1) {
    return '';
  }
  const what = day.saved_prefill_ns >= 1e9 ? `${duration(day.saved_prefill_ns / 1e9)} of prefill` : counted(day.saved_tokens, 'token');
  return `saved ${what} ${day.seconds >= 86000 ? 'in the last 24 hours' : `in the last ${duration(day.seconds)}`}`;
}

/** The time that a history covers, in words. */
function spanText(history) {
  const last = history.times_ms.length - 1;
  const seconds = last < 0 ? 0 : Math.round((history.times_ms[last] - history.from_ms) / 1000);
  return seconds >= 120 ? Math.round(seconds / 60) + SPACE + 'minutes' : seconds + SPACE + 's';
}

/** A part in words: what a trouble's part means to who reads it. */
function partText(part) {
  const [tier, which] = part.split('/');
  return {
    ssd: `SSD device ${which}`,
    gpu: `GPU ${which}`,
    object: {load: 'Object store, loads', store: 'Object store, stores', probe: 'Object store, lookups', ledger: 'Object store, ledger'}[which],
    host: {keep: 'Host memory, keeper', ledger: 'Host memory, ledger'}[which],
    puts: {drain: 'Drained'}[which],
  }[tier] || part;
}

/** The same reason of several parts is one line. */
function troubleLines(troubles) {
  const byReason = new Map();
  for (const {part, reason} of troubles) {
    byReason.set(reason, [...(byReason.get(reason) || []), partText(part)]);
  }
  return [...byReason].map(([reason, parts]) => {
    const silent = 'the object store does not answer';
    if (reason.startsWith(silent)) {
      const what = parts.map((part) => part.replace('Object store, ', '')).join(' and ');
      return `Object store does not answer ${what}${reason.slice(silent.length)}`;
    }
    return `${parts.join(', ')}: ${reason}`;
  });
}

/** What goes wrong in numbers, though each part says that it is well: {text, isGrave}; some of it is seen on any busy day. */
function complaints(history, status) {
  const found = [];
  const add = (text, isGrave) => found.push({text, isGrave});
  const when = `in the last ${spanText(history)}`;
  const busy = total(history, 'put_busy');
  const puts = total(history, 'put_blocks');
  if (busy >= 1 && busy > 0.05 * (busy + puts)) {
    add(`${percent(busy / (busy + puts))} of puts were refused ${when}, because there was no space: lower tiers are too slow, or clients hold too many leases`, true);
  }
  const late = total(history, 'deadlines');
  if (late >= 1) {
    add(`${counted(late, 'block')} missed the deadline ${when}: engines waited without a result`, late > 0.005 * hitsOf(history).asked);
  }
  const objects = total(history, 'object_stored') + total(history, 'object_fetched');
  for (const [name, text, often] of [
    ['corrupt', 'Reads with wrong bytes (counted as misses; check the device and the memory)', 0],
    ['io_errors', 'Failed reads and writes of SSD', 0],
    ['object_errors', 'Reads and writes of objects that failed or took too long', 0.01 * objects],
    ['gpu_errors', 'Failed copies to and from GPUs', 0],
    ['node_errors', 'Reads from other nodes that failed or took too long', 0.01 * total(history, 'node_fetched')],
  ]) {
    const count = total(history, name);
    if (count >= 1) {
      add(`${text} ${when}: ${number(count)}`, count > often);
    }
  }
  const slow = history.latency.get.p99_ns.filter((ns) => ns !== null && ns > 1e9).length;
  if (slow > 0.2 * history.times_ms.length) {
    add('The 99th percentile of gets is above 1 s: computing the blocks again may be faster', true);
  }
  if (status.round_trip_ns > 5e8) {
    add(`The index takes ${latency(status.round_trip_ns)} to answer`, true);
  }
  return found;
}

/** The state in a sentence, and the reasons: {level: good | warn | bad | idle, title, lines}. */
function verdictOf(data) {
  const {status, history, stats} = data;
  const troubles = troubleLines(status.troubles);
  const wrongs = complaints(history, status);
  const isGrave = wrongs.some((one) => one.isGrave);
  const lines = [...troubles, ...wrongs.map((one) => one.text)];
  const {asked, hits, verb} = hitsOf(history);
  const when = `in the last ${spanText(history)}`;
  const said = `${percent(asked > 0 ? hits / asked : 0)} of ${verb} blocks were hits ${when}`;
  if (status.uptime_s < 60) {
    lines.push(`Started ${duration(status.uptime_s)} ago.`);
  }
  if (asked < 1) {
    const isEmpty = stats.counters.blocks === 0;
    const saved = savedText(history);
    const idle = isEmpty ? 'Empty: nothing is stored yet' : `Idle: no engine asked for a block ${when}${saved && `; ${saved}`}`;
    if (troubles.length > 0) {
      return {level: 'warn', title: `Degraded: ${troubles[0]}`, lines: [...lines.slice(1), idle], isEmpty};
    }
    return {level: isGrave ? 'warn' : 'idle', title: idle, lines, isEmpty};
  }
  const loaded = totalHits(history);
  const served = total(history, 'host_read') + total(history, 'gpu_peer');
  const fact = `Loaded instead of computed: ${counted(loaded, 'block')} (${bytes(served)}).`;
  if (asked < ASKED_MIN && troubles.length === 0 && !isGrave) {
    return {level: 'idle', title: `Too little traffic for a verdict: engines asked for ${counted(asked, 'block')} ${when}`, lines: [...lines, fact]};
  }
  const helps = hits / asked >= 0.01;
  const saved = savedText(history);
  const spent = history.day.spent_load_ns / 1e9;
  if (saved) {
    lines.unshift(`Engines ${saved} (${counted(history.day.saved_tokens, 'token')}); loading took ${spent < 1 ? `${Math.round(spent * 1000)}${SPACE}ms` : duration(spent)}.`);
  }
  if (troubles.length > 0) {
    return {level: 'warn', title: `Degraded, ${helps ? 'still helps' : 'does not help'}: ${said}`, lines: [...lines, fact]};
  }
  if (isGrave) {
    return {level: 'warn', title: `${helps ? 'Helps, with problems' : 'Problems'}: ${said}`, lines: [...lines, fact]};
  }
  if (!helps) {
    lines.push('The blocks that engines ask for were never stored here, or were evicted: see the evictions, and what-if for a larger tier.');
    return {level: 'warn', title: `Does not help: ${said}`, lines};
  }
  return {level: 'good', title: `Helps: ${saved ? `${saved}; ` : ''}${said}`, lines: [fact, ...lines]};
}

// ---- showing it

const charts = {};
let chosenLatency = 'get';

function showVerdict({level, title, lines, isEmpty}) {
  byId('verdict').dataset.level = level;
  setText(byId('verdict-title'), title);
  const list = byId('verdict-lines');
  if (lines.join('\n') !== [...list.children].map((one) => one.textContent).join('\n')) {
    list.replaceChildren(...lines.map((line) => element('li', {}, line)));
  }
  document.title = {good: '✓ ', warn: '! ', bad: '✗ '}[level] ? {good: '✓ ', warn: '! ', bad: '✗ '}[level] + 'kvtier' : 'kvtier';
  byId('next').hidden = !isEmpty;
}

function showIdentity({status}) {
  setText(byId('identity'), `${status.version}, process ${status.pid}, up ${duration(status.uptime_s)}`);
  setText(byId('next-socket'), `export KVTIER_SOCKET=${status.socket}`);
  setText(byId('next-demo'), `scripts/demo --socket ${status.socket}`);
}

function tile(title, value, unit, note, isBad) {
  const shown = element('p', {}, value);
  if (unit) {
    shown.append(element('span', {}, unit));
  }
  return element('div', {class: isBad ? 'tile bad' : 'tile', 'data-tile': title}, element('h3', {}, title), shown, element('small', {}, note));
}

/** A tile whose value has its unit behind it, such as 1.2 GiB/s. */
function tileOf(title, text, note) {
  const space = text.lastIndexOf(SPACE);
  return space < 0 ? tile(title, text, '', note) : tile(title, text.slice(0, space), text.slice(space + 1), note);
}

function showTiles({stats, recentHistory}) {
  const counters = stats.counters;
  const rates = recentHistory.rates;
  const {asked, hits} = hitsOf(recentHistory);
  const span = spanText(recentHistory);
  const served = sum(HITS.map((name) => recent(recentHistory, rates[name])));
  const servedBytes = recent(recentHistory, recentHistory.links.host_read) + recent(recentHistory, recentHistory.links.gpu_peer);
  const p99 = recentHistory.latency.get.p99_ns.slice(-2).filter((ns) => ns !== null);
  const p50 = recentHistory.latency.get.p50_ns.slice(-2).filter((ns) => ns !== null);
  const errors = sum(['corrupt', 'io_errors', 'object_errors', 'gpu_errors', 'deadlines'].map((name) => total(recentHistory, name)));
  renew(
    byId('tiles'),
    asked >= 1 ? tileOf('Hit ratio', percent(hits / asked), `of ${counted(asked, 'block')} in ${span}`) : tile('Hit ratio', NONE, '', `nothing asked for in ${span}`),
    tileOf('Loaded by engines', byteRate(servedBytes), `${blockRate(served)}, ${RECENT}`),
    tileOf('Stored by engines', byteRate(putBytes(recentHistory)), `${blockRate(recent(recentHistory, rates.put_blocks))}, ${RECENT}`),
    tileOf('Get, 99th percentile', p99.length > 0 ? latency(Math.max(...p99)) : NONE, p50.length > 0 ? `median ${latency(Math.max(...p50))}, ${RECENT}` : `no gets, ${RECENT}`),
    tile('Blocks stored', number(counters.blocks), '', `${counted(counters.leases, 'lease')}, ${counted(counters.operations, 'operation')} in flight`),
    tile('Errors', number(errors), '', `in ${span}`, errors > 0));
}

/** What clients put: what became resident in memory and did not come from below. */
function putBytes(history) {
  const links = history.links;
  return Math.max(0, recent(history, links.host_write) - recent(history, links.ssd_read) - recent(history, links.object_read));
}

function arrow(isDown, value) {
  const width = value > 0 ? Math.min(7, 1.5 + Math.log10(1 + value)) : 1.5;
  const path = isDown ? 'M15 4V27M8 20L15 28L22 20' : 'M15 28V5M8 12L15 4L22 12';
  return drawn('svg', {viewBox: '0 0 30 32', 'aria-hidden': 'true'}, drawn('path', {class: 'arrow', d: path, 'stroke-width': width.toFixed(1)}));
}

function flow(isDown, name, blocks, rateOfBytes, key) {
  const facts = [];
  if (blocks !== null) {
    facts.push(blockRate(blocks));
  }
  if (rateOfBytes !== null) {
    facts.push(byteRate(rateOfBytes));
  }
  const isStill = !blocks && !rateOfBytes;
  return element(
    'div', {class: isStill ? 'still' : '', 'data-flow': key}, arrow(isDown, blocks === null ? rateOfBytes / 1e6 : blocks),
    element('span', {}, name, element('br', {}), element('b', {}, ...(isStill ? [NONE] : facts).map((fact) => element('span', {}, fact)))));
}

function tierBox(tone, name, fill, facts, trouble) {
  const box = element('li', {class: `tier c-${tone}${trouble ? ' ill' : ''}`, 'data-tier': tone});
  box.append(element('div', {class: 'name'}, element('b', {}, name), element('span', {class: 'fill'}, fill ? fill.text : '')));
  if (fill) {
    const inner = element('i', {});
    inner.style.width = (100 * Math.min(1, fill.share)).toFixed(1) + '%';
    box.append(element('div', {class: 'bar', role: 'img', 'aria-label': `${name} is ${percent(fill.share)} full`}, inner));
  }
  box.append(element('div', {class: 'facts'}, facts.filter((fact) => fact).join(' · ')));
  if (trouble) {
    box.append(element('div', {class: 'facts ill'}, trouble));
  }
  return box;
}

function fillOf(tier) {
  const share = tier.bytes_capacity > 0 ? tier.bytes_used / tier.bytes_capacity : 0;
  return {share, text: `${bytes(tier.bytes_used)} of ${bytes(tier.bytes_capacity)} · ${percent(share)}`};
}

function troubleOf(status, tier) {
  return troubleLines(status.troubles.filter(({part}) => part.split('/')[0] === tier)).join('; ');
}

function showStack({stats, status, recentHistory}) {
  const rates = recentHistory.rates;
  const links = recentHistory.links;
  const now = (series) => recent(recentHistory, series);
  const rows = [];
  const between = (down, up) => {
    rows.push(element('li', {class: 'flow'}, down, up));
  };
  const host = stats.tiers.find((tier) => tier.tier === 'host');
  const ssd = stats.tiers.find((tier) => tier.tier === 'ssd');
  const object = stats.object;
  for (const gpu of stats.gpus || []) {
    rows.push(tierBox(
      'gpu', `GPU ${gpu.gpu}: ${gpu.name}`, null,
      [`${counted(gpu.regions, 'memory region')} of engines`, `${bytes(gpu.staging_bytes)} staging`, gpu.errors > 0 ? counted(gpu.errors, 'error') : ''],
      gpu.fence || ''));
  }
  if ((stats.gpus || []).length > 0) {
    between(
      flow(true, 'offloaded', null, now(links.gpu_offload), 'offload'),
      flow(false, 'onboarded', null, now(links.gpu_onboard), 'onboard'));
  }
  between(
    flow(true, 'stored by engines', now(rates.put_blocks), putBytes(recentHistory), 'put'),
    flow(false, 'loaded by engines', now(rates.hits_host) + now(rates.hits_ssd) + now(rates.hits_object), now(links.host_read), 'get'));
  rows.push(tierBox(
    'host', TIER_NAMES.host, fillOf(host), [counted(host.slots_resident, 'block'), host.slots_in_flight > 0 ? `${number(host.slots_in_flight)} in flight` : '', `policy ${host.policy}`],
    troubleOf(status, 'host')));
  if (ssd) {
    between(
      flow(true, 'demoted', now(rates.demotions), now(links.ssd_write), 'demote'),
      flow(false, 'promoted', now(rates.promotions), now(links.ssd_read), 'promote'));
    rows.push(tierBox(
      'ssd', TIER_NAMES.ssd, fillOf(ssd),
      [counted(ssd.slots_resident, 'block'), ssd.slots_in_flight > 0 ? `${number(ssd.slots_in_flight)} in flight` : '', `policy ${ssd.policy}`, `admits ${ssd.admission}`, ssd.engine + (ssd.direct_io ? ', direct IO' : '')],
      troubleOf(status, 'ssd')));
  }
  if (object) {
    between(
      flow(true, ssd ? 'stored, from SSD or memory' : 'stored', now(rates.object_stored), now(links.object_write), 'store'),
      flow(false, 'fetched, to memory', now(rates.object_fetched), now(links.object_read), 'fetch'));
    rows.push(tierBox(
      'object', TIER_NAMES.object, null,
      [object.store, `${counted(object.keys_known, 'known key')}`, object.task && object.task.state !== 'idle' ? `${object.task.task}: ${object.task.state}` : ''],
      troubleOf(status, 'object')));
  }
  between(
    flow(true, 'left the last tier', now(rates.dropped), null, 'drop'),
    element('div', {class: 'still'}, element('span', {}), element('span', {}, 'misses', element('br', {}), element('b', {}, blockRate(missRate(recentHistory))))));
  renew(byId('stack'), ...rows);
}

/** Blocks that were asked for and not there, a second: of lookups, else of gets. */
function missRate(history) {
  const looked = recent(history, history.rates.lookup_blocks);
  return looked > 0 ? Math.max(0, looked - recent(history, history.rates.lookup_hits)) : recent(history, history.rates.misses);
}

function timeSeries(history, more) {
  return {
    x: history.times_ms, xKind: 'time', xText: (ms, isWhole) => clock(ms, isWhole || history.step_s * history.times_ms.length <= 900),
    newest: `last ${duration(history.step_s)}:`, ...more,
  };
}

/** Engines look up before they get, and get only what is there: the share is one of what was looked up. */
function hitShares(history, tier) {
  const rates = history.rates;
  return history.times_ms.map((_, i) => {
    const settled = sum(HITS.map((name) => rates[name][i])) + rates.misses[i];
    const asked = Math.max(settled, rates.lookup_blocks[i]);
    return asked > 0 ? rates['hits_' + tier][i] / asked : null;
  });
}

function tiersOf(stats) {
  return [...stats.tiers.map((tier) => tier.tier), ...(stats.object ? ['object'] : [])];
}

/** Those tiers, and engines' GPUs where there are any: some blocks come from there. */
function placesOf(stats) {
  return [...tiersOf(stats), ...((stats.gpus || []).length > 0 ? ['gpu'] : [])];
}

function showHits({stats, history}) {
  charts.hits.show(timeSeries(history, {
    series: placesOf(stats).map((place) => ({name: TIER_NAMES[place], tone: place, values: hitShares(history, place)})),
    stacked: true, sumName: 'all tiers', yKind: 'linear', yMax: 1, yText: (value) => number(100 * value) + ' %', tipText: percent,
    nothing: hitsOf(history).asked < 1 ? 'Nobody asked for a block in this time.' : '',
  }));
}

const LINKS = [
  ['host_read', 'Memory, read by engines', 'host', 'host'],
  ['host_write', 'Memory, written', 'host', 'host'],
  ['ssd_read', 'SSD, read', 'ssd', 'ssd'],
  ['ssd_write', 'SSD, written', 'ssd', 'ssd'],
  ['object_read', 'Object store, read', 'object', 'object'],
  ['object_write', 'Object store, written', 'object', 'object'],
  ['gpu_offload', 'GPU to memory', 'gpu', 'gpu'],
  ['gpu_onboard', 'Memory to GPU', 'gpu', 'gpu'],
  ['gpu_peer', 'GPU to GPU', 'gpu', 'gpu'],
];

function showLinks({stats, history, recentHistory, config}) {
  const there = new Set(placesOf(stats));
  const limits = {
    object_read: configuredBytes(config['object.load_bytes_per_second']),
    object_write: configuredBytes(config['object.store_bytes_per_second']),
  };
  renew(byId('links'), ...LINKS.filter(([, , , tier]) => there.has(tier)).map(([key, name, tone]) => {
    const now = recent(recentHistory, recentHistory.links[key]);
    const peak = recentHistory.link_peaks[key] || 0;
    const limit = limits[key] || peak;
    const share = limit > 0 ? Math.min(1, now / limit) : 0;
    const bar = element('i', {});
    bar.style.width = (100 * share).toFixed(1) + '%';
    const against = limits[key] ? `of ${byteRate(limit)} allowed` : peak > 0 ? `of ${byteRate(peak)} seen` : 'not used yet';
    return element(
      'div', {class: `link c-${tone}`, 'data-link': key},
      element(
        'div', {},
        element('div', {class: 'name'}, element('span', {}, name), element('span', {}, element('b', {}, byteRate(now)), element('span', {class: 'muted'}, ' ' + against))),
        element('div', {class: 'bar', role: 'img', 'aria-label': `${name}: ${percent(share)} of ${limits[key] ? 'the limit' : 'the highest rate'}`}, bar)),
      spark(history.links[key], tone, Math.max(...history.links[key], 0)));
  }));
}

const LATENCIES = {
  get: ['get', 'from the request for blocks to their leases'],
  reserve: ['reserve', 'from the request for slots to the slots'],
  commit: ['commit', 'from the end of the writing until the block is visible'],
  offload: ['offload', 'from the request to copy blocks from a GPU to the copies'],
  onboard: ['onboard', 'from the request to copy blocks to a GPU to the copies'],
  load_ssd: ['load from SSD', 'a block, in the pipeline'],
  store_ssd: ['store on SSD', 'a block, in the pipeline'],
  load_object: ['load object', 'a block, its wait included'],
  store_object: ['store object', 'a block, its wait included'],
  load_node: ['load from a node', 'a block, its wait included'],
  deliver_node: ['deliver to a node', 'a block that the node expects, from its last layer to its arrival'],
};

function showLatency(data) {
  const {stats, history} = data;
  const kinds = Object.keys(stats.latency || {}).filter((kind) => stats.latency[kind].count > 0);
  const chosen = kinds.includes(chosenLatency) ? chosenLatency : kinds[0] || 'get';
  const [name, meaning] = LATENCIES[chosen] || [chosen, ''];
  setText(byId('latency-meaning'), kinds.length > 0 ? `${name}: ${meaning}` : '');
  const series = history.latency[chosen];
  charts.latency.show(timeSeries(history, {
    series: [
      {name: 'median', tone: 'gpu', values: series.p50_ns},
      {name: '99th percentile', tone: 'tail', values: series.p99_ns, dashed: true},
    ],
    yKind: 'log', yText: (ns) => latency(ns).replace('.00', '').replace('.0', ''), tipText: latency,
    nothing: kinds.length === 0 ? 'No operation has been timed yet.' : series.p50_ns.every(isGap) ? `No ${name} in this time.` : '',
  }));
  const rows = kinds.map((kind) => {
    const one = stats.latency[kind];
    const pick = element('button', {
      type: 'button', class: 'pick', 'aria-pressed': String(kind === chosen), 'data-key': kind,
    }, (LATENCIES[kind] || [kind])[0]);
    pick.addEventListener('click', () => {
      chosenLatency = kind;
      showLatency(data);
    });
    return [pick, number(one.count), latency(one.p50_ns), latency(one.p90_ns), latency(one.p99_ns), latency(one.p999_ns), latency(one.max_ns)];
  });
  renew(byId('latency-table'), rows.length === 0 ? '' : table('Latency percentiles since the start', [
    {title: 'Since the start'}, {title: 'Count', kind: 'number', extra: true}, {title: 'p50', kind: 'number'},
    {title: 'p90', kind: 'number', extra: true}, {title: 'p99', kind: 'number'}, {title: 'p99.9', kind: 'number', extra: true},
    {title: 'Max', kind: 'number'},
  ], rows));
}

const REASONS = [
  ['evictions', 'evicted from memory', 'host', 'the copy in host memory was removed; most blocks are in a lower tier'],
  ['ssd_evictions', 'evicted from SSD', 'ssd', 'the copy on SSD was removed'],
  ['spilled', 'uploaded from SSD', 'object', 'evicted from SSD after an upload to the object store'],
  ['not_admitted', 'not admitted to SSD', 'other', 'refused by the admission policy'],
  ['deleted', 'deleted by clients', 'gpu', 'deleted or cleared'],
  ['dropped', 'dropped', 'bad', 'removed from the last tier that held them'],
];

/** Both columns are of one moment: what left in a time can't be more than what left since the start. */
function showEvictions({stats, history}) {
  const known = new Set(tiersOf(stats));
  const reasons = REASONS.filter(([key]) => !(['ssd_evictions', 'not_admitted', 'spilled'].includes(key) && !known.has('ssd')) && !(key === 'spilled' && !known.has('object')));
  const moving = reasons.filter(([key]) => sum(history.rates[key]) > 0);
  charts.evictions.show(timeSeries(history, {
    series: moving.map(([key, name, tone]) => ({name, tone, values: history.rates[key], dashed: tone === 'bad'})),
    yKind: 'linear', yText: (value) => scaled(value, 1000, ['', 'k', 'M']).trim(), tipText: rate,
    nothing: moving.length === 0 ? 'No block left in this time.' : '',
  }));
  renew(byId('evictions-table'), table('Blocks that left a tier, by reason', [
    {title: 'Reason'}, {title: 'What it means', kind: 'text', extra: true}, {title: `In ${spanText(history)}`, kind: 'number'},
    {title: 'Since the start', kind: 'number'},
  ], reasons.map(([key, name, , meaning]) => [name, meaning, number(total(history, key)), number(history.since_start[key])])));
}

function showWhatIf({stats, whatIf}) {
  const place = byId('whatif');
  if (stats.tenants) {
    charts.whatIf = {};
    renew(place, none('Not available with tenants: each tenant has a part of every tier, and a simulated tier has no parts.'));
    return;
  }
  const tiers = stats.tiers.map((tier) => [tier, whatIf.filter((one) => one.tier === tier.tier && one.references > 0)]).filter(([, all]) => all.length > 0);
  if (tiers.length === 0) {
    charts.whatIf = {};
    renew(place, none('The simulated tiers have seen no requests yet.'));
    return;
  }
  const wanted = tiers.map(([tier]) => tier.tier).join();
  if (place.dataset.tiers !== wanted || !place.querySelector('.curves')) {
    place.dataset.tiers = wanted;
    charts.whatIf = {};
    const all = element('div', {class: 'curves'});
    for (const [tier] of tiers) {
      const name = TIER_NAMES[tier.tier] || tier.tier;
      const box = element('div', {}, element('h3', {}, name));
      charts.whatIf[tier.tier] = new Chart(box, `What if ${name} had another size`);
      box.append(element('p', {'data-whatif': tier.tier}));
      all.append(box);
    }
    place.replaceChildren(all);
  }
  for (const [tier, all] of tiers) {
    const ratio = (one) => one.prefix_hits / one.references;
    const leader = (all.find((one) => one.factor !== 1) || all[0]).policy;
    const factors = [...new Set(all.map((one) => one.factor))].sort((a, b) => a - b);
    const find = (policy, factor) => all.find((one) => one.policy === policy && one.factor === factor);
    const at = (policy, factor) => {
      const one = find(policy, factor);
      return one ? ratio(one) : null;
    };
    const others = all.filter((one) => one.factor === 1 && one.policy !== leader).sort((a, b) => ratio(b) - ratio(a));
    const series = [{name: leader, tone: tier.tier, values: factors.map((factor) => at(leader, factor))}];
    if (others.length > 0) {
      series.push({name: `best other: ${others[0].policy}`, tone: 'other', dots: true, values: factors.map((factor) => at(others[0].policy, factor))});
    }
    charts.whatIf[tier.tier].show({
      x: factors, xKind: 'log', xText: (factor) => factor + '×', mark: 1, series, yKind: 'linear',
      yText: (value) => number(100 * value, value > 0 && value < 0.1 ? 1 : 0).replace('.0', '') + ' %', tipText: percent,
    });
    const now = find(leader, 1);
    const twice = find(leader, 2);
    const sampled = (one) => `${number(one.references)} of ${number(one.offered)} references`;
    let text = `Sampled: ${sampled(all[0])}.`;
    if (now && twice) {
      // One that began later has seen other times, and fewer hits as long as it was empty.
      text = twice.offered < 0.9 * now.offered
        ? `The simulation of twice the size started later: it has seen ${number(twice.offered)} references, that of this size ${number(now.offered)}. They can't be compared yet.`
        : `Twice as large, it would hit ${percent(ratio(twice))} instead of ${percent(ratio(now))}. Sampled: ${sampled(now) === sampled(twice) ? sampled(now) : `${sampled(now)}; twice as large: ${sampled(twice)}`}.`;
    }
    setText(byId('whatif').querySelector(`[data-whatif="${tier.tier}"]`), text);
  }
}

const ROWS_MAX = 200;

function scrolling(rows, made) {
  return rows.length > 10 ? element('div', {class: 'scroll', tabindex: '0', role: 'group', 'aria-label': 'A table that scrolls', 'data-key': 'scroll'}, made) : made;
}

function showSessions({stats}) {
  const sessions = stats.sessions.filter((session) => session.id !== 0);
  const all = stats.counters.sessions;
  setText(byId('sessions-count'), sessions.length < all ? `${number(sessions.length)} of ${number(all)}` : number(sessions.length));
  const rows = sessions.slice(0, ROWS_MAX).map((session) => [
    session.name || '(no name)', String(session.pid), String(session.uid), number(session.requests), number(session.operations),
    number(session.leases), number(session.reservations + session.pins),
  ]);
  renew(byId('sessions'), rows.length === 0 ? none('No client is connected.') : scrolling(rows, table('Sessions', [
    {title: 'Name'}, {title: 'Process', kind: 'number'}, {title: 'User', kind: 'number'}, {title: 'Requests', kind: 'number'},
    {title: 'In flight', kind: 'number', says: 'operations in flight'}, {title: 'Leases', kind: 'number'},
    {title: 'Holds', kind: 'number', says: 'reservations and pins'},
  ], rows, true)));
}

function showNamespaces({stats}) {
  setText(byId('namespaces-count'), number(stats.namespaces_total));
  const inTier = (blocks, each) => blocks === 0 ? '0' : `${number(blocks)} · ${bytes(blocks * each)}`;
  const tenants = stats.tenants ? [{title: 'Tenant'}] : [];
  const ssd = tiersOf(stats).includes('ssd') ? [{title: 'On SSD', kind: 'number'}] : [];
  // The first have most bytes.
  const rows = stats.namespaces.slice(0, ROWS_MAX).map((one) => [
    one.name, ...tenants.map(() => one.tenant || NONE), bytes(one.block_bytes), inTier(one.host_blocks, one.block_bytes), ...ssd.map(() => inTier(one.ssd_blocks, one.block_bytes)),
    Object.entries(one.properties).filter(([key]) => key !== 'name').map(([key, value]) => `${key}=${value}`).join(', ') || NONE,
  ]);
  renew(byId('namespaces'), rows.length === 0 ? none('No client has registered one.') : scrolling(rows, table('Namespaces', [
    {title: 'Name'}, ...tenants, {title: 'Block', kind: 'number'}, {title: 'In memory', kind: 'number'}, ...ssd,
    {title: 'Properties', kind: 'text'},
  ], rows, true)));
}

/** The errors of lossy encodings. */
function showLosses({stats}) {
  const lossy = stats.namespaces.filter((one) => one.encoding_errors);
  byId('losses-panel').hidden = lossy.length === 0;
  const tenants = stats.tenants ? [{title: 'Tenant'}] : [];
  const ofLayer = (errors, error) => errors.length === 1 ? NONE : `${percent(error)} · layer ${errors.indexOf(error)}`;
  const rows = lossy.slice(0, ROWS_MAX).map(({name, tenant, encoding_errors: errors}) => [
    name, ...tenants.map(() => tenant || NONE), percent(sum(errors) / errors.length),
    ofLayer(errors, Math.min(...errors)), ofLayer(errors, Math.max(...errors)),
  ]);
  renew(byId('losses'), scrolling(rows, table('Errors of lossy encodings', [
    {title: 'Namespace'}, ...tenants, {title: 'Mean', kind: 'number'}, {title: 'Smallest', kind: 'number'}, {title: 'Largest', kind: 'number'},
  ], rows, true)));
}

/** What each tenant has of the tiers; they are told only to those who may see all of them. */
function showTenants({stats}) {
  const tenants = stats.tenants || [];
  byId('tenants-panel').hidden = tenants.length === 0;
  setText(byId('tenants-count'), number(stats.tenants_total || 0));
  const part = (one, tier) => one[`${tier}_bytes_capacity`] === 0 ? NONE : `${bytes(one[`${tier}_bytes_used`])} of ${bytes(one[`${tier}_bytes_capacity`])}`;
  const ssd = tiersOf(stats).includes('ssd') ? [{title: 'On SSD', kind: 'number'}] : [];
  const rows = tenants.slice(0, ROWS_MAX).map((one) => [one.name || '(of no tenant)', part(one, 'host'), ...ssd.map(() => part(one, 'ssd')), number(one.blocks)]);
  renew(byId('tenants'), scrolling(rows, table('Tenants', [
    {title: 'Name'}, {title: 'In memory', kind: 'number'}, ...ssd, {title: 'Blocks', kind: 'number'},
  ], rows, true)));
}

/** From which nodes this one reads, and which read here. */
function showNodes({nodes}) {
  const peers = nodes.peers.filter((peer) => peer.state !== 'self');
  byId('nodes-panel').hidden = peers.length === 0 && nodes.readers.length === 0;
  const connected = peers.filter((peer) => peer.state === 'connected').length;
  setText(byId('nodes-count'), `${number(connected)} of ${number(peers.length)} connected`);
  const rows = peers.slice(0, ROWS_MAX).map((peer) => [
    peer.name || peer.address, peer.why && peer.state !== 'connected' ? `${peer.state}: ${peer.why}` : peer.state,
    peer.round_trip_ns === 0 ? NONE : latency(peer.round_trip_ns), `${number(peer.blocks)} · ${bytes(peer.bytes)}`,
    `${number(peer.pushed_blocks)} · ${bytes(peer.pushed_bytes)}`, `${number(peer.hedges_won)} of ${number(peer.hedges)}`, number(peer.errors),
  ]);
  const readers = nodes.readers.slice(0, ROWS_MAX).map((reader) => [reader]);
  renew(
    byId('nodes'),
    rows.length === 0 ? none('This node reads from no other.') : scrolling(rows, table('Nodes that this one reads from', [
      {title: 'Read from'}, {title: 'State', kind: 'text'}, {title: 'Round trip', kind: 'number'}, {title: 'Read', kind: 'number'},
      {title: 'Pushed', kind: 'number'}, {title: 'First', kind: 'number', says: 'how often the node delivered first when it was asked because another one was late'},
      {title: 'Errors', kind: 'number'},
    ], rows, true)),
    readers.length === 0 ? none('No node reads here.') : scrolling(readers, table('Nodes that read here', [{title: 'Read here'}], readers, true)));
}

function showErrors({errors, daemonMs}) {
  const rows = errors.map((one) => {
    const last = Date.parse(one.last);
    const level = element('span', {class: `level ${one.level === 'ERROR' ? 'ERROR' : 'WARN'}`}, one.level === 'ERROR' ? 'error' : 'warning');
    return [level, `${clock(last)}, ${duration(Math.max(0, (daemonMs - last) / 1000))} ago`, number(one.count), one.source, one.text];
  });
  renew(byId('errors'), rows.length === 0 ? none('None since the start.') : scrolling(rows, table('Recent warnings and errors', [
    {title: 'Level'}, {title: 'Last', kind: 'short'}, {title: 'Times', kind: 'number'}, {title: 'From', kind: 'short'}, {title: 'What', kind: 'text'},
  ], rows, true)));
}

function showAll(data) {
  byId('content').classList.remove('stale');
  byId('content').setAttribute('aria-busy', 'false');
  showVerdict(verdictOf({...data, history: data.recentHistory}));
  showIdentity(data);
  for (const show of [showTiles, showStack, showHits, showLinks, showLatency, showEvictions, showWhatIf, showNodes, showSessions, showTenants, showNamespaces, showLosses, showErrors]) {
    show(data);
  }
}

// ---- asking

const EVERY_MS = 2000;
const PATIENCE_MS = 5000;
const RECENT_S = 300;
const SLOW_ROUNDS = 5;
const STEPS = {300: 5, 900: 10, 3600: 30};

/** The daemon answered that its index does not. */
class Refused extends Error {}

/** It tells only those who have a right to it. */
class Locked extends Error {}

/** Nothing came back. */
class Silent extends Error {}

async function ask(path) {
  const headers = state.token === '' ? {} : {Authorization: `Bearer ${state.token}`};
  let response;
  let text;
  try {
    response = await fetch(path, {headers, signal: AbortSignal.timeout(PATIENCE_MS), cache: 'no-store', credentials: 'same-origin'});
    text = await response.text();
  } catch (error) {
    throw new Silent(String(error));
  }
  if (response.status === 401 || response.status === 403) {
    throw new Locked(reasonOf(text) || `status ${response.status}`);
  }
  if (response.status === 503) {
    throw new Refused(reasonOf(text) || 'status 503');
  }
  if (!response.ok) {
    throw new Error(`${path} is answered by status ${response.status}: ${reasonOf(text) || 'without a reason'}`);
  }
  return JSON.parse(text);
}

/** Why a request was not answered, as the daemon says it; empty where who answered is another, such as a proxy. */
function reasonOf(text) {
  try {
    const body = JSON.parse(text);
    return body.detail || body.reason || '';
  } catch {
    return '';
  }
}

const state = {range: RECENT_S, isPaused: false, timer: 0, isAsking: false, isAskedAgain: false, lastMs: 0, silentSinceMs: 0, slow: {}, shown: null, token: '', isLocked: false};

const historyOf = (seconds) => ask(`/api/v1/history?seconds=${seconds}&step=${STEPS[seconds]}`);

/** What changes slowly is asked for now and then; another daemon has another generation. */
async function slowParts(generation) {
  if (state.slow.generation !== generation || state.slow.rounds >= SLOW_ROUNDS) {
    const [settings, whatIf] = await Promise.all([ask('/api/v1/config'), ask('/api/v1/whatif')]);
    state.slow = {generation, rounds: 0, config: Object.fromEntries(settings.map(({key, value}) => [key, value])), whatIf};
  }
  state.slow.rounds++;
  return state.slow;
}

async function gather() {
  const range = state.range;
  const [status, stats, recentHistory, {errors}, nodes] = await Promise.all(
    [ask('/api/v1/status'), ask('/api/v1/stats'), historyOf(RECENT_S), ask('/api/v1/errors'), ask('/api/v1/nodes')]);
  if (!stats.tiers) {
    throw new Refused('the index does not answer');
  }
  const history = range === RECENT_S ? recentHistory : await historyOf(range);
  const {config, whatIf} = await slowParts(status.generation);
  // How long ago something was is a matter of the daemon's clock: that of this machine may be another.
  const daemonMs = recentHistory.times_ms.at(-1) ?? Date.now();
  return {status, stats, recentHistory, history, errors, nodes, config, whatIf, daemonMs};
}

/** Asks for a token, and then the daemon no more until there is one: it counts calls without a right. */
function locked(error) {
  state.isLocked = true;
  state.token = '';
  byId('locked').hidden = false;
  byId('content').classList.toggle('stale', true);
  showVerdict({level: 'idle', title: 'Locked: this daemon requires a token', lines: [error.message]});
}

async function silent(error) {
  const now = Date.now();
  state.silentSinceMs = state.silentSinceMs || now;
  const lines = [];
  let title = 'Broken: the daemon does not answer';
  if (error instanceof Refused) {
    title = 'Broken: the index does not answer, so every get is a miss';
    lines.push(error.message);
    try {
      await ask('/healthz');
    } catch (worse) {
      lines.push(worse.message);
    }
  } else if (!(error instanceof Silent)) {
    // A defect of this page, or an answer that is no JSON: said as it is.
    title = 'This page can’t show what the daemon answers';
    lines.push(String(error));
  } else {
    lines.push(`No answer from ${location.host} since ${clock(state.lastMs || state.silentSinceMs)}: check whether kvtierd runs, and read the end of its log. Engines go on without it: every get is a miss.`);
  }
  const shown = state.lastMs > 0 ? `The figures below are from ${clock(state.lastMs)}.` : '';
  lines.push(`Trying again every ${EVERY_MS / 1000} s. ${shown}`.trim());
  byId('content').classList.toggle('stale', true);
  showVerdict({level: 'bad', title, lines});
}

async function round() {
  if (state.isLocked) {
    return;
  }
  if (state.isAsking) {
    // What is being asked for may not be what is wanted now.
    state.isAskedAgain = true;
    return;
  }
  state.isAsking = true;
  clearTimeout(state.timer);
  try {
    const data = await gather();
    // All times on the page are of the daemon's clock.
    state.lastMs = data.daemonMs;
    state.silentSinceMs = 0;
    state.shown = data;
    showAll(data);
  } catch (error) {
    if (error instanceof Locked) {
      locked(error);
    } else {
      await silent(error);
    }
  }
  state.isAsking = false;
  showFreshness();
  if (state.isAskedAgain) {
    state.isAskedAgain = false;
    round();
  } else if (!state.isPaused && !state.isLocked && !document.hidden) {
    state.timer = setTimeout(round, EVERY_MS);
  }
}

function showFreshness() {
  const when = state.lastMs > 0 ? `As of ${clock(state.lastMs)}` : 'No answer yet';
  setText(byId('freshness'), state.isPaused ? `${when}, paused` : when);
}

// ---- what the reader chooses

const THEMES = ['system', 'light', 'dark'];

function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Where nothing may be stored, the choice holds for this visit.
  }
}

function setTheme(theme) {
  if (theme === 'system') {
    delete document.documentElement.dataset.theme;
  } else {
    document.documentElement.dataset.theme = theme;
  }
  setText(byId('theme-name'), theme);
  byId('theme').setAttribute('aria-label', `Theme: ${theme}`);
}

function begin() {
  charts.hits = new Chart(byId('hits-chart'), 'Hit ratio by tier over time');
  charts.latency = new Chart(byId('latency-chart'), 'Latency over time');
  charts.evictions = new Chart(byId('evictions-chart'), 'Blocks that left a tier, by reason, over time');
  charts.whatIf = {};

  let theme = THEMES.includes(remembered('kvtier-theme')) ? remembered('kvtier-theme') : 'system';
  setTheme(theme);
  byId('theme').addEventListener('click', () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    setTheme(theme);
    remember('kvtier-theme', theme);
  });
  for (const button of document.querySelectorAll('[data-range]')) {
    button.addEventListener('click', () => {
      state.range = Number(button.dataset.range);
      document.querySelectorAll('[data-range]').forEach((one) => one.setAttribute('aria-pressed', String(one === button)));
      round();
    });
  }
  byId('pause').addEventListener('click', () => {
    state.isPaused = !state.isPaused;
    byId('pause').setAttribute('aria-pressed', String(state.isPaused));
    setText(byId('pause'), state.isPaused ? 'Go on' : 'Pause');
    if (state.isPaused) {
      clearTimeout(state.timer);
    } else {
      round();
    }
    showFreshness();
  });
  byId('locked-form').addEventListener('submit', (event) => {
    event.preventDefault();
    const given = byId('token').value.trim();
    byId('token').value = '';
    if (!/^[\x21-\x7e]+$/.test(given)) {
      // No header could have it: the browser would refuse to ask at all.
      locked(new Locked('That is no token: expected a word such as kvt_..., of letters without accents, digits, - and _.'));
      return;
    }
    state.token = given;
    state.isLocked = false;
    byId('locked').hidden = true;
    round();
  });
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden && !state.isPaused && !state.isLocked) {
      round();
    }
  });
  round();
}

begin();
