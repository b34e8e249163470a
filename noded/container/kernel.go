package container

import "path/filepath"

// SwapLimited reports whether the kernel can limit swap for a container. If not, a spec must not
// ask for it (noded/oci.Node.NoSwapLimit). On cgroup version 2 the root has no such file, so the
// groups below it are checked: one of them is an ancestor of the daemon's own, which has the memory
// controller.
func SwapLimited() bool {
	for _, pattern := range []string{"/memory/memory.memsw.limit_in_bytes", "/*/memory.swap.max"} {
		if found, _ := filepath.Glob(cgroupMount + pattern); len(found) > 0 { // the pattern is well formed
			return true
		}
	}
	return false
}
