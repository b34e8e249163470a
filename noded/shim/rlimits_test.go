package shim

import (
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/runc/libcontainer/configs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// TestLimitsAboveTheDaemonsOwn notices a limit that is silently not given: a job that relies on it
// would fail later, in ways that are hard to explain.
func TestLimitsAboveTheDaemonsOwn(t *testing.T) {
	var own unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &own))
	limit := func(hard uint64) []specs.POSIXRlimit {
		return []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: 5, Hard: hard}}
	}
	type result struct {
		list []configs.Rlimit
		err  error
	}
	results := make(chan result)
	go func() {
		runtime.LockOSThread() // the thread has no capabilities from now on, and ends with this goroutine
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&head, &none[0]); err != nil {
			t.Error(err)
		}
		for _, hard := range []uint64{own.Max - 1, own.Max, own.Max + 1, unix.RLIM_INFINITY} {
			list, err := rlimits(limit(hard))
			results <- result{list, err}
		}
		close(results)
	}()
	for _, hard := range []uint64{own.Max - 1, own.Max} {
		want := []configs.Rlimit{{Type: unix.RLIMIT_NOFILE, Soft: 5, Hard: hard}}
		if r := <-results; r.err != nil || !reflect.DeepEqual(r.list, want) {
			t.Errorf("limit %d of %d: %+v", hard, own.Max, r)
		}
	}
	for _, says := range []string{strconv.FormatUint(own.Max+1, 10), "unlimited"} {
		if r := <-results; r.err == nil || !strings.Contains(r.err.Error(),
			"RLIMIT_NOFILE of "+says+" is above the node daemon's own of "+strconv.FormatUint(own.Max, 10)) {
			t.Errorf("limit %s of %d: %+v", says, own.Max, r)
		}
	}
	if hasCapability(unix.CAP_SYS_RESOURCE) {
		if _, err := rlimits(limit(unix.RLIM_INFINITY)); err != nil {
			t.Errorf("with the privilege: %v", err)
		}
	}
}

// TestCapabilitiesAreRead notices a capability that is looked up in the wrong set or word.
func TestCapabilitiesAreRead(t *testing.T) {
	text, err := os.ReadFile("/proc/thread-self/status")
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "CapEff:\t")
	line, _, _ := strings.Cut(rest, "\n")
	effective, err := strconv.ParseUint(line, 16, 64)
	must(t, err)
	for c := range unix.CAP_LAST_CAP + 1 {
		if got := hasCapability(c); got != (effective>>c&1 == 1) {
			t.Errorf("capability %d: %v, of %x", c, got, effective)
		}
	}
	if hasCapability(63) {
		t.Error("there is no capability 63")
	}
}
