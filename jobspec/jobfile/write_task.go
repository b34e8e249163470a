package jobfile

import "github.com/rota-hpc/rota/jobspec"

// task writes the task at a place of its group; usual is the place of the task that leads when nothing is said.
func (w *writer) task(t *jobspec.Task, place, usual int) {
	w.isTemplate = t.Template
	w.block("task", t.Name, func() {
		w.ref("image", t.Image)
		w.command(t.Command)
		w.script(t.Script)
		w.str("user", t.User, "")
		w.flag("leader", *t.Leader, place == usual)
		w.str("kill_signal", t.KillSignal, "SIGTERM")
		w.duration("kill_timeout", t.KillTimeout, jobspec.DefaultKillTimeout)
		if l := t.Lifecycle; l != nil {
			w.block("lifecycle", "", func() {
				w.str("hook", l.Hook, "")
				w.flag("sidecar", l.Sidecar, false)
			})
		}
		w.launch(t.Launch)
		w.entries("env", t.Env)
		w.resources(&t.Resources)
		w.mounts(t.Mounts)
		w.secrets(t.Secrets)
		w.ulimits(t.Ulimits)
		w.log(t.Log)
		w.progress(t.Progress)
	})
	w.isTemplate = false
}

func (w *writer) command(words []string) {
	if len(words) == 0 {
		return
	}
	open := make([]string, len(words))
	for i, word := range words {
		open[i] = opened(word, w.isTemplate)
	}
	w.list("command", open)
}

func (w *writer) script(text string) {
	if lines, ok := heredoc(text, w.isTemplate); ok {
		w.attr("script", lines)
		return
	}
	w.ref("script", text)
}

func (w *writer) launch(l *jobspec.Launch) {
	if *l == (jobspec.Launch{Type: "single", Nproc: 1}) {
		return
	}
	w.block("launch", "", func() {
		w.str("type", l.Type, "single")
		if l.NprocGPU && l.Type != "per_gpu" {
			w.str("nproc", "gpu", "")
		}
		w.num("nproc", max(l.Nproc, 1), 1)
		w.num("max_restarts", l.MaxRestarts, 0)
		w.num("port", l.Port, 0)
		w.str("rdzv", l.Rdzv, map[bool]string{true: "static"}[l.Type == "torchrun"])
	})
}

func (w *writer) resources(r *jobspec.Resources) {
	usual := jobspec.Resources{Cores: r.Cores}
	usual.Default()
	halves := jobspec.Resources{Cores: r.Cores, Memory: r.Memory}
	halves.Default()
	if *r == usual && r.Cores == 1 {
		return
	}
	w.block("resources", "", func() {
		w.num("cores", r.Cores, 1)
		w.size("memory", r.Memory, usual.Memory)
		w.size("shm", r.Shm, halves.Shm)
		w.size("tmp", r.Tmp, halves.Tmp)
		w.str("rdma", r.RDMA, "")
		if r.GPU == nil {
			w.num("gpus", r.GPUs, 0)
			return
		}
		w.block("gpu", "", func() {
			w.num("count", r.GPUs, 1)
			w.str("vendor", r.GPU.Vendor, "")
			w.str("model", r.GPU.Model, "")
			w.size("min_memory", r.GPU.MinMemory, 0)
		})
	})
}

func (w *writer) mounts(mounts []jobspec.Mount) {
	for _, m := range mounts {
		w.block("mount", "", func() {
			w.ref("source", m.Source)
			w.ref("target", m.Target)
			w.str("type", m.Type, "bind")
			w.flag("read_only", m.ReadOnly, false)
		})
	}
}

func (w *writer) secrets(secrets []jobspec.Secret) {
	for _, s := range secrets {
		w.block("secret", s.Name, func() {
			w.ref("source", s.Source)
			w.str("env", s.Env, "")
			if usual := (jobspec.Secret{Name: s.Name, Env: s.Env}); s.File != usual.SecretFile() {
				w.ref("file", s.File)
			}
		})
	}
}

func (w *writer) ulimits(u *jobspec.Ulimits) {
	if u == nil {
		return
	}
	w.block("ulimit", "", func() {
		w.limit("memlock", u.Memlock)
		w.num("nofile", int(u.Nofile), 0)
		w.limit("stack", u.Stack)
		w.limit("core", u.Core)
	})
}

func (w *writer) limit(name string, size jobspec.Bytes) {
	if size == -1 {
		w.str(name, unlimited, "")
		return
	}
	w.size(name, size, 0)
}

func (w *writer) log(l *jobspec.Log) {
	usual := jobspec.Task{Log: &jobspec.Log{Stderr: l.Stderr}}
	usual.Default()
	u := usual.Log
	if l.Stdout == "" && l.Stderr == "" && *l.Join == *u.Join && l.Mode == u.Mode && l.MaxSize == u.MaxSize && *l.Keep == *u.Keep {
		return
	}
	w.block("log", "", func() {
		w.ref("stdout", l.Stdout)
		w.ref("stderr", l.Stderr)
		w.flag("join", *l.Join, *u.Join)
		w.str("mode", l.Mode, u.Mode)
		w.size("max_size", l.MaxSize, u.MaxSize)
		w.num("keep", *l.Keep, *u.Keep)
	})
}

func (w *writer) progress(p *jobspec.Progress) {
	if p == nil {
		return
	}
	w.block("progress", "", func() {
		w.ref("file", p.File)
		w.ref("pattern", p.Pattern)
		w.str("metric", p.Metric, "")
		w.str("goal", p.Goal, "")
		w.num("total", int(p.Total), 0)
	})
}
