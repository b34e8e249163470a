package noded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci"
)

// disk makes bundles and keeps logs below the data directory. It is the real Bundles.
type disk struct {
	containers string // a directory for each container
	logs       string // what is kept of ended ones
	cgroupRoot string
	node       oci.Node // what is the same for every container
	shared     []string
	gpus       func() []cluster.GPU
	log        *slog.Logger
}

var _ Bundles = (*disk)(nil)

// Build implements Bundles.
func (d *disk) Build(_ context.Context, id container.ID, a *api.Alloc, cores []int) (string, error) {
	dir := filepath.Join(d.containers, id.String())
	in := oci.Input{
		Job: a.Job, Attempt: a.Attempt, Worker: a.Worker, GPUs: a.GPUs, Owner: a.Owner, Spec: a.Spec, Account: a.Account, Queue: a.Queue,
		Class: a.Class, Nodes: a.Nodes, MasterAddr: a.MasterAddr, MasterPort: a.MasterPort, Restarts: a.Restarts, Start: a.Start,
		Limit: a.Limit, Cluster: a.Cluster, Node: d.node,
	}
	in.Node.GPUs, in.Node.Cores, in.Node.RunDir = d.gpus(), cores, container.RunDir(dir)
	in.Node.CgroupPath = filepath.Join(d.cgroupRoot, id.String())
	if in.Node.GPUs == nil {
		in.Node.GPUs = []cluster.GPU{}
	}
	if err := d.imageRoot(&in, dir); err != nil {
		return "", err
	}
	spec, err := oci.Spec(in)
	if err != nil {
		return "", err
	}
	plan, err := oci.Plan(in)
	if err != nil {
		return "", err
	}
	settings, err := settingsOf(id, in)
	if err != nil {
		return "", err
	}
	settings.LeaseGrace = a.LeaseGrace
	settings.Guards = guards(in, spec.Mounts)
	return dir, container.WriteBundle(dir, container.Bundle{Config: spec, Plan: plan, Script: in.Spec.Groups[0].Tasks[0].Script, Settings: settings})
}

// imageRoot gives a task with an image a root of its own.
func (d *disk) imageRoot(in *oci.Input, dir string) error {
	if in.Spec == nil || len(in.Spec.Groups) != 1 || len(in.Spec.Groups[0].Tasks) != 1 {
		return errors.New("job does not have exactly one group of one task")
	}
	task := in.Spec.Groups[0].Tasks[0]
	if task.Image == "" {
		return nil
	}
	targets := append([]string(nil), d.shared...)
	for _, m := range task.Mounts {
		targets = append(targets, m.Target)
	}
	root, err := container.PrepareImageRoot(filepath.Join(dir, "root"), task.Image, targets)
	in.Node.Root = rootOf(root)
	return err
}

// guards lists what a job asked to see of the host: its image's directories and its mounts. What a later mount covers is not seen.
func guards(in oci.Input, mounts []specs.Mount) []container.Guard {
	task := in.Spec.Groups[0].Tasks[0]
	var list []container.Guard
	below := map[string][]string{}
	if task.Image != "" {
		list = append(list, container.Guard{Source: task.Image})
		for _, b := range in.Node.Root.Binds {
			below[b.Target] = nil
		}
	}
	for _, m := range task.Mounts {
		if m.Type != "tmpfs" {
			below[m.Target] = in.Node.SharedPaths
		}
	}
	for i, m := range mounts {
		dirs, asked := below[m.Destination]
		covered := slices.ContainsFunc(mounts[i+1:], func(later specs.Mount) bool {
			return m.Destination == later.Destination || strings.HasPrefix(m.Destination, later.Destination+"/")
		})
		if asked && !covered {
			list = append(list, container.Guard{Source: m.Source, Target: m.Destination, Below: dirs})
		}
	}
	return list
}

func rootOf(r container.Root) oci.Root {
	out := oci.Root{Path: r.Path}
	for _, b := range r.Binds {
		out.Binds = append(out.Binds, oci.Bind{Source: b.Source, Target: b.Target})
	}
	return out
}

// settingsOf is what the shim of a worker must know.
func settingsOf(id container.ID, in oci.Input) (container.Settings, error) {
	task := in.Spec.Groups[0].Tasks[0]
	s := container.Settings{
		ID: id, User: container.User{UID: in.Owner.UID, GID: in.Owner.GID, GIDs: in.Owner.GIDs}, Cgroup: in.Node.CgroupPath,
		KillSignal: signalNumber(task.KillSignal), Log: container.LogFiles{Join: true},
	}
	l := task.Log
	if l == nil {
		return s, nil
	}
	s.Log = container.LogFiles{Join: l.Join == nil || *l.Join, Truncate: l.Mode == "truncate", MaxSize: int64(l.MaxSize)}
	if l.Keep != nil {
		s.Log.Keep = *l.Keep
	}
	var errs [2]error
	if l.Stdout != "" {
		s.Log.Stdout, errs[0] = oci.LogPath(in, l.Stdout)
	}
	if l.Stderr != "" {
		s.Log.Stderr, errs[1] = oci.LogPath(in, l.Stderr)
	}
	return s, errors.Join(errs[:]...)
}

// Notice implements Bundles.
func (d *disk) Notice(id container.ID, n container.Notice) error {
	return container.WriteNotice(filepath.Join(d.containers, id.String()), n)
}

// Progress implements Bundles.
func (d *disk) Progress(id container.ID) string {
	return container.ProgressPath(filepath.Join(d.containers, id.String()))
}

// whereFile says, beside the log of an ended container, where the user had output sent and as whom it is read.
const whereFile = "where.json"

// Retire implements Bundles: the log moves to where it is kept.
func (d *disk) Retire(id container.ID) error {
	dir := filepath.Join(d.containers, id.String())
	kept := filepath.Join(d.logs, id.String())
	if s, err := container.ReadSettings(dir); err == nil && (s.Log.Stdout != "" || s.Log.Stderr != "") {
		if err := keepWhere(kept, s); err != nil {
			return fmt.Errorf("keep where the log of %s is: %w", id, err)
		}
	}
	if err := moveLogs(container.LogDir(dir), kept); err != nil {
		return fmt.Errorf("keep log of %s: %w", id, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "root")); err != nil {
		return fmt.Errorf("remove root of %s: %w", id, err)
	}
	return nil
}

func keepWhere(dir string, s container.Settings) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, whereFile), b, 0o600)
}

// moveLogs renames the directory, or its files one by one when the other directory is there already.
func moveLogs(from, to string) error {
	err := os.Rename(from, to)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		err = errors.Join(err, os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())))
	}
	return errors.Join(err, os.Remove(from))
}

// Limits of the logs of ended containers.
const (
	logsMaxAge   = 7 * 24 * time.Hour
	logsMaxBytes = 10 << 30
	logsEvery    = 10 * time.Minute
)

// keepLogs removes logs that are too old or too many, until ctx ends.
func (d *disk) keepLogs(ctx context.Context) error {
	tick := time.NewTicker(logsEvery)
	defer tick.Stop()
	for {
		if err := sweepLogs(d.logs, time.Now(), logsMaxAge, logsMaxBytes); err != nil {
			d.log.Error("cannot remove old logs", "err", err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// sweepLogs removes directories below dir that are older than age, and then the oldest until the rest takes at most limit bytes.
func sweepLogs(dir string, now time.Time, age time.Duration, limit int64) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	type log struct {
		path  string
		last  time.Time
		bytes int64
	}
	var logs []log
	var total int64
	for _, e := range entries {
		l := log{path: filepath.Join(dir, e.Name())}
		_ = filepath.WalkDir(l.path, func(_ string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil // it is being removed or written: what can be seen counts
			}
			if info, err := e.Info(); err == nil {
				l.bytes += info.Size()
				if info.ModTime().After(l.last) {
					l.last = info.ModTime()
				}
			}
			return nil
		})
		total += l.bytes
		logs = append(logs, l)
	}
	sort.Slice(logs, func(a, b int) bool { return logs[a].last.Before(logs[b].last) })
	for _, l := range logs {
		if now.Sub(l.last) > age || total > limit {
			total -= l.bytes
			err = errors.Join(err, os.RemoveAll(l.path))
		}
	}
	return err
}

// nvidiaNodes are the device nodes that every user of a GPU needs, as far as the driver has made them.
func nvidiaNodes() (nodes []oci.Device, major int64) {
	for _, path := range []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"} {
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR {
			nodes = append(nodes, oci.Device{Path: path, Major: int64(unix.Major(st.Rdev)), Minor: int64(unix.Minor(st.Rdev))})
		}
	}
	var st unix.Stat_t
	if unix.Stat("/dev/nvidia0", &st) == nil {
		major = int64(unix.Major(st.Rdev))
	}
	return nodes, major
}
