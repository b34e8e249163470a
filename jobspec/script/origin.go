package script

import (
	"regexp"
	"strconv"
	"strings"
)

// origins map a place in a job to the flags that set it, the most direct flag first. The rules of
// all jobs report problems by such places.
var origins = []struct {
	place string // the place and everything below it
	flags []string
}{
	{"count", []string{"nodes", "ntasks-per-node", "ntasks"}},
	{"launch.nproc", []string{"ntasks-per-node", "ntasks", "ntasks-per-gpu"}},
	{"resources.cores", []string{"cpus-per-task", "cpus-per-gpu", "mincpus", "ntasks-per-node", "ntasks",
		"ntasks-per-gpu"}},
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
	{"checkpoint", []string{"signal"}},
	{"preemption", []string{"signal"}},
	{"queue", []string{"partition"}},
	{"account", []string{"account"}},
	{"comment", []string{"comment"}},
	{"time_limit", []string{"time"}},
	{"begin", []string{"begin"}},
	{"deadline", []string{"deadline"}},
	{"dependencies", []string{"dependency"}},
	{"array", []string{"array"}},
	{"features", []string{"constraint"}},
	{"licenses", []string{"licenses"}},
	{"nodes", []string{"nodelist"}},
	{"exclude_nodes", []string{"exclude", "nodelist"}},
	{"workdir", []string{"chdir", "container-workdir"}},
}

// taskPrefix is the path of the only task, which starts the places in it.
var taskPrefix = regexp.MustCompile(`^groups\[(\d+)\]\.(tasks\[\d+\]\.)?`)

// originOf returns the flag that set a place in the job, and the place relative to its task.
func (a *request) originOf(path string) (short string, s setting, found bool) {
	of := a
	if m := taskPrefix.FindStringSubmatch(path); m != nil {
		path = path[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil && n > 0 && n <= len(a.more) {
			of = a.more[n-1]
		}
	}
	short = path
	for _, b := range origins {
		rest, in := strings.CutPrefix(short, b.place)
		if !in || rest != "" && rest[0] != '.' && rest[0] != '[' {
			continue
		}
		for _, name := range b.flags {
			if s, found = of.applied[name]; found {
				return short, s, true
			}
		}
	}
	return short, setting{}, false
}
