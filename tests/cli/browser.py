# SPDX-License-Identifier: MIT
"""A headless Chromium, driven through a pipe with its DevTools protocol."""

import itertools
import json
import os
import select
import shutil
import subprocess
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SECONDS = 120  # without a message


def runs(path):
    """Whether a program is a browser: without its package, Ubuntu's chromium-browser only prints advice."""
    try:
        done = subprocess.run([path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and b"Chrom" in done.stdout


PROGRAM = next((found for name in NAMES if (found := shutil.which(name)) and runs(found)), None)


class Browser:
    """One page. `messages` collects the errors and warnings of its console."""

    def __init__(self, folder, program=PROGRAM, seconds=SECONDS):
        ours, theirs = os.pipe(), os.pipe()  # to the browser, from the browser

        def connect():
            # Copies first: an end may have the number 3 or 4.
            ends = os.dup(ours[0]), os.dup(theirs[1])
            for end, number in zip(ends, (3, 4)):
                os.dup2(end, number)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--remote-debugging-pipe", f"--user-data-dir={folder}", "--window-size=1400,1000"],
            preexec_fn=connect, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(ours[0])
        os.close(theirs[1])
        self.to, self.back = os.fdopen(ours[1], "wb"), os.fdopen(theirs[0], "rb", buffering=0)
        self.seconds, self.received = seconds, bytearray()
        self.numbers = itertools.count(1)
        self.session = None
        self.messages, self.events = [], []
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except (RuntimeError, OSError):
            self.kill()
            raise

    def close(self):
        self.session = None
        try:
            self.call("Browser.close")  # its processes end with it: none writes to the folder later
            self.process.wait(timeout=20)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.disconnect()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.disconnect()

    def disconnect(self):
        try:
            self.to.close()
        except OSError:  # what it did not read
            pass
        self.back.close()

    def receive(self):
        end = time.monotonic() + self.seconds
        while b"\0" not in self.received:
            if not select.select([self.back], [], [], max(end - time.monotonic(), 0))[0]:
                raise RuntimeError(f"the browser sent no message for {self.seconds} s")
            part = self.back.read(1 << 16)
            if not part:
                raise RuntimeError("the browser ended")
            self.received += part
        text, _, self.received = self.received.partition(b"\0")
        message = json.loads(text)
        name, values = message.get("method"), message.get("params", {})
        if name == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(values["exceptionDetails"]))
        if name == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.messages.append(json.dumps(values["args"]))
        if name == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.messages.append(values["entry"]["text"])
        if name == "Page.javascriptDialogOpening":
            self.messages.append(f"a dialog opened: {values['message']}")
        if name:
            self.events.append((name, values))
        return message

    def call(self, method, **values):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": values}
        if self.session:
            message["sessionId"] = self.session
        self.to.write(json.dumps(message).encode() + b"\0")
        self.to.flush()
        while True:
            answer = self.receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, path):
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not any(name == "Page.loadEventFired" for name, _ in self.events):
            self.receive()

    def requests(self):
        return [values["request"]["url"] for name, values in self.events if name == "Network.requestWillBeSent"]

    def value(self, script):
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in done:
            raise RuntimeError(json.dumps(done["exceptionDetails"]))
        return done["result"].get("value")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **text)
