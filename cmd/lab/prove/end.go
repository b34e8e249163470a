package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/replay"
)

// leavePatience is how long a shim may take to end after its container.
const leavePatience = 10 * time.Second

// end stops the cluster, decides its log again, and looks at what is left behind. Without whole
// nothing more is judged.
func (p *proof) end(ctx context.Context, whole bool) error {
	ctx = context.WithoutCancel(ctx)
	var left []string
	for tries := leavePatience / (100 * time.Millisecond); tries > 0 && whole && p.left(); tries-- {
		lab.Sleep(ctx, 100*time.Millisecond)
	}
	for _, name := range p.cluster.Containers() {
		left = append(left, "container "+name)
	}
	p.cluster.Term()
	left = append(left, p.cluster.LeftProcesses()...)
	if whole {
		p.replay(ctx)
	}
	var errs []error
	if p.keep != "" {
		errs = append(errs, p.keepAll())
	}
	errs = append(errs, p.cluster.Stop())
	left = append(left, p.cluster.Leftovers()...)
	if whole {
		p.tell("left behind", left, "containers, shims, processes, cgroups, mounts and network namespaces: %d", len(left))
	}
	return errors.Join(errs...)
}

// left reports whether a container or a shim is there.
func (p *proof) left() bool {
	daemons := controllers + nodes
	return len(p.cluster.Containers()) > 0 || len(p.cluster.LeftProcesses()) > daemons
}

// replay decides again what each controller has in its log.
func (p *proof) replay(ctx context.Context) {
	var wrong complaints
	plans, same, snapshots := 0, 0, 0
	for _, d := range p.cluster.Controllers {
		r, err := p.decideAgain(ctx, d)
		if err != nil {
			wrong.add("%s: %v", d.Name, err)
			continue
		}
		if r.Plans == 0 || r.Identical+r.OutOfReach != r.Plans || !r.Same() {
			wrong.add("%s: %d of %d plans are the same; %v %s", d.Name, r.Identical, r.Plans, r.First, r.State)
		}
		plans, same, snapshots = plans+r.Plans, same+r.Identical, snapshots+r.Snapshots
	}
	p.tell("live equals simulated", wrong, "%s in %d logs repeated, %d identical to the byte; %s compared",
		countText(plans, "plan"), controllers, same, countText(snapshots, "snapshot"))
}

// decideAgain runs the simulator on what a controller has left on disk. A report that tells of a
// difference is no error.
func (p *proof) decideAgain(ctx context.Context, d *lab.Daemon) (*replay.Report, error) {
	var r replay.Report
	var said strings.Builder
	cmd := p.cluster.Rota(ctx, "sim", "--from-log", d.Data, "-o", "json")
	cmd.Stderr = &said
	out, err := cmd.Output()
	if bad := json.Unmarshal(out, &r); bad != nil {
		return nil, fmt.Errorf("%w: %s%s", errors.Join(err, bad), out, said.String())
	}
	if err != nil && r.Same() {
		return nil, fmt.Errorf("%w, and the report has no difference: %s", err, said.String())
	}
	return &r, nil
}

// keepAll keeps the logs of the daemons, the data of the controllers, and what the jobs wrote.
func (p *proof) keepAll() error {
	errs := []error{p.cluster.KeepLogs(p.keep)}
	dirs := []string{p.shared}
	for _, d := range p.cluster.Controllers {
		dirs = append(dirs, d.Data)
	}
	for _, dir := range dirs {
		to := filepath.Join(p.keep, filepath.Base(dir))
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		errs = append(errs, os.CopyFS(to, os.DirFS(dir)))
	}
	return errors.Join(slices.Concat(errs, []error{p.keepEvents()})...)
}

// keepEvents writes the events that were seen, a line each.
func (p *proof) keepEvents() error {
	if p.log == nil {
		return nil
	}
	f, err := os.Create(filepath.Join(p.keep, "events.jsonl"))
	if err != nil {
		return err
	}
	enc := json.NewEncoder(f)
	for _, e := range p.log.sorted() {
		err = errors.Join(err, enc.Encode(e))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("keep events: %w", err)
	}
	return nil
}
