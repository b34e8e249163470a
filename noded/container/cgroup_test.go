package container

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCPUTime shows that the processor time of a cgroup is found, whatever the version of cgroups.
func TestCPUTime(t *testing.T) {
	const group = "/rota/n1/7.1.0"
	for name, c := range map[string]struct {
		files map[string]string // by path below the mount
		want  time.Duration     // 0: it is not known
	}{
		"version 2": {map[string]string{group + "/cpu.stat": "usage_usec 1500000\nuser_usec 1\n"}, 1500 * time.Millisecond},
		"version 1": {map[string]string{"/cpu" + group + "/cpu.stat": "nr_periods 0\n",
			"/cpuacct" + group + "/cpuacct.usage": "2000000\n"}, 2 * time.Millisecond},
		"both": {map[string]string{"/cpu,cpuacct" + group + "/cpuacct.usage": "2000000\n",
			"/unified" + group + "/cpu.stat": "usage_usec 5\n"}, 2 * time.Millisecond},
		"neither":  {map[string]string{"/memory" + group + "/memory.stat": "cache 0\n"}, 0},
		"nonsense": {map[string]string{group + "/cpu.stat": "usage_usec -\n", "/cpuacct" + group + "/cpuacct.usage": "x"}, 0},
		"another":  {map[string]string{"/rota/n1/7.2.0/cpu.stat": "usage_usec 5\n"}, 0},
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
		if got, err := cpuTime(mount, group); got != c.want || (c.want == 0) != errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
