package fsm

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// crowd returns a state with nodes of 8 GPUs and pending jobs of 200 shapes in 8 accounts.
func crowd(b *testing.B, nodes, jobs int) *Machine {
	b.Helper()
	s := New(cluster.DefaultConfig())
	apply := func(c Command) {
		if _, err := s.Apply(s.Index()+1, Entry{Stamp: model.Stamp{At: 1000}, Command: c}); err != nil {
			b.Fatal(err)
		}
	}
	for i := range nodes {
		apply(RegisterNode{Node: testNode(fmt.Sprintf("n%05d", i), 8)})
	}
	for i := 0; i < jobs; i += 1000 {
		c := SubmitJobs{Owner: alice}
		for k := range min(1000, jobs-i) {
			c.Jobs = append(c.Jobs, crowdSpec(i+k))
		}
		apply(c)
	}
	return s
}

func crowdSpec(i int) *jobspec.Job {
	spec := testSpec(1, 1+i%8)
	spec.Account = fmt.Sprint("account", i%8)
	spec.Groups[0].Tasks[0].Resources.Cores = 1 + i/8%25
	return spec
}

func BenchmarkSubmit(b *testing.B) {
	s := crowd(b, 0, 100_000)
	c := SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{crowdSpec(3)}}
	b.ReportAllocs()
	for b.Loop() {
		s.View()
		if _, err := s.Apply(s.Index()+1, Entry{Command: c}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStartFinish starts the head of a group among 100,000 pending jobs on 10,000 nodes, runs
// it to its end and submits another. It takes a view after each of the four entries.
func BenchmarkStartFinish(b *testing.B) {
	s := crowd(b, 10_000, 100_000)
	apply := func(c Command) any {
		got, err := s.Apply(s.Index()+1, Entry{Stamp: model.Stamp{At: s.v.At() + 1}, Command: c})
		if err != nil {
			b.Fatal(err)
		}
		s.View()
		return got
	}
	next := model.JobID(0)
	b.ReportAllocs()
	for b.Loop() {
		next++
		node := fmt.Sprintf("n%05d", int(next)*37%10_000)
		j := s.v.Job(next)
		p := model.Place{Node: node}
		for g := range int(j.Request.Active.GPUs / 1000) {
			p.GPUs = append(p.GPUs, g)
		}
		start := &StartJob{Job: next, Places: []model.Place{p}}
		if err := apply(CommitPlan{Actions: []Action{start}}).([]error)[0]; err != nil {
			b.Fatal(err)
		}
		for _, state := range []model.WorkerState{model.WorkerRunning, model.WorkerExited} {
			apply(NodeReport{Node: node, BootID: "b1", Workers: []model.WorkerReport{{Job: next, Attempt: 1, State: state}}})
		}
		apply(SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{crowdSpec(int(next))}})
	}
}

func BenchmarkView(b *testing.B) {
	s := crowd(b, 1000, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Apply(s.Index()+1, Entry{Command: TrimHistory{}}); err != nil { // a view is kept until the next entry
			b.Fatal(err)
		}
		s.View()
	}
}

func BenchmarkRegister(b *testing.B) {
	for b.Loop() {
		crowd(b, 10_000, 0)
	}
}

func BenchmarkSnapshotWrite(b *testing.B) {
	v := crowd(b, 1000, 100_000).View()
	for b.Loop() {
		if err := v.WriteSnapshot(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSnapshotRead(b *testing.B) {
	var buf bytes.Buffer
	if err := crowd(b, 1000, 100_000).View().WriteSnapshot(&buf); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(buf.Len()))
	for b.Loop() {
		if _, err := ReadSnapshot(bytes.NewReader(buf.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCancel cancels 100,000 pending jobs that are alike, in requests of 10,000, the oldest
// first, the youngest first, or in no order.
func BenchmarkCancel(b *testing.B) {
	const jobs, each = 100_000, 10_000
	for name, pick := range map[string]func(i int) int{
		"oldest-first": func(i int) int { return i }, "youngest-first": func(i int) int { return jobs - 1 - i },
		"mixed": func(i int) int { return i * 61_211 % jobs },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s := New(cluster.DefaultConfig())
				for range jobs / 1000 {
					c := SubmitJobs{Owner: alice}
					for range 1000 {
						c.Jobs = append(c.Jobs, testSpec(1, 1))
					}
					if _, err := s.Apply(s.Index()+1, Entry{Command: c}); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				for i := 0; i < jobs; i += each {
					c := ControlJobs{Verb: model.VerbCancel, By: alice.UID}
					for k := range each {
						c.Targets = append(c.Targets, Target{ID: model.JobID(1 + pick(i+k))})
					}
					if _, err := s.Apply(s.Index()+1, Entry{Command: c}); err != nil {
						b.Fatal(err)
					}
					s.View()
				}
				if len(s.v.Finished(0)) != jobs {
					b.Fatal("some are left")
				}
			}
		})
	}
}

// BenchmarkSubmitArray submits an array of 10,000 elements, by way of its encoding, among 100,000
// pending jobs.
func BenchmarkSubmitArray(b *testing.B) {
	s := crowd(b, 0, 100_000)
	spec := crowdSpec(3)
	spec.Array = &jobspec.Array{Indices: "0-9999"}
	data, err := Encode(Entry{Command: SubmitJobs{Owner: alice, Jobs: []*jobspec.Job{spec}}})
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		if i%80 == 79 { // before there are as many as there may be
			b.StopTimer()
			s = crowd(b, 0, 100_000)
			b.StartTimer()
		}
		s.View()
		e, err := Decode(data)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Apply(s.Index()+1, e); err != nil {
			b.Fatal(err)
		}
	}
}

// largePlan is a plan that starts 1,000 jobs with four GPUs each.
func largePlan() Entry {
	plan := CommitPlan{BasedOn: 7, At: 1000, Rules: 1}
	for i := range 1000 {
		plan.Actions = append(plan.Actions, &StartJob{Job: model.JobID(i + 1), Port: 20_000 + i,
			Places: []model.Place{{Node: fmt.Sprintf("n%05d", i), GPUs: []int{0, 1, 2, 3}}}})
	}
	return Entry{Stamp: model.Stamp{At: 1000, Wall: 1000}, Command: plan}
}

// BenchmarkPlanEncode writes a large plan as an entry of the log.
func BenchmarkPlanEncode(b *testing.B) {
	e := largePlan()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode(e); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPlanDecode reads a large plan from an entry of the log.
func BenchmarkPlanDecode(b *testing.B) {
	data, err := Encode(largePlan())
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
