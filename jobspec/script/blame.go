package script

import (
	"regexp"
	"strings"
)

// Rules of all jobs speak of places in a job. blamed are the flags that say what stands there, those first that say it most directly.
var blamed = []struct {
	place string // with all that lies in it
	flags []string
}{
	{"count", []string{"nodes", "ntasks-per-node", "ntasks"}},
	{"launch.nproc", []string{"ntasks-per-node", "ntasks", "ntasks-per-gpu"}},
	{"resources.cores", []string{"cpus-per-task", "cpus-per-gpu", "mincpus", "ntasks-per-node", "ntasks", "ntasks-per-gpu"}},
	{"resources.memory", []string{"mem", "mem-per-cpu", "mem-per-gpu", "cpus-per-task"}},
	{"resources.shm", []string{"mem", "mem-per-cpu", "mem-per-gpu"}},
	{"resources.tmp", []string{"mem", "mem-per-cpu", "mem-per-gpu"}},
	{"resources.gpu", []string{"gpus-per-node", "gres", "gpus-per-task", "gpus"}},
	{"resources.gpus", []string{"gpus-per-node", "gres", "gpus-per-task", "gpus"}},
	{"env", []string{"export"}},
	{"export", []string{"export"}},
	{"mounts", []string{"container-mounts"}},
	{"image", []string{"container-image"}},
	{"log.stdout", []string{"output"}},
	{"log.stderr", []string{"error"}},
	{"kill_timeout", []string{"signal"}},
	{"preemption", []string{"signal"}},
	{"queue", []string{"partition"}},
	{"account", []string{"account"}},
	{"description", []string{"comment"}},
	{"time_limit", []string{"time"}},
	{"begin", []string{"begin"}},
	{"deadline", []string{"deadline"}},
	{"dependencies", []string{"dependency"}},
	{"array", []string{"array"}},
	{"features", []string{"constraint"}},
	{"nodes", []string{"nodelist"}},
	{"exclude_nodes", []string{"exclude", "nodelist"}},
	{"workdir", []string{"chdir", "container-workdir"}},
}

// around is what stands in front of the places of the one task that flags are about.
var around = regexp.MustCompile(`^groups\[\d+\]\.(tasks\[\d+\]\.)?`)

// blame finds the flag that said what stands at a place of the job, and returns the place without what stands around it.
func (a *asked) blame(path string) (short string, s setting, found bool) {
	short = around.ReplaceAllString(path, "")
	for _, b := range blamed {
		rest, in := strings.CutPrefix(short, b.place)
		if !in || rest != "" && rest[0] != '.' && rest[0] != '[' {
			continue
		}
		for _, name := range b.flags {
			if s, found = a.said[name]; found {
				return short, s, true
			}
		}
	}
	return short, setting{}, false
}
