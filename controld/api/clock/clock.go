// Package clock reads the two clocks that matter to several machines: the wall clock, and the clock
// that counts from the start of the machine. ROTA_CLOCK_OFFSET moves the wall clock of one daemon,
// so that a test sees what a machine with a wrong clock does.
package clock

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// OffsetVariable is the environment variable that moves [Wall], by a duration such as "-1h".
const OffsetVariable = "ROTA_CLOCK_OFFSET"

var offset = sync.OnceValues(func() (time.Duration, error) { return parse(os.Getenv(OffsetVariable)) })

// parse reads the value of OffsetVariable.
func parse(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("environment variable %s is %q: write a duration such as -1h or 30m, or unset it",
			OffsetVariable, text)
	}
	return d, nil
}

// Offset returns by how much [Wall] is moved. An error names a variable that cannot be read; a
// daemon asks at its start.
func Offset() (time.Duration, error) { return offset() }

// Wall returns the wall clock, with its monotonic reading. It is right for what people read and for
// certificates, and for nothing that two machines must agree on.
func Wall() time.Time {
	d, _ := offset()
	return time.Now().Add(d)
}

// Boot returns CLOCK_BOOTTIME: the time since the machine started, also while it was suspended. No
// setting of the wall clock moves it.
func Boot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("clock_gettime(CLOCK_BOOTTIME): %v", err)) // exists since Linux 2.6.39
	}
	return time.Duration(ts.Nano())
}

// BootID names this start of the machine.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}
