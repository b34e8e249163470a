package bundle

import (
	"fmt"
	"slices"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// Seccomp returns the filter of system calls that every job gets: the default profile of container
// engines, for a process without capabilities. Without userNamespaces a job cannot make any, so
// that it does not reach code of the kernel that expects root. NUMA policies are allowed: numactl
// and collective libraries set them, and the kernel checks them. Programs of the x32 ABI are not
// allowed. Few kernels are started with it, and the filter of each container would take 10 ms more
// of processor time.
func Seccomp(userNamespaces bool) (*specs.LinuxSeccomp, error) {
	const numa = "CAP_SYS_NICE" // the capability that the profile demands for NUMA policies
	filter, err := seccomp.GetDefaultProfile(&specs.Spec{Process: &specs.Process{
		Capabilities: &specs.LinuxCapabilities{Bounding: []string{numa}}}})
	if err != nil {
		return nil, fmt.Errorf("filter of system calls: %w", err)
	}
	filter.Architectures = slices.DeleteFunc(filter.Architectures, func(a specs.Arch) bool { return a == specs.ArchX32 })
	if userNamespaces {
		filter.Syscalls = append(filter.Syscalls, specs.LinuxSyscall{Action: specs.ActAllow, Names: []string{"clone",
			"unshare", "setns", "mount", "umount2", "pivot_root", "sethostname"}})
	}
	return filter, nil
}
