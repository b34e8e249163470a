"""Data-parallel training with PyTorch that Rota may stop, move, resize and suspend at any step.

It trains a small convolutional network on images that it makes up. Losses are the same with any
number of processes, up to rounding: the batch of a step follows from the step's number, and the
processes divide it among themselves.

    torchrun --nproc_per_node=2 train.py --steps 100       on a workstation
    rota submit -var dir=/shared/me train.hcl              on a cluster
"""

import argparse
import os
import signal
import sys

import rota  # every job finds it
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

CLASSES, SIZE = 10, 16
BATCH = 48  # of all processes together
PATTERNS = torch.randn(CLASSES, 1, SIZE, SIZE, generator=torch.Generator().manual_seed(1))


def batch_of(step, rank, world):
    """Return the images that a process takes in a step, and their classes: every world-th of the batch.

    The image of a class is its pattern with noise. Each step has a batch of its own.
    """
    made = torch.Generator().manual_seed(step)
    labels = torch.randint(CLASSES, (BATCH,), generator=made)
    images = PATTERNS[labels] + 8 * torch.randn(BATCH, 1, SIZE, SIZE, generator=made)
    return images[rank::world], labels[rank::world]


def make_model():
    # No batch normalisation: it would go by what one process sees of the batch.
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.GroupNorm(4, 16), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * SIZE * SIZE // 4, CLASSES),
    )


def save(path, step, model, optimizer):
    """Save the state after a step. Whatever happens meanwhile, the file is the old or the new one."""
    state = {"step": step, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".tmp", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--steps", type=int, default=400)
    args.add_argument("--every", type=int, default=50, help="steps between checkpoints")
    args.add_argument("--double", action="store_true", help="in double precision, to compare the losses of runs")
    args.add_argument("--checkpoint", default=os.environ.get("ROTA_CHECKPOINT_FILE", "model.pt"))
    args = args.parse_args()

    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    dtype = torch.float64 if args.double else torch.float32
    model = DistributedDataParallel(make_model().to(device, dtype))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.003, momentum=0.9)

    done = 0
    if os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint, map_location=device)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["step"]
    if rank == 0:
        print(f"begins after step {done} with {world} processes on {device.type}", flush=True)

    # torchrun passes the signal on with which Rota asks the job to stop. The processes must not stop
    # at it, each somewhere else, but all after the same step: rota.should_stop says after which.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pausable = rota.Pausable(model, optimizer)
    for step in range(done + 1, args.steps + 1):
        images, labels = batch_of(step, rank, world)
        images, labels = images.to(device, dtype), labels.to(device)
        # A process's part of the mean over the whole batch. DDP averages gradients, hence the factor.
        part = F.cross_entropy(model(images), labels, reduction="sum") / BATCH
        optimizer.zero_grad()
        (part * world).backward()
        optimizer.step()

        loss = part.detach().clone()
        dist.all_reduce(loss)
        if rank == 0:
            print(f"step {step} loss {loss.item():.9f}", flush=True)
            rota.step(step, loss=loss.item())
        pausable.pause_point()
        stop = step < args.steps and rota.should_stop()
        if stop or step % args.every == 0 or step == args.steps:
            if rank == 0:
                save(args.checkpoint, step, model, optimizer)
                rota.checkpointed(step)
        if stop:
            dist.barrier()  # none leaves before the state is saved
            sys.exit(rota.REQUEUE)
    if rank == 0:
        rota.finished()  # exit code 0 means that, also after a signal that came too late
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
