package container

import (
	"fmt"
	"os"
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
		name, _, _ := strings.Cut(below, "/") // tasks and steps of a worker have cgroups below its own
		if id, ok := ParseID(name); ok {
			return id, true
		}
	}
	return ID{}, false
}
