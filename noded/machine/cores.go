package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Cores hands out whole cores of this machine by number. It may be used from several goroutines.
type Cores struct {
	mu   sync.Mutex
	numa [][]int // cores of each NUMA node, ascending
	used map[int]bool
}

// NewCores returns the cores of each NUMA node, all of them free.
func NewCores(numa [][]int) *Cores { return &Cores{numa: numa, used: map[int]bool{}} }

// Take returns n free cores in ascending order, or nil if there are fewer. They come from NUMA node
// near (-1: any) if it has enough. Otherwise they come from the node with enough cores and the
// fewest left over, or else from several nodes.
func (c *Cores) Take(n, near int) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	best, every := -1, []int{}
	free := make([][]int, len(c.numa))
	for i, cores := range c.numa {
		for _, core := range cores {
			if !c.used[core] {
				free[i] = append(free[i], core)
			}
		}
		every = append(every, free[i]...)
		if len(free[i]) >= n && (best < 0 || len(free[i]) < len(free[best])) {
			best = i
		}
	}
	if near >= 0 && near < len(free) {
		if len(free[near]) >= n {
			best = near
		} else if best < 0 {
			every = append(slices.Clone(free[near]), every...)
		}
	}
	if best >= 0 {
		every = free[best]
	}
	if n <= 0 || len(every) < n {
		return nil
	}
	return c.takeFrom(every, n)
}

// takeFrom takes the first n different free cores of a list.
func (c *Cores) takeFrom(from []int, n int) []int {
	var out []int
	for _, core := range from {
		if len(out) == n {
			break
		}
		if !c.used[core] {
			c.used[core] = true
			out = append(out, core)
		}
	}
	slices.Sort(out)
	return out
}

// MarkUsed marks cores as taken that an earlier daemon gave to a container that still runs.
func (c *Cores) MarkUsed(cores []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, core := range cores {
		c.used[core] = true
	}
}

// Release makes cores free again.
func (c *Cores) Release(cores []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, core := range cores {
		delete(c.used, core)
	}
}

// coresByNUMA returns the cores that this process may use by NUMA node, as listed in the directory
// sys (/sys).
func coresByNUMA(sys string) ([][]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read the allowed cores: %w", err)
	}
	nodes, err := filepath.Glob(filepath.Join(sys, "devices/system/node/node[0-9]*/cpulist"))
	if err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	byNode := map[int][]int{}
	last := 0
	for _, path := range nodes {
		node, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(path)), "node"))
		if err != nil {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("cores of NUMA node %d: %w", node, err)
		}
		cores, err := parseCPUList(strings.TrimSpace(string(text)))
		if err != nil {
			return nil, fmt.Errorf("cores of NUMA node %d: %w", node, err)
		}
		for _, core := range cores {
			if set.IsSet(core) {
				byNode[node] = append(byNode[node], core)
				seen[core] = true
			}
		}
		last = max(last, node)
	}
	for core := range len(set) * 64 {
		if set.IsSet(core) && !seen[core] {
			byNode[0] = append(byNode[0], core)
		}
	}
	out := make([][]int, last+1)
	for node, cores := range byNode {
		out[node] = cores
	}
	return out, nil
}

// parseCPUList reads the kernel's form of a set of cores, such as 0-3,8.
func parseCPUList(s string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		if part == "" {
			continue
		}
		low, high, ranged := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		last := first
		if err == nil && ranged {
			last, err = strconv.Atoi(high)
		}
		if err != nil || first < 0 || last < first || last > 1<<16 {
			return nil, fmt.Errorf("%q is not a list of cores", s)
		}
		for core := first; core <= last; core++ {
			out = append(out, core)
		}
	}
	return out, nil
}
