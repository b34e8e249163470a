"""Makes the calls of dask-jobqueue's SLURMCluster: a script with directives, sbatch FILE, and scancel ID."""

import os
import re
import subprocess
import sys
import tempfile

from distributed import Client, Scheduler, SpecCluster
from distributed.deploy.spec import ProcessInterface


class SlurmJob(ProcessInterface):
    """A worker that is a job of Slurm."""

    def __init__(self, scheduler, name=None, **_):
        self.address, self.name, self.job = scheduler, name, None
        super().__init__(scheduler=scheduler, name=name)

    def script(self):
        here = os.getcwd()
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--nthreads", "1", "--memory-limit",
                  "400MB", "--name", str(self.name), "--no-nanny", "--no-dashboard", "--death-timeout", "60",
                  "--local-directory", here]
        return "\n".join([
            "#!/usr/bin/env bash", "", "#SBATCH -J dask-worker", f"#SBATCH -e {here}/dask-worker-%J.err",
            f"#SBATCH -o {here}/dask-worker-%J.out", "#SBATCH -n 1", "#SBATCH --cpus-per-task=1", "#SBATCH --mem=512M",
            "#SBATCH -t 00:10:00", "", " ".join(worker), ""])

    async def start(self):
        with tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False) as f:
            f.write(self.script())
        out = subprocess.run(["sbatch", f.name], check=True, stdout=subprocess.PIPE, text=True).stdout
        self.job = re.search(r"(?P<job_id>\d+)", out).group("job_id")
        await super().start()

    async def close(self):
        subprocess.run(["scancel", self.job], check=True)
        await super().close()


if __name__ == "__main__":
    cluster = SpecCluster(
        scheduler={"cls": Scheduler, "options": {"host": "127.0.0.1", "dashboard": False}},
        worker={"cls": SlurmJob}, name="slurm")
    cluster.scale(2)
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=120)
        print("sum", client.submit(sum, client.map(lambda x: x * x, range(10))).result(timeout=60))
        jobs = [w.job for w in cluster.workers.values()]
        print("jobs", len(set(jobs)))
    cluster.close()
