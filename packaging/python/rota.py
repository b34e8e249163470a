"""What a training program says to Rota, and Rota to it.

Every job finds this module: `import rota`. Outside of a job all functions do nothing, so that the
same program runs on a workstation. It needs Python 3.8 and no other module; torch, lightning and
transformers are imported only by what is named after them.

    import rota

    for n, batch in enumerate(batches):
        loss = train(batch)
        rota.step(n, loss=loss)
        rota.pause_point()              # Rota may suspend the job here
        if rota.should_stop():          # it has to leave its node
            save(checkpoint)
            rota.checkpointed(n)
            sys.exit(rota.REQUEUE)      # and goes on from the checkpoint later

With torch.distributed, every rank must call pause_point and should_stop, and equally often: the
ranks agree in them, so that all pause or stop after the same mini-batch.

The same for programs in other languages is described in docs/environment.md.
"""

import json
import os
import socket
import sys
import threading

__all__ = [
    "REQUEUE", "Pausable", "checkpointed", "finished", "hugging_face_callback", "lightning_callback", "notice", "pause_point",
    "should_stop", "step",
]

#: The exit code of a job that has saved its state and is to be started again.
REQUEUE = 85


def step(n, loss=None, **metrics):
    """Report that step n is done, with the loss and other metrics of it.

    Only the first process of a worker reports; in the others this does nothing.
    """
    if loss is not None:
        metrics["loss"] = loss
    _progress.write({"step": int(n), "metrics": {name: float(value) for name, value in metrics.items()}})


def checkpointed(n=None):
    """Report that the state after step n is saved; n is the last reported step if it is left out."""
    n = _progress.last if n is None else int(n)
    if n is not None:
        _progress.write({"step": max(n, _progress.last or 0), "saved_step": n})


def finished():
    """Say that the job has done all that it had to do.

    If it has to leave for another job afterwards and exits with 0, it has completed. Without that word
    a job with a checkpoint block has only saved its state, and is started again.
    """
    _progress.write({"finished": True})


def notice():
    """Return why the job has to stop, as the dict in $ROTA_NOTICE_FILE; None if it may go on."""
    try:
        with open(os.environ["ROTA_NOTICE_FILE"], encoding="utf-8") as file:
            return json.load(file)
    except (KeyError, OSError, ValueError):
        return None


def should_stop():
    """Return whether the job has to save its state and exit with REQUEUE."""
    return _agree(0, _LEAVE if _switch.must_leave() else 0)[1] == _LEAVE


def pause_point(release=None, resume=None):
    """Let Rota suspend the job here, between two mini-batches. Return for how many times it did.

    release is called first, to give GPU memory back, and resume when the job goes on. A job that has
    to stop while it is suspended returns without resume: its state is where release has put it.
    """
    return _switch.pause_point(release, resume)


class Pausable:
    """Move the tensors of a PyTorch model and its optimizers to the host while the job is suspended.

    Gradients are dropped: pause between optimizer.step() and the next backward(). The buckets of
    DistributedDataParallel stay where they are.
    """

    def __init__(self, model, *optimizers):
        import torch

        self._torch, self._model, self._optimizers, self._home = torch, model, optimizers, {}

    def pause_point(self):
        """Do as rota.pause_point, with the tensors of this object."""
        return pause_point(self.release, self.resume)

    def release(self):
        """Move all tensors to the host, and give what PyTorch has kept of the GPU back."""
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=True)
        self._move(self._to_host)
        if self._torch.cuda.is_available():
            self._torch.cuda.empty_cache()

    def resume(self):
        """Move all tensors back."""
        self._move(self._to_home)
        self._home.clear()

    def _move(self, moved):
        for number, tensor in enumerate([*self._model.parameters(), *self._model.buffers()]):
            tensor.data = moved(("model", number), tensor.data)
        for place, optimizer in enumerate(self._optimizers):
            for number, state in enumerate(optimizer.state.values()):
                for key, value in state.items():
                    if self._torch.is_tensor(value):
                        state[key] = moved((place, number, key), value)

    def _to_host(self, name, tensor):
        self._home[name] = tensor.device
        return tensor.to("cpu")

    def _to_home(self, name, tensor):
        return tensor.to(self._home.get(name, tensor.device))


def lightning_callback(checkpoint=None):
    """Return a callback for lightning's Trainer.

    It reports steps and the loss, lets Rota suspend the job, and saves to the path checkpoint before
    it exits; the default is $ROTA_CHECKPOINT_FILE.
    """
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback

    class RotaCallback(Callback):
        _pausable = None

        def on_train_batch_end(self, trainer, module, outputs, *_):
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            step(trainer.global_step, loss=loss)
            if self._pausable is None:
                self._pausable = Pausable(module, *trainer.optimizers)
            self._pausable.pause_point()
            if should_stop():
                path = checkpoint or os.environ.get("ROTA_CHECKPOINT_FILE")
                if path:
                    trainer.save_checkpoint(path)
                    checkpointed(trainer.global_step)
                sys.exit(REQUEUE)

    return RotaCallback()


def hugging_face_callback():
    """Return a callback for the Trainer of Hugging Face's transformers.

    It reports steps and metrics, lets Rota suspend the job, and has the trainer save before it exits.
    Start the training with resume_from_checkpoint.
    """
    from transformers import TrainerCallback

    class RotaCallback(TrainerCallback):
        _pausable = None
        _stops = False

        def on_log(self, args, state, control, logs=None, **_):
            numbers = {k: v for k, v in (logs or {}).items() if isinstance(v, (int, float))}
            step(state.global_step, **numbers)

        def on_save(self, args, state, control, **_):
            checkpointed(state.global_step)

        def on_step_end(self, args, state, control, model=None, optimizer=None, **_):
            if self._pausable is None and model is not None and optimizer is not None:
                self._pausable = Pausable(model, optimizer)
            if self._pausable is not None:
                self._pausable.pause_point()
            if should_stop():
                self._stops = control.should_save = control.should_training_stop = True
            return control

        def on_train_end(self, args, state, control, **_):
            if self._stops:
                sys.exit(REQUEUE)

    return RotaCallback()


class _Progress:
    """The progress file, which the node reads."""

    def __init__(self):
        self.last = None
        self._file = None

    def write(self, line):
        self.last = line.get("step", self.last)
        path = os.environ.get("ROTA_PROGRESS_FILE")
        if not path or os.environ.get("LOCAL_RANK", "0") != "0":
            return
        try:
            if self._file is None:
                self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            os.write(self._file, (json.dumps(line) + "\n").encode())
        except OSError as err:
            _complain("progress cannot be reported", err)


class _Switch:
    """The job socket, by which the node has this process pause and go on."""

    def __init__(self):
        self._socket = None
        self._tried = False
        self._news = threading.Condition()
        self._number = 0  # of the last order: odd, it is to pause; even, to go on
        self._done = 0  # of the last one that was carried out
        self._stops = False  # it was told to save and leave
        self._lost = False  # the node can tell it nothing: it must not wait for that

    def pause_point(self, release, resume):
        self._connect()
        paused = 0
        while True:
            number, level = _agree(self._number, _LEAVE if self.must_leave() else _STAY if self._lost else 0)
            if level == _STAY and paused and resume:
                resume()
            if level or number <= self._done:
                return paused
            if number % 2 == 0:  # it was told to go on: an order to pause was taken back, or it has paused
                if paused and resume:
                    resume()
                self._done = number
                self._say("resumed", number)
                return paused
            if release and not paused:
                release()
            self._done, paused = number, paused + 1
            self._say("paused", number)
            with self._news:
                self._news.wait_for(lambda: self._number > number or self._stops or self._lost)

    def must_leave(self):
        reason = notice()
        return self._stops or reason is not None and reason.get("reason") != "gpu_memory"

    def _connect(self):
        if self._tried:
            return
        self._tried = True
        path = os.environ.get("ROTA_SOCKET")
        if not path:
            self._lost = True
            return
        try:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.connect(path)
        except OSError as err:
            self._socket, self._lost = None, True
            _complain("the job cannot be suspended", err)
            return
        self._say("ready", 0)
        threading.Thread(target=self._listen, name="rota", daemon=True).start()

    def _say(self, what, number):
        if self._socket is None:
            return
        try:
            self._socket.sendall((json.dumps({"say": what, "number": number}) + "\n").encode())
        except OSError as err:
            _complain("the node does not listen", err)

    def _listen(self):
        try:
            for line in self._socket.makefile("r", encoding="utf-8"):
                order = json.loads(line)
                with self._news:
                    if order.get("do") == "stop":
                        self._stops = True
                    else:
                        self._number = max(self._number, int(order.get("number", 0)))
                    self._news.notify_all()
        except (OSError, ValueError) as err:
            _complain("the node does not answer", err)
        with self._news:
            self._lost = True
            self._news.notify_all()


#: What a rank asks of the others in _agree: not to pause, since nothing can wake it; to save and leave.
_STAY, _LEAVE = 1, 2


def _agree(number, level):
    """Return the greatest number and the highest level that the ranks of torch.distributed have.

    What follows goes by these two alone, so that all ranks call this equally often.
    """
    global _group
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return number, level
    if distributed.get_world_size() == 1:
        return number, level
    world = distributed.group.WORLD
    if _group is None or _group[0] is not world:
        own = world if distributed.get_backend() == "gloo" else distributed.new_group(backend="gloo")
        _group = (world, own)
    tensor = torch.tensor([number, level], dtype=torch.int64)
    distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX, group=_group[1])
    return int(tensor[0]), int(tensor[1])


def _complain(what, err):
    if what not in _complaints:
        _complaints.add(what)
        print("rota: {}: {}".format(what, err), file=sys.stderr)


_group = None
_complaints = set()
_progress = _Progress()
_switch = _Switch()
