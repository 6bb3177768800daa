"""What long commands tell while they run."""

import io
import sys
import threading

from sw.cli.output import progress
from sw.runtime import progress as lines


def test_results_go_to_stdout_and_short_steps_nowhere(capsys):
    with progress() as say:
        say("x: compiling…")
        say("x: PASS")
    assert capsys.readouterr() == ("x: PASS\n", "")


def test_a_step_that_takes_long_is_a_line_where_nobody_watches(monkeypatch):
    said = threading.Event()
    text = []
    monkeypatch.setattr(lines, "PATIENCE_S", 0.0)
    monkeypatch.setattr(lines, "_print", lambda what: (text.append(what), said.set()))
    with progress() as say:
        say("x: compiling…")
        assert said.wait(60)
    assert text == ["x: compiling…"]


def test_a_step_that_has_ended_is_never_said(monkeypatch):
    started = []

    class Timer(threading.Timer):
        def start(self):
            started.append(self)

    monkeypatch.setattr(lines.threading, "Timer", Timer)
    with progress() as say:
        say("one…")
        say("two…")
    assert [(timer.args, timer.finished.is_set()) for timer in started] == [
        (["one…"], True),
        (["two…"], True),
    ]


def test_a_terminal_shows_the_step_under_way_and_keeps_results(monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress() as say:
        say("x: [compiling]…")
        say("x: PASS")
    assert "x: PASS" in screen.getvalue() + capsys.readouterr().out
    assert "x: [compiling]…" in screen.getvalue()
