package noded

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rota-hpc/rota/noded/bundle"
	"github.com/rota-hpc/rota/noded/checkpoint"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/logs"
	"github.com/rota-hpc/rota/noded/mps"
	"github.com/rota-hpc/rota/noded/place"
	"github.com/rota-hpc/rota/noded/requirements"
	"github.com/rota-hpc/rota/packaging/python"
)

// openDisk prepares the directories of containers and logs, and connects to the shims that run.
func (d *daemon) openDisk(ctx context.Context) (err error) {
	// 1. The directories of output and of the Python module for jobs.
	d.logs = &logs.Store{Containers: filepath.Join(d.cfg.DataDir, "containers"),
		Dir: filepath.Join(d.cfg.DataDir, "logs"), Max: int64(d.cfg.MaxLogs)}
	if err := os.MkdirAll(d.logs.Dir, 0o700); err != nil {
		return fmt.Errorf("directory for logs: %w", err)
	}
	modules := filepath.Join(d.cfg.DataDir, "python")
	if err := writeModule(modules); err != nil {
		return fmt.Errorf("write the Python module of jobs: %w", err)
	}
	// 2. The filter of system calls, and the services for GPUs. While a worker of an earlier daemon runs,
	// MPS keeps its files.
	filter, err := bundle.Seccomp(d.cfg.AllowUserNamespaces)
	if err != nil {
		return err
	}
	if d.cfg.SimGPUs > 0 {
		if d.simDir, err = makeSimDir(d.cfg.DataDir); err != nil {
			return err
		}
	}
	d.mps = mps.New(d.cfg.Name, d.cfg.DataDir, d.cfg.Logger)
	var service bundle.MPS
	if d.cfg.MPS {
		runs := slices.ContainsFunc(d.journal.Entries(), func(e journal.Entry) bool { return e.Final == nil })
		if err = d.mps.Prepare(!runs); err != nil {
			return err
		}
		service = d.mps.Place()
	}
	// 3. The checkpoint folders. Other nodes fetch them, and this one fetches theirs.
	if d.checkpoints, err = checkpoint.Open(filepath.Join(d.cfg.DataDir, "checkpoints"), d.cfg.Name,
		&checkpoint.Client{Credential: d.credential, Addr: d.addrOf}, d.cfg.Logger); err != nil {
		return err
	}
	// 4. The store of bundles, which are made from all of the above.
	hosts := &hosts{system: systemHosts, node: d.cfg.Name, hostname: d.machine.Hostname}
	d.bundles, err = bundle.Open(bundle.Config{
		Hosts: hosts.text,
		Node:  d.cfg.Name, Hostname: d.machine.Hostname, Logs: d.logs, RootDir: filepath.Join(d.cfg.DataDir, "root"),
		Modules: modules, RotaPath: d.commands(),
		CgroupRoot: d.cfg.CgroupRoot, SharedPaths: d.machine.Node.SharedPath, InitPath: d.cfg.InitPath,
		MaxMemlock: d.cfg.MaxMemlock, MaxNofile: d.cfg.MaxNofile, MaxPids: d.cfg.MaxPids, OutputRate: d.cfg.MaxOutputRate,
		Seccomp: filter, RootJobs: d.cfg.AllowRootJobs, SimGPUs: d.simDir, MPS: service,
		Folders: d.checkpoints, Criu: d.criu,
	})
	if err != nil {
		return err
	}
	// 5. The shims that run. Only now is it known which folders belong to no container.
	d.shims, err = container.NewShims(container.Config{Dir: d.logs.Containers, ShimPath: d.cfg.ShimPath,
		Warm: d.cfg.WarmShims, CgroupRoot: d.cfg.CgroupRoot, Log: d.cfg.Logger})
	if err != nil {
		return err
	}
	places := &place.Places{Bundles: d.bundles, Runtime: d.shims}
	if err := places.Sweep(ctx, d.logs.Containers, d.journal); err != nil {
		d.cfg.Logger.Warn("cannot remove the remains of ended containers", "err", err)
	}
	return nil
}

// commands returns the path of the command rota that jobs have, "" if it is not there.
func (d *daemon) commands() string {
	if err := requirements.Program("--rota", d.cfg.RotaPath); err != nil {
		d.cfg.Logger.Warn("jobs will not have the commands of Rota and Slurm", "err", err)
		return ""
	}
	return d.cfg.RotaPath
}

// writeModule writes the Python module that jobs import, of this version. Running jobs keep theirs.
func writeModule(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tmp := filepath.Join(dir, "."+python.Name)
	if err := os.WriteFile(tmp, python.Module, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, python.Name))
}

// makeSimDir makes the directory in which jobs declare their use of simulated GPUs. Every job may
// write there, as to /tmp.
func makeSimDir(data string) (string, error) {
	dir := filepath.Join(data, "simulated-gpus", "declared") // others cannot enter the outer one
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, os.ModeSticky|0o777)
	}
	if err != nil {
		return "", fmt.Errorf("directory for the usage of simulated GPUs: %w", err)
	}
	return dir, nil
}
