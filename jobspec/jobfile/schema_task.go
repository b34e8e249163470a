package jobfile

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile"
	"github.com/rota-hpc/rota/jobspec/template"
)

var taskSchema = hclfile.For[jobspec.Task](&hclfile.Block{
	Elsewhere: map[string]string{
		"driver": "leave it out: every task runs in a container",
		"config": "write command = [...] and image = ... in the task itself",
		"user":   "leave it out: a task runs as the user that submits it", "args": "write them into command",
	},
	Attrs: []hclfile.Attr{
		hclfile.Named("image").
			MayDefer().With("the host's root, read-only", "absolute path of a directory with a root file system"),
		hclfile.Named("command").MayDefer().With("", "program and arguments; no shell comes between"),
		hclfile.WrittenAs(hclfile.Text("script", "string", setScript),
			func(t *jobspec.Task) any { return lines(t.Script) }).MayDefer().
			With("", "script, run by its `#!` line, or by `/bin/bash -euo pipefail` if it has none; at most 1 MiB"),
		hclfile.Text("script_file", "path", readScript).As("script").MayDefer().
			With("", "file with such a script, below the job file's directory; nothing in it is interpolated"),
		hclfile.Named("user").With("the submitter", "must be the submitter in this version"),
		hclfile.Named("leader").With("true for the first main task", "the worker ends when this task ends"),
		hclfile.Named("kill_signal").With("SIGTERM", "sent at the time limit and at `rota cancel`"),
		hclfile.Named("kill_timeout").AtLeastOne().With("30s", "time between that signal and the kill"),
		hclfile.Later("entrypoint", "write the whole command"),
		hclfile.Later("writable", "leave it out: write below /tmp or a shared path"),
	},
	Blocks: []hclfile.Nested{
		hclfile.NamedBlock("lifecycle", "lifecycle", "makes the task run before, alongside or after the main tasks",
			lifecycleSchema),
		implied(hclfile.NamedBlock("launch", "launch", "sets how many processes a worker starts", launchSchema)),
		{
			Name: "env", Body: envBody(), Doc: "variables for the program",
			Enter: func(parent any, _ string) (any, string) { return parent, "env" },
		},
		implied(hclfile.NamedBlock("resources", "resources", "resources of each worker", resourcesSchema)),
		hclfile.NamedBlock("mount", "mounts", "a directory made visible in the container", mountSchema),
		hclfile.NamedBlock("secret", "secrets",
			"a secret text that is read on the node with your rights, and is stored nowhere else", secretSchema),
		hclfile.NamedBlock("ulimit", "ulimits", "limits of the program's processes", ulimitSchema),
		hclfile.NamedBlock("terminal", "terminal", "the program runs at a terminal, which `rota attach` shows; "+
			"it is in no log",
			terminalSchema),
		implied(hclfile.NamedBlock("log", "log", "where output goes", logSchema)),
		hclfile.NamedBlock("progress", "progress",
			"how the program reports its progress; $ROTA_PROGRESS_FILE is read even without this block", progressSchema),
		hclfile.LaterBlock("constraint", "write it in the group: all tasks of a worker run on one node"),
	},
})

// envBody is the content of the env block, whose values may hold references.
func envBody() *hclfile.Block {
	body := hclfile.FreeBlock[jobspec.Task]("env")
	body.Deferred = true
	return body
}

func setScript(t *jobspec.Task, text string, _ hclfile.Source) error {
	switch {
	case t.Script != "":
		return errors.New("the task has script and script_file; keep one of them")
	case text == "":
		return errors.New("it has nothing to run")
	}
	t.Script = text
	return nil
}

func readScript(t *jobspec.Task, name string, from hclfile.Source) error {
	if refs := template.References(name); len(refs) > 0 {
		return fmt.Errorf("the file is read when the job is submitted, and %s is only known once it runs", refs[0])
	}
	text, err := from.ReadFile(name)
	if err != nil {
		return err
	}
	return setScript(t, from.Literal(string(hclfile.UnixText(text))), from)
}

var resourcesSchema = hclfile.For[jobspec.Resources](&hclfile.Block{
	Elsewhere: map[string]string{
		"cpu": "write cores = ..., whole ones", "cpus": "write cores = ...", "mem": "write memory = ...",
		"memory_mb": "write memory = ... with a unit",
		"device":    "write gpus = ...", "gres": "write gpus = ...",
		"licenses": "write licenses = { NAME = COUNT } in the job",
	},
	Attrs: []hclfile.Attr{
		hclfile.Named("cores").AtLeastOne().With("1", "whole cores"),
		hclfile.Named("memory").AtLeastOne().
			With("4GiB for each core", "memory limit, beyond which the kernel kills processes; for all memory of a node write "+
				"`exclusive = true` in the group"),
		hclfile.Named("shm").AtLeastOne().With("half of memory", "size of /dev/shm; counts as memory"),
		hclfile.Named("tmp").AtLeastOne().With("half of memory", "size of /tmp; counts as memory"),
		hclfile.Later("swap", "leave it out: jobs do not swap"),
		hclfile.WrittenAs(hclfile.Text("rdma", "string", func(r *jobspec.Resources, text string, _ hclfile.Source) error {
			r.RDMA = text
			return nil
		}), func(r *jobspec.Resources) any { return r.RDMA }).
			With("none", "`all`: the node's InfiniBand and RoCE devices, and as much locked memory as the node allows; `none`"),
		hclfile.WrittenAs(hclfile.Text("gpus", "number", setGPUs), func(r *jobspec.Resources) any {
			switch {
			case partOnly(r):
				return shareOf(r)
			case r.GPU != nil:
				return nil // the count is in the gpu block
			}
			return unless(r.GPUs, 0)
		}).With("0", "whole GPUs, all on one node; `0.5`: half a GPU, of its time and its memory"),
	},
	Blocks: []hclfile.Nested{
		{
			Name: "gpu", Excludes: "gpus", Body: gpuSchema, Doc: "GPUs of a certain kind",
			Enter: func(parent any, _ string) (any, string) {
				r := parent.(*jobspec.Resources)
				r.GPUs, r.GPU = max(r.GPUs, 1), &jobspec.GPU{}
				return r, ""
			},
			Written: func(parent any) []hclfile.Written {
				if r := parent.(*jobspec.Resources); r.GPU == nil || partOnly(r) {
					return nil
				}
				return []hclfile.Written{{Target: parent}}
			},
		},
	},
})

// gpuOf returns the requirements on GPUs, or empty requirements.
func gpuOf(r *jobspec.Resources) *jobspec.GPU { return cmp.Or(r.GPU, &jobspec.GPU{}) }

// setGPUs parses a number of whole GPUs, or a part of one GPU.
func setGPUs(r *jobspec.Resources, text string, _ hclfile.Source) error {
	return r.SetGPUs(text)
}

func setShare(r *jobspec.Resources, text string, _ hclfile.Source) error {
	share, err := jobspec.ParseShare(text)
	if share < jobspec.WholeGPU {
		gpuOf(r).Share = share
	}
	return err
}

// shareOf returns a part of a GPU in the form of a job file; nil for whole GPUs.
func shareOf(r *jobspec.Resources) any {
	if g := gpuOf(r); g.Share > 0 {
		return float64(g.Share) / jobspec.WholeGPU
	}
	return nil
}

// partOnly reports whether the only requirement on the GPU is its share.
func partOnly(r *jobspec.Resources) bool {
	g := gpuOf(r)
	return r.GPUs == 1 && g.Share > 0 && *g == jobspec.GPU{Share: g.Share, MaxMemory: jobspec.PartOfMemory}
}

var gpuSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.WrittenAs(hclfile.Field("count", func(r *jobspec.Resources) *int { return &r.GPUs }),
			func(r *jobspec.Resources) any {
				return unless(r.GPUs, 1)
			}).AtLeastOne().As("gpus").With("1", "whole GPUs, on one node"),
		hclfile.Field("vendor", func(r *jobspec.Resources) *string { return &gpuOf(r).Vendor }).As("gpu.vendor").
			With("nvidia", "only `nvidia`"),
		hclfile.Field("model", func(r *jobspec.Resources) *string { return &gpuOf(r).Model }).As("gpu.model").
			With("any", "model, or any word of it, with `*` and `?`, as in `H100*`; upper and lower case are the same"),
		hclfile.Field("min_memory",
			func(r *jobspec.Resources) *jobspec.Bytes { return &gpuOf(r).MinMemory }).As("gpu.min_memory").AtLeastOne().
			With("any", "memory that each GPU must have"),
		hclfile.Later("min_compute", "name the model"),
		hclfile.Later("driver", "write a constraint on a label that the operator sets, with operator = \"version\""),
		hclfile.Later("nvlink", "name the model"),
		hclfile.WrittenAs(hclfile.Text("share", "number", setShare), shareOf).As("gpu.share").
			With("1", "part of one GPU, down to thousandths, such as `0.5`; other jobs may use the rest"),
		hclfile.Field("max_memory",
			func(r *jobspec.Resources) *jobspec.Bytes { return &gpuOf(r).MaxMemory }).As("gpu.max_memory").AtLeastOne().
			With("required with share", "most GPU memory that the job uses; a job that uses more is warned, then stopped"),
		hclfile.Later("mig", "ask for whole GPUs"),
		hclfile.Later("mps", "ask for whole GPUs"),
		hclfile.Later("compute_mode", "ask for whole GPUs"),
	},
}

var launchSchema = hclfile.For[jobspec.Launch](&hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Named("type").
			With("single", "`single`, `per_gpu` (a process per GPU), `slurm` (as srun does), `torchrun` (the script calls "+
				"torchrun itself), or `steps`. With `steps` the program runs once, on the first worker, and starts steps on all "+
				"workers with srun; other groups that start with its group may have `steps` without a program"),
		hclfile.WrittenAs(hclfile.Text("nproc", "int or \"gpu\"", setNproc), nproc).With("1",
			"processes on each worker; `\"gpu\"`: one per GPU"),
		hclfile.Named("max_restarts").With("0", "torchrun's own restarts"),
		hclfile.Named("port").With("from the node's range", "MASTER_PORT, 1024 to 65535"),
		hclfile.Named("rdzv").With("static", "torchrun's rendezvous, `static`, or `c10d` with one worker on a node"),
	},
})

func setNproc(l *jobspec.Launch, text string, _ hclfile.Source) error {
	if text == "gpu" {
		l.NprocGPU = true
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return fmt.Errorf("%.40q is neither a number of processes nor \"gpu\"", text)
	}
	l.Nproc = n
	return nil
}

// nproc returns the number of processes to write. Launch type per_gpu needs no number.
func nproc(l *jobspec.Launch) any {
	switch {
	case l.NprocGPU && l.Type == "per_gpu":
		return nil
	case l.NprocGPU:
		return "gpu"
	}
	return unless(l.Nproc, 1)
}

// unless returns the number to write, or nil for the default.
func unless(n, usual int) any {
	if n == usual {
		return nil
	}
	return n
}

var mountSchema = hclfile.For[jobspec.Mount](&hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Named("source").MayDefer().With("",
			"absolute path on the node that you can access, below a shared path even after links are resolved"),
		hclfile.Named("target").MayDefer().Must().With("",
			"absolute path in the container, not inside a shared path, another mount, or a directory that the container "+
				"itself needs, such as `/usr`, `/etc` and `/run`"),
		hclfile.Named("type").With("bind", "`bind` or `tmpfs`"),
		hclfile.Named("read_only").With("false", "refuse writes"),
		hclfile.Later("options", "only read_only is supported"),
	},
})

var logSchema = hclfile.For[jobspec.Log](&hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Named("stdout").
			MayDefer().With("kept by the node",
			"path with %j (job), %x (name), %u (user), %n (worker), %N (host), %r (restarts), %t (task), %A and %a (array "+
				"and element)"),
		hclfile.Named("stderr").MayDefer().With("with stdout", "the same for stderr; join must be false or left out"),
		hclfile.Named("join").With("true without stderr", "write both to the same place"),
		hclfile.Named("mode").With("append", "`append` or `truncate`, at the start of an attempt"),
		hclfile.Named("max_size").AtLeastOne().With("1GiB", "size at which the log is rotated"),
		hclfile.Named("keep").With("3", "rotated logs that are kept"),
	},
})

var progressSchema = hclfile.For[jobspec.Progress](&hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Named("file").MayDefer().
			With("$ROTA_PROGRESS_FILE", "file that the program writes: lines of JSON with `step` and `metrics`"),
		hclfile.Named("pattern").MayDefer().
			With("", "regular expression in RE2's syntax that reads progress from the output instead. It has a group named "+
				"`step`, and a group for each metric, as in `step (?P<step>\\d+) loss (?P<loss>\\S+)`"),
		hclfile.Named("metric").With("", "name of the metric to watch"),
		hclfile.Named("goal").With("", "`min` or `max`"),
		hclfile.Named("total").AtLeastOne().With("", "number of steps in all"),
	},
})

var lifecycleSchema = hclfile.For[jobspec.Lifecycle](&hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Named("hook").Must().
			With("", "`prestart` (must succeed before the main tasks begin), `poststart` (once they have begun) or `poststop` "+
				"(after they have ended)"),
		hclfile.Named("sidecar").
			With("false", "run as long as the main tasks do; it is stopped after them, and its exit code is ignored"),
	},
})

var secretSchema = hclfile.For[jobspec.Secret](&hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Named("source").MayDefer().Must().With("", "absolute path on the node of a file that you can read"),
		hclfile.Named("env").With("", "environment variable that holds the secret; instead of `file`"),
		hclfile.Named("file").MayDefer().
			With("/run/rota/secrets/NAME", "path in the container, directly below /run/rota/secrets, which is in memory"),
	},
})

var ulimitSchema = hclfile.For[jobspec.Ulimits](&hclfile.Block{
	Attrs: []hclfile.Attr{
		limit("memlock", func(u *jobspec.Ulimits) *jobspec.Bytes { return &u.Memlock },
			"8 MiB; with `rdma` as much as the node allows", "memory that may be locked, as RDMA needs"),
		hclfile.Named("nofile").AtLeastOne().With("65,536; the job may raise it to 524,288", "open files"),
		limit("stack", func(u *jobspec.Ulimits) *jobspec.Bytes { return &u.Stack }, "8 MiB; the job may raise it",
			"stack of a thread"),
		limit("core", func(u *jobspec.Ulimits) *jobspec.Bytes { return &u.Core }, "none; the job may raise it", "core file"),
	},
})

var terminalSchema = hclfile.For[jobspec.Terminal](&hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Named("rows").AtLeastOne().With("24", "its height in characters, until one is attached"),
		hclfile.Named("columns").AtLeastOne().With("80", "its width in characters, until one is attached"),
		hclfile.Named("hang_up").AtLeastOne().With("never", "the program gets SIGHUP after so long without an attached "+
			"terminal"),
	},
})

// unlimited is the word for "no limit".
const unlimited = "unlimited"

func limit(name string, into func(*jobspec.Ulimits) *jobspec.Bytes, unless, doc string) hclfile.Attr {
	return hclfile.WrittenAs(hclfile.Text(name, "size or \"unlimited\"",
		func(u *jobspec.Ulimits, text string, _ hclfile.Source) error {
			if text == unlimited {
				*into(u) = -1
				return nil
			}
			size, err := jobspec.ParseSize(text)
			if err == nil && size == 0 {
				return fmt.Errorf("%q is zero; write more, or leave it out", text)
			}
			*into(u) = size
			return err
		}), func(u *jobspec.Ulimits) any {
		if size := *into(u); size != -1 {
			return size
		}
		return unlimited
	}).With(unless, doc)
}
