package clock

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestTheWallClockIsMoved runs itself with an offset. It notices a boot clock that moves too.
func TestTheWallClockIsMoved(t *testing.T) {
	if os.Getenv(OffsetVariable) != "" {
		if d := time.Until(Wall()); d < -time.Hour-time.Minute || d > -time.Hour {
			t.Errorf("the wall clock is %v ahead, want an hour behind", d)
		}
		uptime, err := os.ReadFile("/proc/uptime") // counts as CLOCK_BOOTTIME does
		if err != nil {
			t.Fatal(err)
		}
		seconds, _, _ := strings.Cut(string(uptime), " ")
		up, err := time.ParseDuration(seconds + "s")
		if err != nil || (Boot()-up).Abs() > time.Minute {
			t.Errorf("the boot clock is at %v, the machine has run for %v, %v", Boot(), up, err)
		}
		return
	}
	if d := time.Until(Wall()).Abs(); d > time.Second {
		t.Errorf("without an offset the wall clock is off by %v", d)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheWallClockIsMoved$")
	cmd.Env = append(os.Environ(), OffsetVariable+"=-1h")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("with an offset: %v\n%s", err, out)
	}
}

func TestABadOffsetIsNamed(t *testing.T) {
	for _, text := range []string{"1", "an hour", "1h 2m", "∞"} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), OffsetVariable) ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if d, err := parse("-90m"); d != -90*time.Minute || err != nil {
		t.Errorf("-90m: %v, %v", d, err)
	}
}

func TestThisBootHasOneName(t *testing.T) {
	one, err := BootID()
	two, err2 := BootID()
	if one == "" || one != two || err != nil || err2 != nil || strings.ContainsAny(one, " \n") {
		t.Errorf("boot ids %q and %q, %v, %v", one, two, err, err2)
	}
}
