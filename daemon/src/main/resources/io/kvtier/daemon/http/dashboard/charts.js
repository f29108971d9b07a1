// The dashboard's parts: numbers as people read them, elements of the page, and charts. None of it knows what a daemon is.

// ---- numbers for people

export const NONE = '–';

/** Between a number and its unit, which stay on one line. */
export const SPACE = '\u00a0';

export function number(value, digits = 0) {
  return value.toLocaleString('en', {minimumFractionDigits: digits, maximumFractionDigits: digits});
}

/** Three figures that count, in the unit that suits; units go up by `step`. */
export function scaled(value, step, units) {
  let at = 0;
  while (Math.abs(value) >= step && at < units.length - 1) {
    value /= step;
    at++;
  }
  const digits = at === 0 || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return number(value, digits) + SPACE + units[at];
}

/** A number with its noun, such as 1 block or 2,000 blocks. */
export const counted = (value, noun) => `${number(value)} ${noun}${value === 1 ? '' : 's'}`;

export const bytes = (value) => scaled(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']);
/** In powers of 1024, as all sizes here and of the command line. */
export const byteRate = (value) => scaled(value, 1024, ['B/s', 'KiB/s', 'MiB/s', 'GiB/s', 'TiB/s']);

export function rate(value) {
  if (value === 0) {
    return '0';
  }
  return value < 10 ? number(value, 1) : number(value);
}

export const blockRate = (value) => rate(value) + ' blocks/s';

export function percent(share) {
  const value = 100 * share;
  return (value > 0 && value < 10 ? number(value, 1) : number(value)) + SPACE + '%';
}

export function latency(ns) {
  if (ns === null || ns === undefined) {
    return NONE;
  }
  return scaled(ns, 1000, ['ns', 'µs', 'ms', 's']);
}

export function duration(seconds) {
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const first = parts.findIndex(([length]) => seconds >= length);
  if (first < 0) {
    return '0 s';
  }
  const [length, unit] = parts[first];
  const text = Math.floor(seconds / length) + SPACE + unit;
  const rest = first + 1 < parts.length ? Math.floor((seconds % length) / parts[first + 1][0]) : 0;
  return rest > 0 ? text + ' ' + rest + SPACE + parts[first + 1][1] : text;
}

export function clock(ms, withSeconds = true) {
  return new Date(ms).toLocaleTimeString('en-GB', withSeconds ? {} : {hour: '2-digit', minute: '2-digit'});
}

export const sum = (values) => values.reduce((total, value) => total + (value || 0), 0);

// ---- the page's parts

export const byId = (id) => document.getElementById(id);

/** A text with what can't be seen, or turns the direction of reading, written as its number: clients choose names. */
export function printable(text) {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (sign) => [...Array(sign.length).keys()]
    .map((i) => '\\u' + sign.charCodeAt(i).toString(16).padStart(4, '0')).join(''));
}

const shown = (child) => (typeof child === 'string' ? printable(child) : child);

/** An element; what is not a node becomes text. */
export function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    made.setAttribute(name, value);
  }
  made.append(...children.map(shown));
  return made;
}

export function drawn(tag, attributes, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    made.setAttribute(name, value);
  }
  made.append(...children.map(shown));
  return made;
}

export function setText(node, words) {
  const text = shown(words);
  // Not touched where nothing changed: screen readers would say it again.
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

/**
 * A table. Columns: {title, says: more words, kind: 'number' | 'short' | 'text', extra: hidden on a phone}; a row is an array of
 * texts or nodes, the first of which names it.
 */
export function table(caption, columns, rows, asCards) {
  const head = element('tr', {});
  for (const column of columns) {
    const cell = element('th', {scope: 'col', class: classes(column)}, column.title);
    if (column.says) {
      cell.title = column.says;
    }
    head.append(cell);
  }
  const body = element('tbody', {});
  for (const row of rows) {
    const line = element('tr', {});
    row.forEach((value, i) => {
      const cell = i === 0
        ? element('th', {scope: 'row'}, value)
        : element('td', {class: classes(columns[i]), 'data-label': columns[i].title}, value);
      line.append(cell);
    });
    body.append(line);
  }
  return element(
    'table', {class: asCards ? 'cards' : ''},
    element('caption', {class: 'unseen'}, caption), element('thead', {}, head), body);
}

function classes(column) {
  return [column.kind || '', column.extra ? 'extra' : ''].join(' ').trim();
}

/** Puts new content in place; what had the focus, or was scrolled, keeps it. */
export function renew(place, ...children) {
  const held = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const scrolled = place.querySelector('.scroll');
  const top = scrolled ? scrolled.scrollTop : 0;
  place.replaceChildren(...children);
  if (held !== undefined) {
    const again = [...place.querySelectorAll('[data-key]')].find((one) => one.dataset.key === held);
    if (again) {
      again.focus({preventScroll: true});
    }
  }
  const scrollsNow = place.querySelector('.scroll');
  if (scrollsNow) {
    scrollsNow.scrollTop = top;
  }
}

export const none = (text) => element('p', {class: 'none'}, text);

// ---- charts

/**
 * Curves over a common x, as SVG, with axes, a legend that shows the newest values, and the values under the pointer or,
 * by the arrow keys, under the cursor.
 *
 * What it shows: {x, xKind: 'time' | 'log', xText, series: [{name, tone, values, dashed, dots}], stacked, sumName (of what is
 * stacked), newest (the time of the newest values, in words), yKind: 'linear' | 'log', yMax, yText, tipText, mark (an x), nothing
 * (why there is none)}; a value that is null is a gap.
 */
export class Chart {
  constructor(place, label) {
    this.legend = element('ul', {class: 'legend'});
    this.box = element('div', {
      class: 'chart', tabindex: '0', role: 'group',
      'aria-label': label + '. A chart: the left and right arrow keys read its values.',
    });
    this.spoken = element('p', {class: 'unseen', 'aria-live': 'polite'});
    this.at = null;
    place.append(this.legend, this.box, this.spoken);
    this.box.addEventListener('pointermove', (event) => this.point(event));
    this.box.addEventListener('pointerdown', (event) => this.point(event));
    this.box.addEventListener('pointerleave', () => this.leave());
    this.box.addEventListener('blur', () => this.leave());
    this.box.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  show(what) {
    this.what = what;
    this.draw();
  }

  // Where things stand, in pixels.

  measure() {
    this.width = this.box.clientWidth;
    this.height = this.box.clientHeight;
    this.left = 52;
    this.right = 8;
    this.top = 8;
    this.bottom = 22;
    const {x, xKind, series, stacked, yKind, yMax} = this.what;
    const log = xKind === 'log';
    this.xOf = log ? Math.log : (value) => value;
    this.xMin = this.xOf(x[0]);
    this.xMax = this.xOf(x[x.length - 1]);
    const all = series.flatMap((one) => one.values.filter((value) => value !== null));
    let most = Math.max(0, ...all);
    if (stacked) {
      most = Math.max(0, ...x.map((_, i) => sum(series.map((one) => one.values[i]))));
    }
    if (yKind === 'log') {
      const above = all.filter((value) => value > 0);
      this.yMin = 10 ** Math.floor(Math.log10(Math.min(1e6, ...above)));
      this.yMax = 10 ** Math.ceil(Math.log10(Math.max(this.yMin * 10, ...above)));
      this.ticks = [];
      const decades = Math.round(Math.log10(this.yMax / this.yMin));
      for (let i = 0; i <= decades; i += Math.ceil(decades / 6)) {
        this.ticks.push(this.yMin * 10 ** i);
      }
    } else {
      this.yMin = 0;
      const step = tickStep(yMax || most || 1);
      this.yMax = yMax || step * Math.ceil((most || 1) / step);
      this.ticks = [];
      for (let value = 0; value <= this.yMax * 1.001; value += step) {
        this.ticks.push(value);
      }
    }
  }

  px(i) {
    const span = this.xMax - this.xMin;
    const share = span > 0 ? (this.xOf(this.what.x[i]) - this.xMin) / span : 0.5;
    return this.left + share * (this.width - this.left - this.right);
  }

  py(value) {
    const span = this.height - this.top - this.bottom;
    const share = this.what.yKind === 'log'
      ? Math.log(Math.max(value, this.yMin) / this.yMin) / Math.log(this.yMax / this.yMin)
      : value / this.yMax;
    return this.height - this.bottom - Math.min(1, Math.max(0, share)) * span;
  }

  draw() {
    if (!this.what) {
      return;
    }
    const {x, series, nothing} = this.what;
    if (x.length < 2 || !series.some((one) => one.values.some((value) => value !== null)) || nothing) {
      this.box.replaceChildren(element('div', {class: 'nothing'}, nothing || 'Nothing to show yet.'));
      this.plot = null;
      this.legend.replaceChildren();
      return;
    }
    this.measure();
    if (this.width < 80 || this.height < 60) {
      return;
    }
    this.plot = drawn('svg', {viewBox: `0 0 ${this.width} ${this.height}`, 'aria-hidden': 'true'});
    this.axes();
    if (this.what.stacked) {
      this.areas();
    } else {
      series.forEach((one) => this.curve(one));
    }
    this.cross = drawn('g', {});
    this.plot.append(this.cross);
    this.tip = element('div', {class: 'tip', hidden: ''});
    this.box.replaceChildren(this.plot, this.tip);
    this.follow();
  }

  axes() {
    for (const tick of this.ticks) {
      const y = Math.round(this.py(tick)) + 0.5;
      this.plot.append(
        drawn('line', {class: 'gridline', x1: this.left, x2: this.width - this.right, y1: y, y2: y}),
        drawn('text', {x: this.left - 6, y: y + 4, 'text-anchor': 'end'}, this.what.yText(tick)));
    }
    const base = this.height - this.bottom + 0.5;
    this.plot.append(drawn('line', {class: 'axis', x1: this.left, x2: this.width - this.right, y1: base, y2: base}));
    const {x, xKind, xText, mark} = this.what;
    const places = xKind === 'log' ? x.map((_, i) => i) : timeTicks(x, this.width);
    for (const i of places) {
      const at = this.px(i);
      const isLast = at > this.width - 30;
      const isFirst = at < this.left + 16;
      this.plot.append(
        drawn('line', {class: 'axis', x1: at, x2: at, y1: base, y2: base + 4}),
        drawn(
          'text', {x: at, y: this.height - 5, 'text-anchor': isLast ? 'end' : isFirst ? 'start' : 'middle'}, xText(x[i])));
    }
    if (mark !== undefined && x.includes(mark)) {
      const at = this.px(x.indexOf(mark));
      this.plot.append(drawn('line', {class: 'mark', x1: at, x2: at, y1: this.top, y2: base}));
    }
  }

  curve(one) {
    if (!one.dots) {
      let path = '';
      let pen = 'M';
      one.values.forEach((value, i) => {
        if (value === null) {
          pen = 'M';
          return;
        }
        path += `${pen}${this.px(i).toFixed(1)} ${this.py(value).toFixed(1)}`;
        pen = 'L';
      });
      this.plot.append(drawn('path', {class: `curve c-${one.tone}${one.dashed ? ' dashed' : ''}`, d: path}));
    }
    one.values.forEach((value, i) => {
      const isAlone = value !== null && isGap(one.values[i - 1]) && isGap(one.values[i + 1]);
      if (value !== null && (one.dots || isAlone || this.what.xKind === 'log')) {
        this.plot.append(drawn('circle', {class: `dot c-${one.tone}`, cx: this.px(i), cy: this.py(value), r: one.dots ? 4 : 3}));
      }
    });
  }

  /** Each series on top of those before it; where there is none, there is a gap. */
  areas() {
    const below = this.what.x.map(() => 0);
    for (const one of this.what.series) {
      const above = below.map((value, i) => value + (one.values[i] || 0));
      let run = [];
      const flush = () => {
        if (run.length > 0) {
          const points = run.length > 1 ? run : [run[0], run[0]];
          const there = points.map((i) => `${this.px(i).toFixed(1)} ${this.py(above[i]).toFixed(1)}`);
          const back = points.map((i) => `${this.px(i).toFixed(1)} ${this.py(below[i]).toFixed(1)}`).reverse();
          this.plot.append(drawn('path', {class: `area c-${one.tone}`, d: 'M' + there.concat(back).join('L') + 'Z'}));
        }
        run = [];
      };
      one.values.forEach((value, i) => {
        if (value === null) {
          flush();
        } else {
          run.push(i);
        }
      });
      flush();
      above.forEach((value, i) => {
        below[i] = value;
      });
    }
  }

  // What is under the pointer.

  point(event) {
    if (!this.plot) {
      return;
    }
    const at = event.clientX - this.box.getBoundingClientRect().left;
    let nearest = 0;
    this.what.x.forEach((_, i) => {
      if (Math.abs(this.px(i) - at) < Math.abs(this.px(nearest) - at)) {
        nearest = i;
      }
    });
    // From the end: the curve moves on under a pointer that rests.
    this.at = this.what.x.length - 1 - nearest;
    this.follow();
  }

  leave() {
    this.at = null;
    this.follow();
  }

  key(event) {
    if (!this.plot) {
      return;
    }
    const last = this.what.x.length - 1;
    const now = this.at === null ? 0 : this.at;
    const next = {
      ArrowLeft: this.at === null ? 0 : now + 1, ArrowRight: now - 1, Home: last, End: 0, Escape: null,
    }[event.key];
    if (next === undefined) {
      return;
    }
    event.preventDefault();
    this.at = next === null ? null : Math.min(last, Math.max(0, next));
    this.follow();
    if (this.at !== null) {
      const i = last - this.at;
      setText(
        this.spoken,
        [this.what.xText(this.what.x[i], true), ...this.what.series.map((one) => `${one.name} ${this.valueText(one, i)}`)].join(', '));
    }
  }

  valueText(one, i) {
    const value = one.values[i];
    return value === null || value === undefined ? NONE : (this.what.tipText || this.what.yText)(value);
  }

  sumText(i) {
    const values = this.what.series.map((one) => one.values[i]);
    return values.every(isGap) ? NONE : (this.what.tipText || this.what.yText)(sum(values));
  }

  follow() {
    if (!this.plot) {
      return;
    }
    const {x, series} = this.what;
    const isShown = this.at !== null && this.at < x.length;
    const i = isShown ? x.length - 1 - this.at : x.length - 1;
    this.legend.replaceChildren(...series.map((one) => element(
      'li', {class: `c-${one.tone}`}, this.swatch(one), one.name,
      ...(this.what.xKind === 'log' ? [] : [element('b', {}, this.valueText(one, x.length - 1))]))));
    if (this.what.newest) {
      this.legend.prepend(element('li', {class: 'muted'}, this.what.newest));
    }
    if (this.what.sumName) {
      this.legend.append(element('li', {}, this.what.sumName, element('b', {}, this.sumText(x.length - 1))));
    }
    this.cross.replaceChildren();
    this.tip.hidden = !isShown;
    if (!isShown) {
      return;
    }
    const at = this.px(i);
    this.cross.append(drawn('line', {class: 'cross', x1: at, x2: at, y1: this.top, y2: this.height - this.bottom}));
    let below = 0;
    for (const one of series) {
      if (!isGap(one.values[i])) {
        below = this.what.stacked ? below + one.values[i] : one.values[i];
        this.cross.append(drawn('circle', {class: `dot c-${one.tone}`, cx: at, cy: this.py(below), r: 3.5}));
      }
    }
    const list = element('dl', {});
    for (const one of series) {
      list.append(
        element('span', {class: `c-${one.tone}`}, this.swatch(one)), element('dt', {}, one.name),
        element('dd', {}, this.valueText(one, i)));
    }
    if (this.what.sumName) {
      list.append(element('span', {}), element('dt', {}, this.what.sumName), element('dd', {}, this.sumText(i)));
    }
    this.tip.replaceChildren(element('div', {class: 'muted'}, this.what.xText(x[i], true)), list);
    const space = this.width - this.tip.offsetWidth;
    const beside = at + 10 <= space ? at + 10 : at - 10 - this.tip.offsetWidth;
    this.tip.style.left = Math.max(0, Math.min(space, beside)) + 'px';
  }

  swatch(one) {
    const kind = one.dots ? ' dot' : this.what.stacked ? '' : one.dashed ? ' dashed' : ' line';
    return element('span', {class: 'swatch' + kind, 'aria-hidden': 'true'});
  }
}

export const isGap = (value) => value === null || value === undefined;

/** Of four or five ticks up to a value, how far apart they are: 1, 2 or 5 of a power of ten. */
function tickStep(most) {
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((one) => one * power >= rough * 0.999);
}

/** Some points, evenly far apart, the last of them the newest. */
function timeTicks(x, width) {
  const wanted = Math.max(2, Math.min(6, Math.floor(width / 110)));
  const places = [];
  for (let i = 0; i < wanted; i++) {
    places.push(Math.round((i * (x.length - 1)) / (wanted - 1)));
  }
  return [...new Set(places)];
}

/** A small curve without axes. */
export function spark(values, tone, most) {
  const width = 110;
  const height = 34;
  const points = values.map((value, i) => {
    const x = values.length > 1 ? (i * width) / (values.length - 1) : width;
    return `${x.toFixed(1)} ${(height - 2 - (most > 0 ? (value / most) * (height - 4) : 0)).toFixed(1)}`;
  });
  const svg = drawn('svg', {
    class: `spark c-${tone}`, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true',
  });
  if (points.length > 1) {
    svg.append(
      drawn('path', {class: 'area', d: `M0 ${height}L${points.join('L')}L${width} ${height}Z`}),
      drawn('path', {d: 'M' + points.join('L')}));
  }
  return svg;
}
