package fields

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/slurm/slurmtest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	oddMemory = 5*jobspec.GiB + 257*jobspec.MiB + 4099 // no whole number in any unit
	oddTime   = 86400 + 2*3600 + 3*60 + 4
)

// oddJobs are jobs without round numbers. No two fields have the same number.
func oddJobs() []api.Job {
	one, nought := 1, 0
	uid := uint32(4_000_003)
	log := &jobspec.Log{Stdout: "o/%j-%r.out", Stderr: "e/%j.err"}
	task := func(l *jobspec.Launch) []jobspec.Group {
		return []jobspec.Group{{Tasks: []jobspec.Task{{Command: []string{"python", "t.py"}, Launch: l, Log: log}}}}
	}
	runs := slurmtest.JobOf(70, "train", model.Running, "RUNNING", func(j *api.Job) {
		j.Cores, j.GPUs, j.Memory, j.Workers, j.Nodes = 37, 7, oddMemory, 3, []string{"n1", "n2", "n4"}
		j.Started, j.Elapsed, j.TimeLimit, j.Attempt, j.Priority = slurmtest.Minute(7), 3723, oddTime, 3, 47
		j.Eligible, j.Deadline, j.Comment = slurmtest.Minute(3), slurmtest.Minute(59), "why|not"
		j.Spec = &jobspec.Job{Features: []string{"a|b", "c"}, Nodes: []string{"n1"}, ExcludeNodes: []string{"n8", "n9"},
			Licenses: map[string]int{"matlab": 2}, Meta: map[string]string{"wckey": "k"},
			Groups: task(&jobspec.Launch{Type: "per_gpu"})}
		j.Attempts = []api.Attempt{{N: 2, SuspendedSeconds: 71, Usage: &api.Usage{CPUSeconds: 11.25, Workers: 3}},
			{N: 3, SuspendedSeconds: 3600, Usage: &api.Usage{CPUSeconds: 4000.75, SystemSeconds: 41.5, PeakMemory: 1537 << 10,
				Memory: 4099 << 10, Workers: 3,
				Extern: &api.ExternUsage{CPUSeconds: 1.125, SystemSeconds: 0.5, PeakMemory: 7 << 10}},
				Steps: []api.Step{{ID: 2, Name: "two", Nodes: []string{"n1", "n2"}, Tasks: 5, Cores: 6, GPUs: 3,
					Start: slurmtest.Minute(8), End: slurmtest.Minute(21), Signal: 9, OOM: true, Usage: &api.Usage{
						CPUSeconds: 17.625, SystemSeconds: 2.25, PeakMemory: 3 << 20, Memory: 5 << 20, Workers: 2}}}}}
	})
	task1 := slurmtest.JobOf(81, "sweep", model.Failed, "FAILED", func(j *api.Job) {
		j.Array, j.ExitCode = api.ArrayPlace{Job: 80, Index: &one}, 3
		j.Started, j.Ended = slurmtest.Minute(2), slurmtest.Minute(9)
		j.Elapsed, j.Nodes, j.Attempt, j.TimeLimit = 420, []string{"n3"}, 1, 61
		j.Reason = api.Reason{Code: "NonZeroExitCode", Text: "it failed"}
		j.Spec = &jobspec.Job{Groups: task(&jobspec.Launch{Nproc: 3})}
		j.Spec.Groups[0].Exclusive = true
		j.Attempts = []api.Attempt{{N: 1, Usage: &api.Usage{CPUSeconds: 3599.9994, PeakMemory: 1 << 30, Workers: 1}}}
	})
	array := slurmtest.JobOf(80, "sweep", model.Pending, "PENDING", func(j *api.Job) {
		j.Array = api.ArrayPlace{Indices: "4-9%2", Size: 10, MaxParallel: 2}
		j.Dependencies = []api.Dependency{{Type: "afterok", Jobs: []model.JobID{7, 9}}}
		j.TimeLimit, j.GPUs, j.Memory = 0, 0, 1536*jobspec.MiB
		j.Spec = &jobspec.Job{Groups: task(&jobspec.Launch{NprocGPU: true})}
	})
	gone := slurmtest.JobOf(90, "gone", model.Cancelled, "CANCELLED", func(j *api.Job) {
		j.Signal, j.CancelledBy, j.Started, j.Ended = 15, &uid, slurmtest.Minute(4), slurmtest.Minute(5)
		j.Nodes, j.Workers, j.Elapsed, j.Flags, j.Priority = []string{"n5", "n6"}, 2, 60, []string{"held"}, 53
		j.Components = []api.Component{{Workers: 2, Cores: 10, Memory: 6 << 30, GPUs: 4}, {Workers: 1, Cores: 3}}
		j.Attempts = []api.Attempt{{N: 1, Steps: []api.Step{
			{ID: 10, Name: "ten", Nodes: []string{"n5"}, Tasks: 1, Cores: 1, Start: slurmtest.Minute(4), Why: api.StepTimedOut},
			{ID: 9, Name: "nine", Nodes: []string{"n6"}, Tasks: 2, Cores: 2, End: slurmtest.Minute(5), ExitCode: 4}}}}
	})
	group := slurmtest.JobOf(95, "pipe", model.Completing, "COMPLETING", func(j *api.Job) {
		j.Group, j.Started, j.Nodes = &api.GroupPlace{Job: 93, Name: "g"}, slurmtest.Minute(6), []string{"n1"}
		j.Flags, j.Spec = []string{api.FlagAllocation}, &jobspec.Job{Preemption: &jobspec.Preemption{Requeue: new(bool)}}
		j.Array = api.ArrayPlace{Index: &nought}
	})
	return []api.Job{runs, task1, array, gone, group, {ID: 99, State: "PENDING", Code: model.Pending}}
}

// oddRows are the rows of oddJobs and those of their steps.
func oddRows(src *Source) []*JobRow {
	var rows []*JobRow
	for _, j := range oddJobs() {
		row := &JobRow{Job: &j, Source: src}
		if j.ID == 70 {
			row.Running = []api.StepStatus{
				{StepBegun: api.StepBegun{Step: 2}, Name: "has ended"},
				{StepBegun: api.StepBegun{Step: 3, Nodes: []string{"n1", "n4"}, Tasks: []int{2, 1}}, Name: "three", Cores: 5,
					GPUs: 1, TimeLimit: 601, Started: model.UnixMS(slurmtest.Minute(31).UnixMilli())}}
		}
		rows = append(append(rows, row), row.Steps()...)
	}
	return rows
}

func oddSource(past bool) *Source {
	return &Source{Cluster: "lab", Past: past, Never: "never", Now: slurmtest.Minute(47).Add(5 * time.Second),
		groups: map[uint32]string{4_000_002: "staff"}}
}

// table writes each field of some rows in a line, with its names and its width.
func table[T any](b *bytes.Buffer, fields []Field[T], rows []T) {
	for i := range fields {
		f := &fields[i]
		fmt.Fprintf(b, "%c|%s|%s|%s|%d|%s|%s|%s|%t", max(f.letter, ' '), f.long, f.header(), f.acct, f.width, f.key, f.json,
			f.past, f.joins)
		for _, r := range rows {
			fmt.Fprintf(b, "; %s", f.text(r))
			if f.value != nil {
				text, _ := json.Marshal(f.value(r))
				fmt.Fprintf(b, " %s", text)
			}
		}
		b.WriteByte('\n')
	}
}

// TestOddRows writes every field of jobs and steps whose numbers are not round. Compare the changes in
// testdata with sacct and squeue before you accept them.
func TestOddRows(t *testing.T) {
	for name, past := range map[string]bool{"jobs.txt": false, "pastjobs.txt": true} {
		var b bytes.Buffer
		rows := oddRows(oddSource(past))
		table(&b, Jobs, rows)
		for _, r := range rows {
			lines := r.Record()
			if r.step != nil {
				lines = r.StepRecord()
			}
			fmt.Fprintf(&b, "\n%s\n", strings.Join(lines, "\n"))
			tree := LiveTree()
			if past {
				tree = PastTree()
			}
			text, err := appendObject(nil, tree, r)
			if err != nil || !json.Valid(text) {
				t.Errorf("%s: %v", text, err)
			}
			for _, s := range r.LiveSteps() {
				fmt.Fprintf(&b, "%s runs on %v\n", s.FullID(), s.Nodes)
			}
		}
		rotatest.Golden(t, *update, name, b.String())
	}
}

// oddParts are partitions of nodes in each state.
func oddParts() []*Partition {
	gpu := func(name string, job model.JobID) api.NodeGPU { return api.NodeGPU{Model: name, Job: job} }
	nodes := []*api.Node{
		{Name: "n1", State: "idle", Cores: 37, Memory: oddMemory, Version: "1.2",
			Labels: map[string]string{"z": "1", "a": "2"},
			GPUs:   []api.NodeGPU{gpu("NVIDIA H100 80GB HBM3", 0), gpu("Tesla V-100", 0), gpu("NVIDIA H100 80GB HBM3", 0)}},
		{Name: "n2", State: "mix", Cores: 37, CoresUsed: 11, Memory: oddMemory, MemoryUsed: 3 << 30, GPUsUsed: 2,
			GPUs: []api.NodeGPU{gpu("NVIDIA H100 80GB HBM3", 7), gpu("Titan", 0), gpu("NVIDIA H100 80GB HBM3", 8)}},
		{Name: "n3", State: "alloc", Cores: 41, CoresUsed: 41, Memory: 7 << 30, MemoryUsed: 7 << 30},
		{Name: "n4", State: "drain", Cores: 43, Memory: 9 << 30, Reason: "disk|2"},
		{Name: "n5", State: "drng", Cores: 47, CoresUsed: 5, Memory: 11 << 30, MemoryUsed: 1 << 20},
		{Name: "n6", State: "down", Cores: 53, Memory: 13 << 30, GPUsUsed: 1},
	}
	return []*Partition{
		{Name: "long", Queue: cluster.Queue{MaxTime: oddTime, DefaultTime: 3661, MaxGrace: 71}, Nodes: nodes},
		{Name: model.DefaultQueue, Nodes: nodes},
		{Name: "empty"},
	}
}

// TestOddNodes does the same for nodes and partitions, in rows joined in each way.
func TestOddNodes(t *testing.T) {
	var b bytes.Buffer
	src, parts := oddSource(false), oddParts()
	all := func(*api.Node) bool { return true }
	rows := []*NodeRow{{Source: src, part: parts[0], nodes: parts[0].Nodes}, {Source: src, part: parts[1],
		nodes: parts[1].Nodes[1:3]}, {Source: src, part: parts[2]}}
	for _, n := range parts[0].Nodes {
		rows = append(rows, &NodeRow{Source: src, part: parts[0], nodes: []*api.Node{n}})
	}
	table(&b, Nodes, rows)
	for _, format := range []string{"%N", "%P %N", "%R %a", "%n %t", "%l", "%L %c", "x"} {
		for _, o := range []Joining{{}, {JSON: true}, {Apart: true}, {Exact: true}, {Barren: true},
			{Barren: true, Apart: true}, {Barren: true, JSON: true}} {
			for what, wanted := range map[string]func(*api.Node) bool{"": all,
				" of those not idle": func(n *api.Node) bool { return n.State != "idle" }} {
				columns, err := ParseLetters(Nodes, format)
				if err != nil {
					t.Fatal(err)
				}
				o.Wanted = wanted
				var list []string
				for _, r := range Join(src, parts, columns, o) {
					list = append(list, fmt.Sprint(r.part.Name, r.names()))
				}
				key := fmt.Sprintf("%s json %t apart %t exact %t barren %t%s", format, o.JSON, o.Apart, o.Exact, o.Barren, what)
				if what == "" {
					fmt.Fprintf(&b, "%s: %s\n", key, strings.Join(list, " "))
				} else if slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "n1") }) {
					t.Errorf("%s: %v", key, list)
				}
			}
		}
	}
	for _, p := range parts {
		text, err := json.Marshal(p.Object("lab"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n%s\n%s\n", strings.Join(p.Record(), "\n"), text)
	}
	for _, n := range parts[0].Nodes {
		text, err := json.Marshal(NodeObject(n, []string{"long", "default"}))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n%s\n%s\n", strings.Join(NodeRecord(n, []string{"long", "default"}), "\n"), text)
	}
	rotatest.Golden(t, *update, "nodes.txt", b.String())
}

// TestOddSizes writes sizes and times next to each border of a unit.
func TestOddSizes(t *testing.T) {
	var b bytes.Buffer
	for _, n := range []jobspec.Bytes{0, 1, 1023, 1024, 1025, 1<<20 - 1, 1 << 20, 1<<20 + 1, 1023 << 20, 1 << 30,
		1<<30 + 1<<20, 1536 << 20, 1 << 40, 1 << 50, 1 << 60, 3 << 50, oddMemory} {
		fmt.Fprintf(&b, "%d:", n)
		for _, src := range []Source{{}, {Exact: true}, {Unit: "K"}, {Unit: "M"}, {Unit: "G"}, {Unit: "P"}} {
			fmt.Fprintf(&b, " %s %s %s", src.size(n), src.peak(n), src.PeakOrNone(n))
		}
		fmt.Fprintf(&b, " %s %d\n", memory(n), tresCount(memory(n)))
	}
	for _, s := range []jobspec.Seconds{0, 1, 59, 60, 61, 3599, 3600, 3601, 86399, 86400, 86401, oddTime} {
		fmt.Fprintf(&b, "%d s: %s %s %s %s %s %v %v\n", s, Clock(s), limit(s), shortLimit(s), shortOrInfinite(s),
			CPUClock(float64(s)), minutes(s), limitMinutes(&JobRow{Job: &api.Job{TimeLimit: s}}))
	}
	for _, s := range []float64{0.001, 0.0004, 1.001, 59.9996, 60.001, 3599.999, 3599.9996, 3600.5} {
		fmt.Fprintf(&b, "%g s: %s %v\n", s, CPUClock(s), splitSeconds(s))
	}
	for _, text := range []string{"", "5", "5K", "5M", "5G", "7T", "2P", "x"} {
		fmt.Fprintf(&b, "%q counts %d\n", text, tresCount(text))
	}
	for _, text := range []string{"", "cpu=8,mem=3G,node=2,billing=8,gres/gpu=5", "cpu,mem=2M"} {
		list, _ := json.Marshal(tresList(text))
		fmt.Fprintf(&b, "%q is %s\n", text, list)
	}
	rotatest.Golden(t, *update, "sizes.txt", b.String())
}
