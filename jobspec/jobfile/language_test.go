package jobfile

import (
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec/hclfile"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

// around is what has to stand around the content of a block.
var around = map[string][2]string{
	"job":        {"", ""},
	"array":      {"array {\nindices = \"0-3\"\n", "\n}"},
	"stop":       {"array {\nindices = \"0-3\"\nstop {\nmetric = \"m\"\nat_step = 1\nkeep = \"top 1\"\n", "\n}\n}"},
	"dependency": {"dependency {\ntype = \"afterok\"\njobs = [1]\n", "\n}"},
	"constraint": {"constraint {\nattribute = \"node.name\"\nvalue = \"a\"\n", "\n}"},
	"affinity":   {"affinity {\nattribute = \"node.name\"\nvalue = \"a\"\nweight = 1\n", "\n}"},
	"log_policy": {"log_policy \"x\" {\npattern = \"a\"\naction = \"fail\"\n", "\n}"},
	"restart":    {"restart {\n", "\n}"},
	"checkpoint": {"checkpoint {\n", "\n}"},
	"preemption": {"preemption {\n", "\n}"},
}

// inTask are blocks of a task.
var inTask = map[string][2]string{
	"task":      {"", ""},
	"resources": {"resources {\n", "\n}"},
	"gpu":       {"resources {\ngpu {\n", "\n}\n}"},
	"launch":    {"launch {\n", "\n}"},
	"mount":     {"mount {\nsource = \"/a\"\ntarget = \"/a\"\n", "\n}"},
	"log":       {"log {\n", "\n}"},
	"progress":  {"progress {\n", "\n}"},
	"lifecycle": {"lifecycle {\nhook = \"prestart\"\n", "\n}"},
	"secret":    {"secret \"s\" {\nsource = \"/a\"\n", "\n}"},
	"ulimit":    {"ulimit {\n", "\n}"},
	"terminal":  {"terminal {\n", "\n}"},
}

// wholeFile is a job file with text in a section.
func wholeFile(t *testing.T, section, text string) string {
	t.Helper()
	const program = "\ntask \"t\" { command = [\"true\"] }\n"
	if edges, ok := around[section]; ok {
		return "job \"a\" {\n" + edges[0] + text + edges[1] + program + "}"
	}
	if edges, ok := inTask[section]; ok {
		return "job \"a\" {\ntask \"t\" {\ncommand = [\"true\"]\n" + edges[0] + text + edges[1] + "\n}\n}"
	}
	switch section {
	case "group":
		return "job \"a\" {\ngroup \"g\" {\n" + text + program + "}\n}"
	case "elastic":
		return "job \"a\" {\ngroup \"g\" {\nelastic {\nmin = 1\nmax = 2\n" + text + "\n}" + program + "}\n}"
	case "network":
		return "job \"a\" {\ngroup \"g\" {\nnetwork {\n" + text + "\n}" + program + "}\n}"
	}
	t.Fatalf("section %s has no surroundings in this test", section)
	return ""
}

// TestEveryRefusalIsByName writes every part that is not supported yet where it would stand, and
// wants it refused there by its name.
func TestEveryRefusalIsByName(t *testing.T) {
	total := 0
	for _, s := range sections() {
		for _, name := range s.refused() {
			for _, form := range []string{name + " = \"x\"", name + " {\n}", name + " \"label\" {\n}"} {
				total++
				_, diags := Parse("f.hcl", []byte(wholeFile(t, s.name, form)), Options{})
				refused := slices.ContainsFunc(diags, func(d diagnostic.Diagnostic) bool {
					return d.Code == diagnostic.CodeUnsupported && strings.Contains(d.Text, name+" is not supported yet") &&
						d.Hint != "" ||
						d.Code == diagnostic.CodeForm && strings.Contains(d.Text, name)
				})
				if !refused {
					t.Errorf("%s in %s: not refused by name: %v", form, s.name, diags)
				}
			}
		}
	}
	if total == 0 {
		t.Error("nothing is refused")
	}
}

// TestRefusedValues wants the values of [refusedValues] to be refused by name.
func TestRefusedValues(t *testing.T) {
	for _, c := range []struct{ section, text, want string }{
		{"network", `mode = "bridge"`, `mode: "bridge" is not supported yet`},
		{"group", "gang = false\ncount = 2\nmax_workers_per_node = 1",
			"workers that start one by one cannot be kept on different nodes yet"},
		{"preemption", `mode = "requeue"`, `mode "requeue" is not supported yet`},
		{"preemption", `mode = "never"`, `mode "never" is not supported yet`},
		{"group", `on_worker_failure = "restart_worker"`, "starting one worker of a group again is not supported yet"},
		{"launch", `type = "mpi"`, "launch type mpi is not supported yet"},
		{"mount", `type = "volume"`, "volumes are not supported yet"},
		{"task", `image = "docker.io/library/alpine:3"`, "image references are not supported yet"},
		{"resources", `rdma = 2`, "a number of RDMA devices is not supported yet"},
		{"resources", "gpu {\n}\ngpu {\n}", "gpu is written twice"},
		{"group", "depends_on = [\"h\"]\n", "are not supported yet"},
		{"group", "# array\n", "is not supported yet"},
	} {
		src := wholeFile(t, c.section, c.text)
		const second = "}\ngroup \"h\" {\ntask \"t\" {\ncommand = [\"true\"]\n}\n}\n}"
		switch {
		case strings.HasPrefix(c.text, "depends_on"):
			src = strings.TrimSuffix(src, "}\n}") + second
			src = strings.Replace(src, "{\n", "{\ngang_scope = \"job\"\n", 1)
		case strings.HasPrefix(c.text, "# array"):
			src = strings.TrimSuffix(src, "}\n}") + second
			src = strings.Replace(src, "{\n", "{\narray {\nindices = \"0-3\"\n}\n", 1)
		}
		_, diags := Parse("f.hcl", []byte(src), Options{})
		if len(diags) != 1 || !strings.Contains(diags.Error(), c.want) {
			t.Errorf("%s: %v", c.text, diags)
		}
	}
}

// language is every name of the language, block by block, also those that are for later. It is
// written out here so that no name can be lost from the tables.
var language = map[string]string{
	"job": "class queue account priority time_limit time_min begin deadline hold gang_scope description comment tags " +
		"meta export workdir " +
		"on_dependency_failure nodes exclude_nodes features licenses constraint affinity dependency array preemption " +
		"checkpoint restart hang idle requeue_exit_code on_node_lost " +
		"log_policy notify group task",
	"array":      "indices matrix file max_parallel max_failures order stop",
	"stop":       "metric goal at_step keep",
	"dependency": "type jobs delay match",
	"constraint": "attribute operator value values",
	"affinity":   "attribute operator value values weight",
	"log_policy": "pattern action stream",
	"restart":    "attempts delay backoff max_delay window exclude_node retry_on_exit no_retry_on_exit",
	"checkpoint": "path interval signal exit_code criu node_local before_limit",
	"preemption": "mode signal exit_zero signal_to grace_period max min_runtime resume requeue",
	"group": "count gang depends_on time_limit max_workers_per_node exclusive success on_worker_failure class priority " +
		"queue elastic topology " +
		"constraint affinity network restart meta task",
	"elastic": "min max multiple_of step resize signal cooldown grow_after",
	"network": "mode port",
	"task": "image command script script_file entrypoint user leader kill_signal kill_timeout writable resources " +
		"launch env mount log progress " +
		"lifecycle secret constraint ulimit terminal",
	"resources": "cores memory swap shm tmp gpus rdma gpu",
	"gpu":       "count vendor model min_memory min_compute driver nvlink share max_memory mig mps compute_mode",
	"launch":    "type nproc max_restarts port rdzv",
	"mount":     "source target type read_only options",
	"log":       "stdout stderr join mode max_size keep",
	"progress":  "file pattern metric goal total",
	"lifecycle": "hook sidecar",
	"secret":    "source env file",
	"ulimit":    "memlock nofile stack core",
	"terminal":  "rows columns hang_up",
}

// TestWholeLanguage wants every name of the language to be honoured or refused by name, never
// unknown.
func TestWholeLanguage(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sections() {
		seen[s.name] = true
		want := strings.Fields(language[s.name])
		for _, name := range want {
			if !slices.Contains(s.block.Names(), name) {
				t.Errorf("%s in %s is not known", name, s.name)
			}
		}
		for _, name := range s.block.Names() {
			if !slices.Contains(want, name) && !(s.name == "job" && name == "count") {
				t.Errorf("%s in %s is not in the list of this test", name, s.name)
			}
		}
	}
	for name := range language {
		if !seen[name] {
			t.Errorf("no section describes %s", name)
		}
	}
}

// TestEveryBlockIsDescribed wants a section for every block that may be written.
func TestEveryBlockIsDescribed(t *testing.T) {
	known := map[*hclfile.Block]bool{}
	for _, s := range sections() {
		known[s.block] = true
	}
	for _, s := range sections() {
		for _, b := range s.block.Blocks {
			if b.Refused == "" && b.Body.Free == nil && !known[b.Body] {
				t.Errorf("%s in %s has no section", b.Name, s.name)
			}
		}
	}
}
