// Package machine finds out what this machine offers to jobs (cores, memory, labels, shared
// directories) and hands out its cores by number ([Cores]).
package machine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Config holds what the operator says about the machine. A zero Cores or Memory means: all that the
// machine has, less what the system needs.
type Config struct {
	Name             string // of the node
	Cores            int    // more than the machine has: jobs get shares of processor time, not cores by number
	Memory           jobspec.Bytes
	Labels           map[string]string
	SharedPaths      []string // in addition to /home, /shared and /data
	PortMin, PortMax int      // for MASTER_PORT
}

// Machine describes this machine.
type Machine struct {
	Node     model.Node // without address and GPUs
	Hostname string
	Cores    *Cores // nil when jobs get shares of processor time
}

// Inspect returns what this machine offers to jobs.
func Inspect(c Config) (Machine, error) {
	var m Machine
	boot, err := clock.BootID()
	if err != nil {
		return m, fmt.Errorf("read boot id: %w", err)
	}
	numa, err := coresByNUMA("/sys")
	if err != nil {
		return m, err
	}
	count := len(slices.Concat(numa...))
	cores := cmp.Or(c.Cores, count)
	if cores <= count {
		m.Cores = NewCores(firstCores(numa, cores))
	}
	memory := c.Memory
	if memory == 0 {
		if memory, err = usableMemory(); err != nil {
			return m, err
		}
	}
	if m.Hostname, err = os.Hostname(); err != nil {
		return m, fmt.Errorf("read host name: %w", err)
	}
	m.Node = model.Node{
		Name: c.Name, BootID: boot, Machine: Identity("/"), Version: api.Build(), Cores: int64(cores),
		Memory: memory,
		Labels: nodeLabels(c, m.Hostname), SharedPath: sharedPaths(c), PortMin: c.PortMin, PortMax: c.PortMax,
	}
	return m, nil
}

// firstCores keeps the first n cores.
func firstCores(numa [][]int, n int) [][]int {
	out := make([][]int, len(numa))
	for i, cores := range numa {
		out[i] = cores[:min(n, len(cores))]
		n -= len(out[i])
	}
	return out
}

// usableMemory returns the machine's memory less what the system and the daemons need: 5 %, at
// least 256 MiB and at most 8 GiB.
func usableMemory() (jobspec.Bytes, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read memory size: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			total := jobspec.Bytes(kib) * jobspec.KiB
			return total - min(max(total/20, 256*jobspec.MiB), 8*jobspec.GiB), err
		}
	}
	return 0, errors.New("/proc/meminfo lacks the size of the memory; give it with --memory")
}

func nodeLabels(c Config, hostname string) map[string]string {
	out := map[string]string{"arch": runtime.GOARCH, "hostname": hostname}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		out["kernel"] = unix.ByteSliceToString(u.Release[:])
	}
	maps.Copy(out, c.Labels)
	return out
}

// defaultShared are shared with jobs on every machine that has them.
var defaultShared = []string{"/home", "/shared", "/data"}

func sharedPaths(c Config) []string {
	var out []string
	for _, p := range slices.Concat(defaultShared, c.SharedPaths) {
		if info, err := os.Stat(p); err == nil && info.IsDir() && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}
