package bundle

import (
	"fmt"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// Seccomp returns the filter of system calls that every job gets: the default profile of container
// engines, for a process without capabilities. Without userNamespaces a job cannot make any, so that
// it does not reach code of the kernel that expects root. NUMA policies are allowed: numactl and
// collective libraries set them, and the kernel checks what they may do.
func Seccomp(userNamespaces bool) (*specs.LinuxSeccomp, error) {
	capabilities := []string{"CAP_SYS_NICE"} // what the profile ties the calls for NUMA policies to
	if userNamespaces {
		capabilities = append(capabilities, "CAP_SYS_ADMIN") // and those for namespaces
	}
	filter, err := seccomp.GetDefaultProfile(&specs.Spec{Process: &specs.Process{
		Capabilities: &specs.LinuxCapabilities{Bounding: capabilities}}})
	if err != nil {
		return nil, fmt.Errorf("filter of system calls: %w", err)
	}
	return filter, nil
}
