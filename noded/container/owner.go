package container

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ContainerOf implements [Runtime]. It goes by the cgroup, which a process cannot leave and which
// its children inherit.
func (s *Shims) ContainerOf(pid int) (ID, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil || s.cfg.CgroupRoot == "" {
		return ID{}, false
	}
	return containerOf(string(b), s.cfg.CgroupRoot)
}

// containerOf finds a container in the list of cgroups that the kernel keeps of a process, a line
// NUMBER:CONTROLLERS:PATH for each hierarchy.
func containerOf(cgroups, root string) (ID, bool) {
	for line := range strings.Lines(cgroups) {
		_, path, _ := strings.Cut(strings.TrimSpace(line), ":")
		_, path, _ = strings.Cut(path, ":")
		below, ok := strings.CutPrefix(path, strings.TrimSuffix(root, "/")+"/")
		if !ok {
			continue
		}
		name, inner, _ := strings.Cut(below, "/") // tasks and steps of a worker have cgroups below its own
		if id, ok := ParseID(name); ok {
			inner, _, _ = strings.Cut(inner, "/")
			if step, is := strings.CutPrefix(inner, stepPrefix); is {
				if n, err := strconv.Atoi(step); err == nil && n >= 0 {
					return id.OfStep(n), true
				}
			}
			return id, true
		}
	}
	return ID{}, false
}
