"""Looks at the daemon's dashboard in a headless Chromium, in the states that operators meet; run by dashboard-check."""

import argparse
import base64
import hashlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kvtier_testing import process

import kvtier
from checks.shared.command_line import Arguments, number, run_tool
from checks.shared.content import KvContent

HOSTILE_SESSION = "<img src=x onerror=alert(1)>"
HOSTILE_NAMESPACE = "<script>alert(2)</script>\"'&"
HOSTILE_PROPERTY = "<b onmouseover=alert(3)>bf16</b>"
PATIENCE_S = 90.0
SCREENS = {"desktop": (1280, 800), "phone": (360, 740)}
THEMES = ("light", "dark")
STATES = ("empty", "loaded", "degraded", "locked", "tenants")


class Wrong(Exception):
    """The page is not as it should be; the message says where."""


def require(condition: object, words: str) -> None:
    if not condition:
        raise Wrong(words)


def eventually(condition: Callable[[], object], words: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        require(time.monotonic() < end, words)
        time.sleep(0.1)


# ---- the browser


class Browser:
    """A headless Chromium that is spoken to by the DevTools protocol over a pipe."""

    FLAGS = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--force-color-profile=srgb",
        "--remote-debugging-pipe",
    )

    def __init__(self, program: str, folder: Path) -> None:
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = shlex.join([program, *self.FLAGS, f"--user-data-dir={folder}", "about:blank"])
        # The browser reads its descriptor 3 and writes 4; the two are moved there over a pair that is in nobody's way.
        line = f"exec 13<&{to_browser} 14>&{from_browser} && exec {command} 3<&13 4>&14 13<&- 14>&-"
        with (folder.parent / "chromium.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", line],
                pass_fds=(to_browser, from_browser),
                stderr=log,
                stdout=log,
                stdin=subprocess.DEVNULL,
            )
        os.close(to_browser)
        os.close(from_browser)
        self._lock = threading.Condition()
        self._answers: dict[int, dict[str, Any]] = {}
        self._next = 0
        self._is_closed = False
        self.listener: Callable[[str, dict[str, Any]], None] = lambda method, params: None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        rest = b""
        while chunk := os.read(self._in, 1 << 20):
            *messages, rest = (rest + chunk).split(b"\0")
            for message in messages:
                told = json.loads(message)
                if "id" in told:
                    with self._lock:
                        self._answers[told["id"]] = told
                        self._lock.notify_all()
                else:
                    self.listener(told["method"], told.get("params", {}))
        with self._lock:
            self._is_closed = True
            self._lock.notify_all()

    def call(self, method: str, session: str | None = None, **params: object) -> dict[str, Any]:
        with self._lock:
            self._next += 1
            number = self._next
        message = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        with self._lock:
            done = self._lock.wait_for(lambda: number in self._answers or self._is_closed, PATIENCE_S)
            require(done and number in self._answers, f"the browser did not answer {method}")
            answer = self._answers.pop(number)
        require("error" not in answer, f"{method}: {answer.get('error')}")
        result: dict[str, Any] = answer["result"]
        return result

    def close(self) -> None:
        try:
            self.call("Browser.close")
            self._process.wait(10)
        except (Wrong, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()


class Page:
    """One tab, with all that it asked for and complained of."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.dialogs: list[str] = []
        self.held: list[str] = []
        self._instead: dict[str, tuple[int, str] | None] = {}
        browser.listener = self._told
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _told(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(str(details.get("exception", {}).get("description", details["text"])))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{params['entry']['text']} ({params['entry'].get('url', '')})")
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])
            threading.Thread(target=self.call, args=("Page.handleJavaScriptDialog",), kwargs={"accept": False}).start()
        elif method == "Fetch.requestPaused":
            threading.Thread(target=self._paused, args=(params,)).start()

    def _paused(self, params: dict[str, Any]) -> None:
        instead = next((one for path, one in self._instead.items() if path in params["request"]["url"]), None)
        if instead is None:
            self.held.append(params["requestId"])
            return
        status, body = instead
        coded = base64.b64encode(body.encode()).decode()
        self.call("Fetch.fulfillRequest", requestId=params["requestId"], responseCode=status, body=coded)

    @contextmanager
    def answering(self, path: str, instead: tuple[int, str] | None) -> Iterator[None]:
        """Has requests for a path answered by another than the daemon; None: not before this is over."""
        self._instead[path] = instead
        self.call("Fetch.enable", patterns=[{"urlPattern": f"*{path}*"}])
        try:
            yield
        finally:
            for request in self.held:
                self.call("Fetch.continueRequest", requestId=request)
            self.held.clear()
            self.call("Fetch.disable")
            del self._instead[path]

    def asked(self, path: str) -> int:
        """How often the page has asked for a path."""
        return sum(path in url for url in list(self.requests))

    def round(self) -> None:
        """Waits until the page has asked for everything anew, and shown it."""
        # When the one after the next begins, the next is over.
        wanted = self.asked("/api/v1/status") + 2
        eventually(lambda: self.asked("/api/v1/status") >= wanted, "the page asks no more")

    def drawn(self) -> None:
        """Waits until what has changed is drawn."""
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def call(self, method: str, **params: object) -> dict[str, Any]:
        return self._browser.call(method, self._session, **params)

    def value(self, expression: str) -> Any:
        """The value of an expression in the page. The page forbids eval; DevTools can evaluate all the same."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        require("exceptionDetails" not in answer, f"{expression}: {answer.get('exceptionDetails')}")
        return answer["result"].get("value")

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def screen(self, width: int, height: int, is_phone: bool) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=is_phone
        )

    def theme(self, theme: str, reduced_motion: bool = False) -> None:
        self.call(
            "Emulation.setEmulatedMedia",
            features=[
                {"name": "prefers-color-scheme", "value": theme},
                {"name": "prefers-reduced-motion", "value": "reduce" if reduced_motion else "no-preference"},
            ],
        )

    def until(self, expression: str, words: str, seconds: float = PATIENCE_S) -> None:
        end = time.monotonic() + seconds
        # While a page is being loaded there is nothing in it.
        while not self.value(f"(() => {{ try {{ return {expression}; }} catch {{ return false; }} }})()"):
            if time.monotonic() > end:
                raise Wrong(f"{words}; the page says: {self.value('document.body.innerText')[:600]}")
            time.sleep(0.2)

    def key(self, name: str) -> None:
        code = {"Tab": 9, "Enter": 13, "ArrowLeft": 37}[name]
        text = {"text": "\r"} if name == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, code=name, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, code=name, windowsVirtualKeyCode=code)

    def shot(self, path: Path) -> None:
        """The whole page, from top to end."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        made = self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip, optimizeForSpeed=False
        )
        path.write_bytes(base64.b64decode(made["data"]))


# ---- what holds in every state

FOCUSED = """(() => {
  const one = document.activeElement;
  return one === document.body ? '' : one.id || one.getAttribute('aria-label') || one.textContent;
})()"""

MOVING = """[...document.querySelectorAll('*')].map((one) => getComputedStyle(one))
  .filter((style) => parseFloat(style.transitionDuration) > 0 || style.animationName !== 'none').length"""

OVERFLOW = """(() => {
  const wide = document.documentElement.scrollWidth;
  const over = [...document.querySelectorAll('body *')].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1) && !one.closest('.unseen, .skip');
  });
  return {wide, width: innerWidth, over: over.slice(0, 5).map((one) => one.outerHTML.slice(0, 120))};
})()"""

# Text of one element over text of another, or cut off: of elements that hold text themselves.
OVERLAPS = """(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const boxes = [];
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const parent = node.parentElement;
    if (!node.data.trim() || !parent.checkVisibility()) continue;
    if (parent.closest('.unseen, .skip, script, noscript, .scroll, .tip')) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) {
      if (rect.width > 1) boxes.push({rect, text: node.data.trim().slice(0, 40), parent});
    }
  }
  const found = [];
  for (let i = 0; i < boxes.length; i++) {
    for (let j = i + 1; j < boxes.length && found.length < 5; j++) {
      const a = boxes[i].rect, b = boxes[j].rect;
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 2 && down > 4) found.push(boxes[i].text + ' | ' + boxes[j].text);
    }
  }
  return found;
})()"""

# Text whose contrast with what is behind it is too small (WCAG AA).
CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const one = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * one(r) + 0.7152 * one(g) + 0.0722 * one(b);
  };
  const low = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !parent.checkVisibility()) continue;
    if (parent.closest('.unseen, .skip, script, noscript, [aria-busy=true], .stale')) continue;
    let behind = parent;
    while (behind && rgb(getComputedStyle(behind).backgroundColor)[3] < 255) behind = behind.parentElement;
    const style = getComputedStyle(parent);
    const ground = light(rgb(getComputedStyle(behind || document.body).backgroundColor));
    const ink = light(rgb(parent instanceof SVGElement ? style.fill : style.color));
    const ratio = (Math.max(ground, ink) + 0.05) / (Math.min(ground, ink) + 0.05);
    const isLarge = parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 600;
    if (ratio < (isLarge ? 3 : 4.5)) low.set(walker.currentNode.data.trim().slice(0, 40), ratio.toFixed(2));
  }
  return [...low].slice(0, 8);
})()"""


class Look:
    """Looks at one page in both themes and on both screens, and keeps the pictures."""

    def __init__(self, page: Page, shots: Path) -> None:
        self._page = page
        self._shots = shots
        self.pictures: list[Path] = []

    def everywhere(self, state: str, complaints: bool = True, asks: bool = True) -> None:
        for screen, (width, height) in SCREENS.items():
            for theme in THEMES:
                self._page.screen(width, height, screen == "phone")
                self._page.theme(theme)
                # The next answer draws at the new width.
                if asks:
                    self._page.round()
                self._page.drawn()
                where = f"{state}, {theme}, {screen}"
                self._holds(where, width)
                path = self._shots / f"{state}-{theme}-{screen}.png"
                self._page.shot(path)
                self.pictures.append(path)
        if complaints:
            require(not self._page.complaints, f"{state}: the console has {self._page.complaints[:3]}")
        require(not self._page.dialogs, f"{state}: a script of a client ran: {self._page.dialogs}")

    def _holds(self, where: str, width: int) -> None:
        over = self._page.value(OVERFLOW)
        # A phone makes room for what is too wide, and shows it smaller.
        require(over["width"] == width, f"{where}: the page takes {over['width']} px of {width}: {over['over']}")
        require(
            over["wide"] <= over["width"],
            f"{where}: the page is {over['wide']} px wide of {over['width']}: {over['over']}",
        )
        require(not over["over"], f"{where}: these stand out of the page: {over['over']}")
        overlaps = self._page.value(OVERLAPS)
        require(not overlaps, f"{where}: texts overlap: {overlaps}")
        pale = self._page.value(CONTRAST)
        require(not pale, f"{where}: texts with too little contrast: {pale}")


# ---- the daemon


class Daemon:
    """A real daemon, started for one state."""

    def __init__(self, start: list[str], folder: Path, name: str, settings: dict[str, str], config: str) -> None:
        self.folder = folder / name
        (self.folder / "ssd").mkdir(parents=True)
        self.socket = self.folder / "sock"
        self._log = self.folder / "log"
        usual = {
            "host.bytes": "64MiB",
            "host.slab_bytes": "8MiB",
            "host.keep": "0",
            "ssd.bytes": "192MiB",
            "ssd.file_bytes": "32MiB",
            "ssd.directory": str(self.folder / "ssd"),
            "object.directory": str(self.folder / "object"),
            "limits.blocks": "50000",
            "grpc.enabled": "false",
            "http.port": "0",
        }
        self.config = self.folder / "kvtier.yaml"
        self.config.write_text(config or "# As it is by default.\n")
        command = process.command_of([*start, "--config", str(self.config)], self.socket, usual | settings)
        nobody = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nobody"}
        self._process, line = process.start(command, self._log, Wrong, nobody)
        address = process.http_address(line)
        if not address:
            self.stop()
            raise Wrong("the daemon's ready line does not say where HTTP is")
        self.url = f"http://{address}"

    def api(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)

    def rests(self) -> None:
        """Waits until nothing moves any more."""
        seen: list[object] = []

        def is_still() -> bool:
            stats = self.api("stats")
            moved = ("put_blocks", "demotions", "promotions", "object_stored", "object_fetched", "operations")
            used = [tier["bytes_used"] for tier in stats["tiers"]]
            seen.append([stats["counters"][name] for name in moved] + used)
            time.sleep(0.4)
            return len(seen) > 3 and all(one == seen[-1] for one in seen[-4:])

        eventually(is_still, "the daemon does not come to rest")

    def signal(self, which: int) -> None:
        self._process.send_signal(which)

    def stop(self) -> None:
        process.stop(self._process)


class Engines:
    """Two clients that look prompts up, get what is there and put the rest; their names are hostile."""

    def __init__(self, socket: Path) -> None:
        self._clients = [kvtier.Client(socket, name=name) for name in (HOSTILE_SESSION, "llama-70b, worker 0")]
        self._spaces = [
            self._clients[0].namespace(HOSTILE_NAMESPACE, block_bytes=64 << 10, dtype=HOSTILE_PROPERTY),
            self._clients[1].namespace("llama-70b", block_bytes=128 << 10, dtype="bf16", layers="80"),
        ]
        # In four layers of 16 granules.
        self._lossy = self._clients[1].namespace("llama-70b/fp8", block_bytes=256 << 10, encoding="fp8 bf16 4096", form="LCHND:4x16:2x8x256")
        self._random = random.Random(1)
        self._asked = 0
        self._data = {space.block_bytes: self._random.randbytes(space.block_bytes) for space in self._spaces}
        self._values = KvContent(self._lossy.block_bytes).block(b"values")

    def put_lossy(self) -> None:
        """Puts blocks that lose something, and has them written to SSD, which measures their errors."""
        keys = [hashlib.sha256(b"lossy %d" % number).digest() for number in range(32)]
        self._lossy.put(keys, [self._values] * len(keys))
        require(self._lossy.flush(timeout=PATIENCE_S).status is kvtier.Status.OK, "blocks of a lossy encoding are not written to SSD")

    def work(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            space = self._spaces[self._random.random() < 0.4]
            # Few prompts are asked for often, and many seldom; with time they are others.
            self._asked += 1
            prompt = int(600 * self._random.random() ** 3) + self._asked // 8
            keys = [hashlib.sha256(f"{prompt}:{i}".encode()).digest() for i in range(4 + prompt % 13)]
            found = space.lookup(keys).statuses
            there = [key for key, status in zip(keys, found, strict=True) if status is kvtier.Status.OK]
            if there:
                space.get(there, [bytearray(space.block_bytes) for _ in there])
                space.report_loads(kvtier.LoadReport(len(there), 16 * len(there), 0.02 * len(there), 0.001))
            absent = [key for key, status in zip(keys, found, strict=True) if status is not kvtier.Status.OK]
            if absent:
                space.put(absent, [self._data[space.block_bytes]] * len(absent))
            time.sleep(0.01)

    @contextmanager
    def working(self) -> Iterator[None]:
        """They work on meanwhile."""
        stopped = threading.Event()

        def go_on() -> None:
            while not stopped.is_set():
                self.work(0.5)

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()

    def close(self) -> None:
        for client in self._clients:
            client.close()


# ---- the states

ANSWERED = "document.getElementById('content').getAttribute('aria-busy') === 'false'"
TITLE = "document.getElementById('verdict-title').textContent"


def text_of(page: Page, selector: str) -> str:
    found = page.value(
        f"(document.querySelector({json.dumps(selector)}) || {{textContent: 'nothing at {selector}'}}).textContent"
    )
    return str(found).replace("\u00a0", " ")


def rows_of(page: Page, selector: str) -> list[list[str]]:
    """The texts of a table's cells."""
    row = "[...row.cells].map((cell) => cell.textContent.replaceAll('\\u00a0', ' '))"
    return list(page.value(f"[...document.querySelectorAll('{selector} tbody tr')].map((row) => {row})"))


def shown_bytes(value: float) -> str:
    """A size in the form of the page."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    at = 0
    while value >= 1024 and at < len(units) - 1:
        value /= 1024
        at += 1
    digits = 0 if at == 0 or value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {units[at]}"


def check_empty(page: Page, look: Look, daemon: Daemon) -> None:
    page.open(daemon.url)
    page.until(ANSWERED, "the page of an empty daemon did not fill")
    require(str(page.value(TITLE)).startswith("Empty"), f"an empty daemon is said to be: {page.value(TITLE)}")
    require(
        not page.value("document.getElementById('next').hidden"), "an empty daemon's page does not say what to do next"
    )
    require(str(daemon.socket) in text_of(page, "#next"), "what to do next does not name the socket")
    look.everywhere("empty")
    check_strange_answers(page)
    check_range(page)


def check_strange_answers(page: Page) -> None:
    """The page tells an answer of a proxy from an answer of the index."""
    for status, body, title, word in (
        (502, "<html>bad gateway</html>", "This page can’t show", "status 502"),
        (500, '{"detail": "a defect: x"}', "This page can’t show", "a defect: x"),
        (200, "<html>please log in</html>", "This page can’t show", "SyntaxError"),
        (503, '{"detail": "it has not answered"}', "Broken: the index does not answer", "it has not answered"),
    ):
        with page.answering("/api/v1/status", (status, body)):
            page.until(
                f"document.getElementById('verdict-lines').textContent.includes('{word}')",
                f"an answer of status {status} is not told with its reason",
            )
            told = str(page.value(TITLE))
            require(told.startswith(title), f"an answer of status {status} is told as '{told}'")
    page.until(f"{TITLE}.startsWith('Empty')", "a daemon that answers again is not shown")
    page.complaints = [one for one in page.complaints if "Failed to load" not in one]


def check_range(page: Page) -> None:
    """A range that is chosen during a request is shown next, also on a paused page."""
    page.call("Page.bringToFront")
    with page.answering("/api/v1/stats", None):
        eventually(lambda: page.held, "the page asks no more")
        page.value("document.getElementById('pause').click(), document.querySelector('[data-range=\"900\"]').click()")
    eventually(lambda: page.asked("seconds=900") > 0, "a range that was chosen during a request is not asked for")
    page.value("document.querySelector('[data-range=\"300\"]').click(), document.getElementById('pause').click()")


def check_benchmark(page: Page, daemon: Daemon) -> None:
    """A benchmark is no engine: it makes no daemon look useful."""
    with kvtier.Client(daemon.socket, timeout=30) as client:
        space = client.namespace("kvtier-bench", block_bytes=4096, purpose="kvtier bench")
        keys = [hashlib.sha256(bytes([number])).digest() for number in range(20)]
        space.put(keys, bytes(20 * 4096))
        for _ in range(20):
            require(space.lookup(keys).run == 20, "a benchmark does not find its blocks")
        page.until(f"{TITLE}.startsWith('Idle: no engine asked for a block')", "a benchmark counts in the verdict")
        space.clear()


def check_loaded(page: Page, look: Look, daemon: Daemon, seconds: float) -> None:
    page.open(daemon.url)
    check_benchmark(page, daemon)
    engines = Engines(daemon.socket)
    try:
        require(page.value("document.getElementById('losses-panel').hidden"), "errors of lossy encodings are shown without one")
        engines.put_lossy()
        engines.work(seconds)
        with engines.working():
            page.until(f"{ANSWERED} && {TITLE}.startsWith('Helps: saved ')", "a daemon that is of use is not said to be")
            require(re.search(r"^Helps: saved \S+ \S+( \S+ \S+)? of prefill in the last ", text_of(page, "#verdict-title")) is not None, text_of(page, "#verdict-title"))
            look.everywhere("loaded")
            check_hover(page)
            check_keyboard(page)
        # At rest, what is shown must come to be what the API says.
        daemon.rests()
        check_values(page, daemon)
        check_reload(page, daemon)
        check_names(page)
        check_motion(page)
        check_hidden(page)
    finally:
        engines.close()


def check_values(page: Page, daemon: Daemon) -> None:
    page.screen(*SCREENS["desktop"], False)
    page.round()
    stats = daemon.api("stats")
    status = daemon.api("status")
    page.until(
        f"document.querySelector('[data-tile=\"Blocks stored\"] p').textContent === '{stats['counters']['blocks']:,}'",
        "the page does not show how many blocks there are",
    )
    identity = text_of(page, "#identity")
    require(status["version"] in identity and f"process {status['pid']}" in identity, f"the header says {identity}")
    for tier in stats["tiers"]:
        shown = text_of(page, f"[data-tier={tier['tier']}]")
        for part in (
            shown_bytes(tier["bytes_used"]),
            shown_bytes(tier["bytes_capacity"]),
            f"{tier['slots_resident']:,} blocks",
            tier["policy"],
        ):
            require(part in shown, f"the tier {tier['tier']} shows '{shown}', without '{part}'")
    require(stats["object"]["store"] in text_of(page, "[data-tier=object]"), "the object store is not named")
    sessions = [one for one in stats["sessions"] if one["id"]]
    rows = rows_of(page, "#sessions")
    require(len(rows) == len(sessions), f"{len(rows)} of {len(sessions)} sessions are shown")
    for session, row in zip(sessions, rows, strict=True):
        expected = [session["name"], str(session["pid"]), str(session["uid"]), f"{session['requests']:,}"]
        require(row[:4] == expected, f"a session is shown as {row}, expected {expected}")
    spaces = {row[0]: row for row in rows_of(page, "#namespaces")}
    for one in stats["namespaces"]:
        row = spaces.get(one["name"], [])
        require(
            row and row[2].startswith(f"{one['host_blocks']:,}") and row[3].startswith(f"{one['ssd_blocks']:,}"),
            f"{one} is shown as {row}",
        )
    check_losses(page, stats)
    latencies = {row[0]: row for row in rows_of(page, "#latency-table")}
    for kind, name in (
        ("get", "get"),
        ("commit", "commit"),
        ("store_ssd", "store on SSD"),
        ("store_object", "store object"),
    ):
        require(latencies[name][1] == f"{stats['latency'][kind]['count']:,}", f"{name} is shown as {latencies[name]}")
    lost = [[row[0], row[3]] for row in rows_of(page, "#evictions-table")]
    for key, name in (
        ("evictions", "evicted from memory"),
        ("ssd_evictions", "evicted from SSD"),
        ("dropped", "dropped"),
    ):
        require([name, f"{stats['counters'][key]:,}"] in lost, f"{key} {stats['counters'][key]} is not in {lost}")
    check_verdict(page, daemon)
    whatif = page.value("document.querySelectorAll('#whatif svg').length")
    require(whatif == 2, f"{whatif} what-if curves are shown, expected one for each of host and SSD")


def check_losses(page: Page, stats: dict[str, Any]) -> None:
    """The errors of a lossy encoding are shown, with the layers that lose least and most."""
    (errors,) = (one["encoding_errors"] for one in stats["namespaces"] if "encoding_errors" in one)
    require(len(errors) == 4, f"four layers have the errors {errors}")
    (row,) = rows_of(page, "#losses")
    least, most = min(errors), max(errors)
    expected = [f"{100 * sum(errors) / 4:.1f} %", *(f"{100 * error:.1f} % · layer {errors.index(error)}" for error in (least, most))]
    require(row == ["llama-70b/fp8", *expected], f"errors of a lossy encoding are shown as {row}, expected {expected}")


def check_verdict(page: Page, daemon: Daemon) -> None:
    """The share of hits in the title is that of the history which the page has got. Each history begins at another sample."""
    path = "/api/v1/history"
    asked = next(url for url in reversed(page.requests) if path in url).partition("/api/v1/")[2]
    history = daemon.api(asked)
    looked, hits = (history["amounts"][name] - history["amounts"][f"tool_{name}"] for name in ("lookup_blocks", "lookup_hits"))
    share = 100 * hits / looked
    with page.answering(path, (200, json.dumps(history))):
        page.round()
        title = text_of(page, "#verdict-title")
    said = re.search(r"([0-9.]+) % of looked-up blocks", title)
    # The page shows whole percents from 10 % on.
    require(said and abs(float(said[1]) - share) <= 0.51, f"{title} is said of {share:.1f} %")


def check_reload(page: Page, daemon: Daemon) -> None:
    """A configuration that was read again is shown without the page being opened again."""
    link = "[data-link=object_read]"
    require("allowed" not in text_of(page, link), f"there is no limit, and the page says '{text_of(page, link)}'")
    daemon.config.write_text("object: {load_bytes_per_second: 1.5GiB}\n")
    daemon.signal(signal.SIGHUP)
    page.until(f"document.querySelector('{link}').textContent.includes('allowed')", "a reload is not shown")
    require("1.50 GiB/s allowed" in text_of(page, link), f"1.5GiB is shown as '{text_of(page, link)}'")


def check_names(page: Page) -> None:
    """Names that clients chose are shown as text."""
    body = str(page.value("document.body.textContent"))
    for name in (HOSTILE_SESSION, HOSTILE_NAMESPACE, HOSTILE_PROPERTY):
        require(name in body, f"{name} is not shown as text")
    require(
        page.value("document.querySelectorAll('main img, main script, main [onerror], main [onmouseover]').length")
        == 0,
        "a name became markup",
    )
    require(not page.dialogs, f"a script of a client ran: {page.dialogs}")


def check_hover(page: Page) -> None:
    page.screen(*SCREENS["desktop"], False)
    page.value("document.querySelector('#hits-chart').scrollIntoView({block: 'center'})")
    box = page.value("document.querySelector('#hits-chart .chart').getBoundingClientRect().toJSON()")
    page.call(
        "Input.dispatchMouseEvent",
        type="mouseMoved",
        x=box["left"] + box["width"] * 0.8,
        y=box["top"] + box["height"] / 2,
    )
    tip = text_of(page, "#hits-chart .tip")
    require(
        page.value("!document.querySelector('#hits-chart .tip').hidden") and "Host memory" in tip and "%" in tip,
        f"hovering shows '{tip}'",
    )
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)


def check_keyboard(page: Page) -> None:
    """All that can be operated is reached by Tab, shows that it has the focus, and is named."""
    page.value("(document.activeElement || document.body).blur(), scrollTo(0, 0)")
    reached: list[str] = []
    for _ in range(60):
        page.key("Tab")
        reached.append(page.value(FOCUSED))
        if reached[-1] == "":
            break
        require(
            page.value("getComputedStyle(document.activeElement).outlineStyle !== 'none'"),
            f"'{reached[-1]}' does not show that it has the focus",
        )
    for wanted in ("5 min", "1 h", "pause", "theme", "Hit ratio by tier over time", "readyz"):
        require(any(wanted in one for one in reached), f"'{wanted}' is not reached by Tab: {reached}")
    page.value("document.querySelector('#hits-chart .chart').focus()")
    page.key("ArrowLeft")
    spoken = text_of(page, "#hits-chart .unseen")
    require("Host memory" in spoken, f"the arrow keys read '{spoken}'")
    page.value("document.querySelector('#theme').focus()")
    for theme in ("light", "dark", None):
        page.key("Enter")
        require(
            page.value("document.documentElement.dataset.theme || null") == theme, f"the toggle does not set {theme}"
        )
    page.value("document.querySelector('[data-range=\"3600\"]').click()")
    page.until(
        "[...document.querySelectorAll('[data-range]')].map((one) => one.ariaPressed).join() === 'false,false,true'",
        "1 h is not chosen",
    )
    eventually(lambda: page.asked("seconds=3600") > 0, "1 h is not asked for")
    page.value("document.querySelector('[data-range=\"300\"]').click()")


def check_motion(page: Page) -> None:
    page.theme("light", reduced_motion=True)
    moving = page.value(MOVING)
    require(moving == 0, f"{moving} elements move though less motion is wished for")


def check_hidden(page: Page) -> None:
    """A page that nobody sees asks for nothing; a paused one neither: not within two of its rounds."""
    page.value("document.querySelector('#pause').click()")
    time.sleep(3)
    before = len(page.requests)
    time.sleep(5)
    require(len(page.requests) == before, "a paused page goes on asking")
    page.value("document.querySelector('#pause').click()")
    eventually(lambda: len(page.requests) > before, "a page that goes on does not ask")
    page.value("Object.defineProperty(document, 'hidden', {configurable: true, get: () => true})")
    time.sleep(3)
    before = len(page.requests)
    time.sleep(5)
    require(len(page.requests) == before, "a hidden page goes on asking")
    page.value("delete document.hidden, document.dispatchEvent(new Event('visibilitychange'))")
    eventually(lambda: len(page.requests) > before, "a page that is seen again does not ask")


def check_degraded(page: Page, look: Look, daemon: Daemon, seconds: float) -> None:
    # The browser's clock is an hour ahead.
    ahead = "const now = Date.now; Date.now = () => now() + 3600e3;"
    script = page.call("Page.addScriptToEvaluateOnNewDocument", source=ahead)["identifier"]
    page.open(daemon.url)
    page.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    engines = Engines(daemon.socket)
    try:
        engines.work(seconds)
        with engines.working():
            page.until(
                f"{ANSWERED} && {TITLE}.startsWith('Degraded')", "an object store that does not answer is not told of"
            )
            words = text_of(page, "#verdict")
            require("Object store does not answer" in words, f"the page says '{words}'")
            require(
                page.value("document.getElementById('verdict').dataset.level") == "warn",
                "degraded does not look like a warning",
            )
            require(
                "does not answer" in text_of(page, "[data-tier=object]"), "the tier does not say what is wrong with it"
            )
            look.everywhere("degraded")
            ages = [row[1] for row in rows_of(page, "#errors")]
            old = [one for one in ages if "h " in one.partition(", ")[2]]
            require(ages and not old, f"warnings of the last minute are said to be from {old or 'never'}")
            hours = {re.sub(r".*?([0-9]{2}):[0-9]{2}(:[0-9]{2})?$", r"\1", text_of(page, "#freshness"))}
            hours |= set(re.findall(r"([0-9]{2}):[0-9]{2}:[0-9]{2}", text_of(page, "#hits-chart")))
            require(len(hours) == 1 or time.gmtime().tm_min in (59, 0, 1), f"the page shows the hours {hours}")
    finally:
        engines.close()


def check_silent(page: Page, look: Look, daemon: Daemon) -> None:
    """A daemon that hangs, goes on, and ends."""
    broken = f"{TITLE}.startsWith('Broken')"
    # From here on the browser itself complains about requests without an answer.
    require(not page.complaints, f"the console has {page.complaints[:3]}")
    daemon.signal(signal.SIGSTOP)
    page.until(broken, "a daemon that hangs is not said to be broken")
    daemon.signal(signal.SIGCONT)
    page.until(f"!{broken}", "a daemon that answers again is still said to be broken")
    daemon.stop()
    page.until(broken, "a daemon that is gone is not said to be broken")
    look.everywhere("gone", complaints=False)
    strange = [one for one in page.complaints if "net::ERR" not in one and "Failed to load" not in one]
    require(not strange, f"a daemon that is gone: the console has {strange[:3]}")


def check_locked(page: Page, look: Look, daemon: Daemon, token: str) -> None:
    """A daemon that tells only who has a token."""
    page.open(daemon.url)
    asks = "!document.getElementById('locked').hidden"
    page.until(asks, "the page does not ask for a token")
    require("requires a token" in text_of(page, "#verdict"), f"the page says '{text_of(page, '#verdict')}'")
    look.everywhere("locked", complaints=False, asks=False)
    no_token = f"{asks} && document.getElementById('verdict').textContent.includes('That is no token')"
    for given, outcome in (("kvt_wrong", asks), ("kvt_ключ", no_token), (token, f"!({asks}) && {ANSWERED}")):
        page.value(
            f"document.getElementById('token').value = {json.dumps(given)};"
            "document.getElementById('locked-form').requestSubmit(); true"
        )
        page.until(outcome, f"'{given[:9]}...' is not taken as it should be")
    strange = [one for one in page.complaints if "401" not in one]
    require(not strange, f"locked: the console has {strange[:3]}")


def check_tenants(page: Page, look: Look, daemon: Daemon) -> None:
    """A daemon that some share, by who may see all of them."""
    page.open(daemon.url)
    page.until(ANSWERED, "the page of a daemon with tenants did not fill")
    rows = {row[0]: row for row in rows_of(page, "#tenants")}
    require(rows.keys() == {"(of no tenant)", "blue", "green"}, f"these tenants are shown: {rows}")
    require("of 16.0 MiB" in rows["blue"][1] and "of 64.0 MiB" in rows["green"][2], f"their parts are shown as {rows}")
    require("Not available with tenants" in text_of(page, "#whatif"), f"what-if says '{text_of(page, '#whatif')}'")
    look.everywhere("tenants")


def make_token(kvtier: str, file: Path) -> str:
    command = [kvtier, "token", "make", "--name", "page", "--role", "read", "--file", str(file)]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    token = re.search(r"kvt_\S+", made.stdout)
    require(token, f"no token in '{made.stdout}'")
    assert token is not None
    return token[0]


def main() -> int:
    parser = Arguments(prog="dashboard-check", description=__doc__)
    parser.add_argument("--seconds", type=number, default=25, help="how long engines work before a look (default: 25)")
    parser.add_argument("--shots", type=Path, help="a folder for the pictures (default: one that is removed again)")
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome") or "chromium")
    parser.add_argument("--start", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--kvtier", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=STATES, action="append", help="a state to look at (default: all)")
    arguments = parser.parse_args()
    if shutil.which(arguments.chromium) is None:
        print(
            f"dashboard-check: '{arguments.chromium}' is no command: install Chromium (Debian: apt-get install chromium)"
            ", or name one by --chromium",
            file=sys.stderr,
        )
        return 2

    with tempfile.TemporaryDirectory(prefix="kvtier-dashboard.") as temporary:
        folder = Path(temporary)
        shots = arguments.shots or folder / "shots"
        shots.mkdir(parents=True, exist_ok=True)
        (folder / "profile").mkdir()
        browser = Browser(arguments.chromium, folder / "profile")
        daemon: Daemon | None = None
        start = [arguments.start]
        pictures = 0
        try:
            hosts: set[str] = set()
            for state in arguments.only or STATES:
                settings = {
                    "host.policy": "auto",
                    "ssd.policy": "auto",
                    "object.store": "folder",
                    "object.folder": str(folder / "objects"),
                }
                if state == "degraded":
                    # Nobody listens on the port of discard.
                    settings |= {
                        "object.store": "s3",
                        "object.s3.endpoint": "http://127.0.0.1:9",
                        "object.s3.bucket": "kv",
                    }
                token = config = ""
                if state == "locked":
                    token = make_token(arguments.kvtier, folder / "tokens")
                    settings["access.tokens"] = str(folder / "tokens")
                if state == "tenants":
                    config = (
                        "tenants: [{name: blue, host_bytes: 16MiB, ssd_bytes: 32MiB}, {name: green, host_bytes: 8MiB,"
                        " ssd_bytes: 64MiB}]\n"
                    )
                    settings["access.without_token"] = "admin"
                daemon = Daemon(start, folder, state, settings, config)
                page = Page(browser)
                look = Look(page, shots)
                if state == "empty":
                    check_empty(page, look, daemon)
                elif state == "loaded":
                    check_loaded(page, look, daemon, arguments.seconds)
                elif state == "locked":
                    check_locked(page, look, daemon, token)
                elif state == "tenants":
                    check_tenants(page, look, daemon)
                else:
                    check_degraded(page, look, daemon, arguments.seconds)
                    check_silent(page, look, daemon)
                others = {url for url in page.requests if not url.startswith(daemon.url + "/") and url != "about:blank"}
                require(not others, f"{state}: the page asked elsewhere: {sorted(others)[:3]}")
                hosts |= {url.split("/")[2] for url in page.requests if "://" in url}
                pictures += len(look.pictures)
                page.open("about:blank")
                daemon.stop()
                print(f"{state}: as it should be; {len(look.pictures)} pictures, {len(page.requests)} requests")
        except Wrong as wrong:
            print(f"dashboard-check: {wrong}", file=sys.stderr)
            return 1
        finally:
            browser.close()
            if daemon is not None:
                daemon.stop()
        print(f"the dashboard is as it should be: {pictures} pictures{f' in {shots}' if arguments.shots else ''}")
    return 0


if __name__ == "__main__":
    run_tool(main)
