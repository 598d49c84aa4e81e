"""What is noticed of saves, and what of progress where nobody looks."""
import contextlib
import io
import tempfile
import threading
import time
import unittest
import unittest.mock
from pathlib import Path

import terminal
from student import watch


class Watch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name in watch.FOLDERS:
            (self.root / name / "inside").mkdir(parents=True)
        self.source = self.root / "stages/inside/a.cpp"
        self.source.write_text("one")

    def test_only_another_source_is_a_save(self):
        steps = iter([lambda: None, lambda: (self.root / "stages/a.cpp.swp").write_text("x"), lambda: self.source.write_text("two!"),
                      self.source.unlink])
        calls = []
        seen = watch.saves(self.root, lambda: calls.append(next(steps)()))
        next(seen)
        self.assertEqual(len(calls), 3)
        next(seen)
        self.assertEqual(len(calls), 4)

    def noticed(self, wait):
        """Seconds until a save is noticed."""
        seen = watch.saves(self.root, wait)
        timer = threading.Timer(0.3, lambda: self.source.write_text("another text"))
        timer.start()
        started = time.monotonic()
        next(seen)
        timer.join()
        return time.monotonic() - started

    def test_a_save_is_noticed_by_inotify(self):
        try:
            wait = watch.Inotify(self.root)
        except OSError as error:
            self.skipTest(str(error))
        self.assertGreater(self.noticed(wait), 0.2)

    def test_a_save_is_noticed_without_inotify(self):
        self.assertGreater(self.noticed(lambda: time.sleep(0.05)), 0.2)

    def test_where_there_is_no_inotify_it_polls(self):
        with unittest.mock.patch.object(watch, "Inotify", side_effect=OSError), \
             unittest.mock.patch.object(watch.time, "sleep") as sleep:
            watch.waiter(self.root)()
        sleep.assert_called_once_with(watch.EVERY)


class Progress(unittest.TestCase):
    def test_a_log_gets_a_line_now_and_then_and_none_for_what_is_over_at_once(self):
        now = [0.0]
        output = io.StringIO()
        with contextlib.redirect_stderr(output):
            show = terminal.Progress("building", clock=lambda: now[0])
            for second in range(1, 41):
                now[0] = second
                show.step(second, 40)
            show.end()
        self.assertEqual(output.getvalue(), "building: 3 of 40\nbuilding: 18 of 40\nbuilding: 33 of 40\n")


if __name__ == "__main__":
    unittest.main()
