package container

import "os"

// SwapLimited reports whether the kernel can limit swap for a container. If not, a spec must not
// ask for it (noded/oci.Node.NoSwapLimit). On cgroup version 2 the root has no such file, so the
// groups of systemd are checked.
func SwapLimited() bool {
	for _, file := range []string{cgroupMount + "/memory/memory.memsw.limit_in_bytes", cgroupMount +
		"/init.scope/memory.swap.max", cgroupMount + "/system.slice/memory.swap.max"} {
		if _, err := os.Stat(file); err == nil {
			return true
		}
	}
	return false
}
