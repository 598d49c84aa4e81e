"""Headless Chromium, as a person who clicks, types and looks. It is driven through a pipe, with the standard library."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One page. Every complaint of its console is in `complaints`."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        command_read, self.commands = os.pipe()
        self.answers, answer_write = os.pipe()
        self.process = subprocess.Popen(  # which reads commands from 3 and writes answers to 4
            ["sh", "-c", f'exec "$0" "$@" 3<&{command_read} 4>&{answer_write}', CHROMIUM, "--headless", "--no-sandbox",
             "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={self.folder}", "about:blank"],
            pass_fds=(command_read, answer_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(command_read)
        os.close(answer_write)
        self.number, self.rest, self.complaints, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        self.session = None
        self.call("Browser.close")
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, **params):
        """The result of a method of the DevTools protocol."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            self.note(answer)

    def read(self):
        while b"\0" not in self.rest:
            data = os.read(self.answers, 1 << 16)
            assert data, "the browser has ended"
            self.rest += data
        line, self.rest = self.rest.split(b"\0", 1)
        return json.loads(line)

    def note(self, event):
        entry = event.get("params", {}).get("entry", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(event["params"]["exceptionDetails"]))
        elif event.get("method") == "Log.entryAdded" and entry["level"] in ("warning", "error"):
            self.complaints.append(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, script, seconds=60):
        """Waits until the expression is true, and returns its value."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(script)
            if value:
                return value
            assert time.monotonic() < end, f"still not after {seconds} s: {script}"
            time.sleep(0.05)

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def look(self, width, height=900, dark=False):
        """A screen of this size, light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def press(self, key, code=None, modifiers=0, text=None):
        """A key goes down and up. modifiers: 2 is Control, 8 is Shift."""
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, modifiers=modifiers,
                      windowsVirtualKeyCode={"Enter": 13, "Escape": 27, "Tab": 9}.get(key, 0), **more)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def click(self, selector):
        """A click in the middle of an element, which is scrolled into view."""
        x, y = self.run(f"""(() => {{ const part = document.querySelector({json.dumps(selector)});
            part.scrollIntoView({{block: 'center'}}); const box = part.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2]; }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def photograph(self, whole=True):
        """A PNG file's bytes. whole: all of the page, and not only what the screen shows."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])
