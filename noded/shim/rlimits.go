package shim

import (
	"fmt"
	"slices"

	"github.com/opencontainers/runc/libcontainer/configs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// resourceLimits are those that a job may set.
var resourceLimits = map[string]int{
	"RLIMIT_CORE": unix.RLIMIT_CORE, "RLIMIT_MEMLOCK": unix.RLIMIT_MEMLOCK, "RLIMIT_NOFILE": unix.RLIMIT_NOFILE,
	"RLIMIT_STACK": unix.RLIMIT_STACK,
}

// usualLimits are the limits of a task that does not ask for others. They must not follow from the
// daemon's own limits: a service has more files and more locked memory than a job should. They are
// those of a login on current systems, with a soft limit of files that data loaders can live with.
var usualLimits = []configs.Rlimit{
	{Type: unix.RLIMIT_CORE, Soft: 0, Hard: unix.RLIM_INFINITY},
	{Type: unix.RLIMIT_MEMLOCK, Soft: 8 << 20, Hard: 8 << 20},          // bytes
	{Type: unix.RLIMIT_NOFILE, Soft: 65_536, Hard: 524_288},            // files
	{Type: unix.RLIMIT_STACK, Soft: 8 << 20, Hard: unix.RLIM_INFINITY}, // bytes
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
	return addUsual(out)
}

// addUsual adds the usual limits of the kinds that a list lacks, as far as the daemon's own allow.
func addUsual(list []configs.Rlimit) ([]configs.Rlimit, error) {
	for _, l := range usualLimits {
		if slices.ContainsFunc(list, func(asked configs.Rlimit) bool { return asked.Type == l.Type }) {
			continue
		}
		var own unix.Rlimit
		if err := unix.Getrlimit(l.Type, &own); err != nil {
			return nil, fmt.Errorf("read own resource limits: %w", err)
		}
		l.Hard = min(l.Hard, own.Max)
		l.Soft = min(l.Soft, l.Hard)
		list = append(list, l)
	}
	return list, nil
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
