package noded

import (
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/oci"
)

// nvidiaNodes are the device nodes that every user of a GPU needs, as far as the driver has made them.
func nvidiaNodes() (nodes []oci.Device, major int64) {
	nodes = characterDevices([]string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"})
	if first := characterDevices([]string{"/dev/nvidia0"}); len(first) > 0 {
		major = first[0].Major
	}
	return nodes, major
}

// rdmaNodes are the device nodes in dir, which is where drivers for InfiniBand and RoCE make them.
func rdmaNodes(dir string) []oci.Device {
	paths, _ := filepath.Glob(filepath.Join(dir, "*")) // the pattern is well formed
	slices.Sort(paths)
	nodes := characterDevices(paths)
	for i := range nodes {
		nodes[i].Path = filepath.Join("/dev/infiniband", filepath.Base(nodes[i].Path))
	}
	return nodes
}

// characterDevices keeps those of some paths that are device nodes.
func characterDevices(paths []string) []oci.Device {
	var nodes []oci.Device
	for _, path := range paths {
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR {
			nodes = append(nodes, oci.Device{Path: path, Major: int64(unix.Major(st.Rdev)), Minor: int64(unix.Minor(st.Rdev))})
		}
	}
	return nodes
}
