package shim

import (
	"fmt"

	"github.com/opencontainers/runc/libcontainer/configs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// resourceLimits are those that a job may set.
var resourceLimits = map[string]int{
	"RLIMIT_CORE": unix.RLIMIT_CORE, "RLIMIT_MEMLOCK": unix.RLIMIT_MEMLOCK, "RLIMIT_NOFILE": unix.RLIMIT_NOFILE,
	"RLIMIT_STACK": unix.RLIMIT_STACK,
}

// rlimits turns the limits of a spec into the kernel's. Raising one above the daemon's own needs a
// privilege. If the daemon lacks it, the job is refused, since it relies on the limit.
func rlimits(list []specs.POSIXRlimit) ([]configs.Rlimit, error) {
	var out []configs.Rlimit
	for _, l := range list {
		kind, ok := resourceLimits[l.Type]
		if !ok {
			return nil, fmt.Errorf("unknown resource limit %s", l.Type)
		}
		if err := checkRlimit(l, kind); err != nil {
			return nil, err
		}
		out = append(out, configs.Rlimit{Type: kind, Soft: l.Soft, Hard: l.Hard})
	}
	return out, nil
}

// checkRlimit returns an error with advice for a limit that the kernel would refuse.
func checkRlimit(l specs.POSIXRlimit, kind int) error {
	var own unix.Rlimit
	if err := unix.Getrlimit(kind, &own); err != nil {
		return fmt.Errorf("read %s: %w", l.Type, err)
	}
	if l.Hard <= own.Max || hasCapability(unix.CAP_SYS_RESOURCE) {
		return nil
	}
	return fmt.Errorf("%s of %s is above the node daemon's own of %s: start the daemon with CAP_SYS_RESOURCE, "+
		"or raise that limit",
		l.Type, limitText(l.Hard), limitText(own.Max))
}

func limitText(n uint64) string {
	if n == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return fmt.Sprint(n)
}

// hasCapability reports whether this process has a capability.
func hasCapability(capability int) bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&head, &data[0]) != nil {
		return false
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0
}
