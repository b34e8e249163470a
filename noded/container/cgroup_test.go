package container

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestUsed shows that what a cgroup has used is found, whatever the version of cgroups.
func TestUsed(t *testing.T) {
	const group = "/rota/n1/7.1.0"
	for name, c := range map[string]struct {
		files map[string]string // by path below the mount
		want  Used              // without processor time: nothing is known
	}{
		"version 2": {map[string]string{
			group + "/cpu.stat":       "usage_usec 1500000\nuser_usec 1250000\nsystem_usec 250000\n",
			group + "/memory.current": "5\n", group + "/memory.peak": "7\n",
		}, Used{1500 * time.Millisecond, 250 * time.Millisecond, 5, 7}},
		"version 1": {map[string]string{"/cpu" + group + "/cpu.stat": "nr_periods 0\n",
			"/cpuacct" + group + "/cpuacct.usage":             "200000000\n",
			"/cpuacct" + group + "/cpuacct.stat":              "user 15\nsystem 5\n",
			"/memory" + group + "/memory.usage_in_bytes":      "5\n",
			"/memory" + group + "/memory.max_usage_in_bytes":  "7\n",
			"/memory" + group + "/memory.kmem.usage_in_bytes": "9\n",
			"/blkio" + group + "/blkio.throttle.io_serviced":  "Total 0\n",
		}, Used{200 * time.Millisecond, 50 * time.Millisecond, 5, 7}},
		"both": {map[string]string{"/cpu,cpuacct" + group + "/cpuacct.usage": "2000000\n",
			"/unified" + group + "/cpu.stat": "usage_usec 5\nsystem_usec 3\n"}, Used{CPU: 2 * time.Millisecond}},
		"neither": {map[string]string{"/net_cls" + group + "/net_cls.classid": "0\n"}, Used{}},
		"nonsense": {map[string]string{group + "/cpu.stat": "usage_usec -\n",
			"/cpuacct" + group + "/cpuacct.usage": "x"}, Used{}},
		"another": {map[string]string{"/rota/n1/7.2.0/cpu.stat": "usage_usec 5\n"}, Used{}},
	} {
		mount := t.TempDir()
		for path, text := range c.files {
			if err := os.MkdirAll(filepath.Dir(mount+path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(mount+path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := usedBy(mount, group); got != c.want || (c.want.CPU == 0) != errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
