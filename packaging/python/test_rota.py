"""Tests of rota.py: python3 -m unittest, in this directory."""

import importlib
import json
import os
import socket
import sys
import tempfile
import threading
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(__file__))


class Job(unittest.TestCase):
    """A job with a progress file, a notice file and a socket at which the test is the node."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.progress = os.path.join(folder.name, "progress.jsonl")
        self.notice = os.path.join(folder.name, "notice.json")
        self.path = os.path.join(folder.name, "job.sock")
        open(self.progress, "w").close()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(self.listener.close)
        self.listener.bind(self.path)
        self.listener.listen()
        patch = mock.patch.dict(os.environ, {
            "ROTA_PROGRESS_FILE": self.progress, "ROTA_NOTICE_FILE": self.notice, "ROTA_SOCKET": self.path})
        patch.start()
        self.addCleanup(patch.stop)
        os.environ.pop("LOCAL_RANK", None)
        sys.modules.pop("rota", None)
        self.rota = importlib.import_module("rota")

    def lines(self):
        with open(self.progress) as file:
            return [json.loads(line) for line in file]

    def connect(self):
        """Call the first pause point, and return the node's end of the connection, once it is ready."""
        self.assertEqual(self.rota.pause_point(), 0)
        self.connection, _ = self.listener.accept()
        self.addCleanup(self.connection.close)
        self.answers = self.connection.makefile("r")
        self.addCleanup(self.answers.close)
        self.assertEqual(json.loads(self.answers.readline()), {"say": "ready", "number": 0})

    def order(self, do, number=0):
        self.connection.sendall((json.dumps({"do": do, "number": number}) + "\n").encode())

    def heard(self, want):
        """Wait until the job has read an order."""
        news = self.rota._switch._news
        with news:
            self.assertTrue(news.wait_for(want, timeout=10))


class Progress(Job):
    def test_steps_and_metrics_are_written(self):
        self.rota.step(3, loss=0.5, accuracy=1)
        self.rota.step(4)
        self.rota.checkpointed()
        self.rota.checkpointed(2)
        self.assertEqual(self.lines(), [
            {"step": 3, "metrics": {"loss": 0.5, "accuracy": 1.0}}, {"step": 4, "metrics": {}},
            {"step": 4, "saved_step": 4}, {"step": 4, "saved_step": 2}])

    def test_only_the_first_process_of_a_worker_reports(self):
        os.environ["LOCAL_RANK"] = "1"
        self.rota.step(3, loss=0.5)
        self.assertEqual(self.lines(), [])

    def test_outside_of_a_job_nothing_happens(self):
        with mock.patch.dict(os.environ, clear=True):
            self.rota.step(1, loss=2)
            self.rota.checkpointed()
            self.assertEqual(self.rota.pause_point(self.fail, self.fail), 0)
            self.assertFalse(self.rota.should_stop())

    def test_a_file_that_is_gone_is_named_once(self):
        os.environ["ROTA_PROGRESS_FILE"] = "/none"
        with mock.patch("builtins.print") as told:
            self.rota.step(1)
            self.rota.step(2)
        told.assert_called_once()

    def test_a_notice_stops_the_job(self):
        self.assertFalse(self.rota.should_stop())
        with open(self.notice, "w") as file:
            json.dump({"reason": "preempt"}, file)
        self.assertTrue(self.rota.should_stop())
        self.assertEqual(self.rota.notice()["reason"], "preempt")

    def test_a_time_limit_that_comes_stops_the_job(self):
        with open(self.notice, "w") as file:
            json.dump({"reason": "timeout", "deadline": "2026-03-01T08:00:00Z", "attempt": 1, "signal": "SIGUSR1"}, file)
        self.assertTrue(self.rota.should_stop())


class Pauses(Job):
    def test_it_pauses_and_goes_on(self):
        done = []
        self.connect()
        self.order("pause", 1)
        self.heard(lambda: self.rota._switch._number == 1)

        def node():
            self.assertEqual(json.loads(self.answers.readline()), {"say": "paused", "number": 1})
            done.append("told")
            self.order("resume", 2)

        thread = threading.Thread(target=node)
        thread.start()
        self.assertEqual(self.rota.pause_point(lambda: done.append("released"), lambda: done.append("resumed")), 1)
        thread.join()
        self.assertEqual(done, ["released", "told", "resumed"])
        self.assertEqual(json.loads(self.answers.readline()), {"say": "resumed", "number": 2})
        self.assertEqual(self.rota.pause_point(self.fail, self.fail), 0)

    def test_an_order_that_was_taken_back_is_nothing(self):
        self.connect()
        self.order("pause", 1)
        self.order("resume", 2)
        self.heard(lambda: self.rota._switch._number == 2)
        self.assertEqual(self.rota.pause_point(self.fail, self.fail), 0)
        self.assertEqual(json.loads(self.answers.readline()), {"say": "resumed", "number": 2})

    def test_told_to_pause_again_before_it_went_on_it_stays(self):
        done = []
        self.connect()
        self.order("pause", 1)
        self.heard(lambda: self.rota._switch._number == 1)

        def node():
            self.assertEqual(json.loads(self.answers.readline())["number"], 1)
            self.connection.sendall(b'{"do": "resume", "number": 2}\n{"do": "pause", "number": 3}\n')
            said = json.loads(self.answers.readline())
            while said["say"] != "paused":
                said = json.loads(self.answers.readline())
            self.order("resume", 4)

        thread = threading.Thread(target=node)
        thread.start()
        pauses = self.rota.pause_point(lambda: done.append("released"), lambda: done.append("resumed"))
        if pauses == 1:  # it saw the second order before the third
            pauses += self.rota.pause_point(lambda: done.append("released"), lambda: done.append("resumed"))
        thread.join()
        self.assertEqual(pauses, 2)
        self.assertEqual(done[-1], "resumed")
        self.assertEqual(done.count("released"), done.count("resumed"))

    def test_a_job_that_must_stop_does_not_take_its_gpus_again(self):
        self.connect()
        self.order("pause", 1)
        self.heard(lambda: self.rota._switch._number == 1)

        def node():
            self.answers.readline()
            with open(self.notice, "w") as file:
                json.dump({"reason": "cancel"}, file)
            self.order("stop")

        thread = threading.Thread(target=node)
        thread.start()
        self.assertEqual(self.rota.pause_point(None, self.fail), 1)
        thread.join()
        self.assertTrue(self.rota.should_stop())

    def test_a_node_that_is_gone_keeps_no_job(self):
        self.connect()
        self.order("pause", 1)
        self.heard(lambda: self.rota._switch._number == 1)
        thread = threading.Thread(target=lambda: (self.answers.readline(), self.connection.shutdown(socket.SHUT_RDWR)))
        thread.start()
        done = []
        self.assertEqual(self.rota.pause_point(lambda: done.append("release"), lambda: done.append("resume")), 1)
        thread.join()
        self.assertEqual(done, ["release", "resume"])  # it goes on, so it needs what it gave back
        self.assertFalse(self.rota.should_stop())

    def test_a_paused_job_that_is_stopped_saves(self):
        self.connect()
        self.order("pause", 1)
        self.heard(lambda: self.rota._switch._number == 1)
        thread = threading.Thread(target=lambda: (self.answers.readline(), self.order("stop")))
        thread.start()
        done = []
        self.assertEqual(self.rota.pause_point(lambda: done.append("release"), lambda: done.append("resume")), 1)
        thread.join()
        self.assertEqual(done, ["release"])
        self.assertTrue(self.rota.should_stop())

    def test_too_much_memory_is_no_stop(self):
        with open(self.notice, "w") as file:
            json.dump({"reason": "gpu_memory"}, file)
        self.assertEqual(self.rota.notice(), {"reason": "gpu_memory"})
        self.assertFalse(self.rota.should_stop())


class Callbacks(Job):
    """The callbacks, with stand-ins for frameworks that need gigabytes."""

    def modules(self, **named):
        patch = mock.patch.dict(sys.modules, {name.replace("_", "."): module for name, module in named.items()})
        patch.start()
        self.addCleanup(patch.stop)

    def stop(self):
        with open(self.notice, "w") as file:
            json.dump({"reason": "preempt"}, file)

    def test_lightning(self):
        self.modules(lightning=types.ModuleType("lightning"),
                     lightning_pytorch=types.SimpleNamespace(Callback=object))
        pausable = mock.patch.object(self.rota, "Pausable")
        pausable.start()
        self.addCleanup(pausable.stop)
        trainer = mock.Mock(global_step=7, optimizers=[])
        callback = self.rota.lightning_callback("/ck")
        callback.on_train_batch_end(trainer, None, {"loss": 0.25}, None, 0)
        trainer.save_checkpoint.assert_not_called()
        self.stop()
        with self.assertRaises(SystemExit) as end:
            callback.on_train_batch_end(trainer, None, {"loss": 0.25}, None, 1)
        self.assertEqual(end.exception.code, 85)
        trainer.save_checkpoint.assert_called_once_with("/ck")
        self.assertEqual(self.lines()[-1], {"step": 7, "saved_step": 7})

    def test_hugging_face(self):
        self.modules(transformers=types.SimpleNamespace(TrainerCallback=object))
        state, control = types.SimpleNamespace(global_step=5), types.SimpleNamespace()
        callback = self.rota.hugging_face_callback()
        callback.on_log(None, state, control, {"loss": 0.5, "note": "x"})
        callback.on_step_end(None, state, control)
        self.assertFalse(hasattr(control, "should_save"))
        callback.on_train_end(None, state, control)
        self.stop()
        callback.on_step_end(None, state, control)
        self.assertTrue(control.should_save and control.should_training_stop)
        callback.on_save(None, state, control)
        with self.assertRaises(SystemExit) as end:
            callback.on_train_end(None, state, control)
        self.assertEqual(end.exception.code, 85)
        self.assertEqual(self.lines(), [
            {"step": 5, "metrics": {"loss": 0.5}}, {"step": 5, "saved_step": 5}])


if __name__ == "__main__":
    unittest.main()
