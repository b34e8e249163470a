package bundle

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/oci"
)

// uvmNode is the device node for CUDA. Its module is loaded when a program first uses it, by a
// helper that cannot do so in a container.
const uvmNode = "nvidia-uvm"

// deviceNodes adds to in the device nodes that a worker may be granted. They are read for each
// worker, because drivers may be loaded after this daemon has started.
func (s *Store) deviceNodes(ctx context.Context, in *oci.Input) error {
	in.Node.RDMA = rdmaNodes(filepath.Join(s.dev, "infiniband"))
	real := slices.ContainsFunc(in.Alloc.GPUs, func(i int) bool {
		return i >= 0 && i < len(in.Node.GPUs) &&
			in.Node.GPUs[i].Minor >= 0
	})
	if !real {
		return nil
	}
	var loading error
	if len(characterDevices(s.dev, uvmNode)) == 0 {
		loading = loadUVM(ctx)
	}
	if len(characterDevices(s.dev, uvmNode)) == 0 {
		return fmt.Errorf("%s is missing, so programs cannot use CUDA; load the module nvidia-uvm when the machine starts: "+
			"%w",
			filepath.Join(s.dev, uvmNode), loading)
	}
	in.Node.Nvidia = characterDevices(s.dev, "nvidiactl", uvmNode, "nvidia-uvm-tools")
	if first := characterDevices(s.dev, "nvidia[0-9]*"); len(first) > 0 {
		in.Node.NvidiaMajor = first[0].Major
	}
	return nil
}

// modprobeTimeout is how long loading a module may take; it takes about a second.
const modprobeTimeout = 20 * time.Second

// loadUVM loads the module for CUDA and has its device nodes made. If it returns, it failed.
func loadUVM(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, modprobeTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nvidia-modprobe", "-u", "-c", "0").CombinedOutput()
	if err != nil {
		return fmt.Errorf("nvidia-modprobe: %w %s", err, strings.TrimSpace(string(out)))
	}
	return errors.New("nvidia-modprobe did not create it")
}

// rdmaNodes returns the device nodes in dir, where drivers for InfiniBand and RoCE make them.
func rdmaNodes(dir string) []oci.Device {
	nodes := characterDevices(dir, "*")
	for i := range nodes {
		nodes[i].Path = filepath.Join("/dev/infiniband", filepath.Base(nodes[i].Path))
	}
	return nodes
}

// characterDevices returns the device nodes in dir whose names match one of the patterns, with
// their paths below /dev.
func characterDevices(dir string, patterns ...string) []oci.Device {
	var nodes []oci.Device
	for _, pattern := range patterns {
		paths, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is well formed
		slices.Sort(paths)
		for _, path := range paths {
			var st unix.Stat_t
			if unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR {
				nodes = append(nodes, oci.Device{
					Path: filepath.Join("/dev", filepath.Base(path)), Major: int64(unix.Major(st.Rdev)),
					Minor: int64(unix.Minor(st.Rdev)),
				})
			}
		}
	}
	return nodes
}
