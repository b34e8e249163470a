package fsm

import (
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestStepsAreNoted: a step that has ended is noted once, as its first node says, and no more of them
// than the bound.
func TestStepsAreNoted(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	w.node("n2", 8)
	id := w.submit(2, 1)
	w.ok(w.start(id, "n1", "n2"))
	w.run(id)
	say := func(node string, steps ...model.Step) error {
		n, _ := w.s.v.Node(node)
		r := NodeReport{Node: node, BootID: n.BootID}
		for _, s := range steps {
			r.Steps = append(r.Steps, model.StepReport{Job: id, Attempt: 1, Step: s})
		}
		rows, err := w.apply(r)
		if refused, _ := rows.(RefusedRows); len(refused) > 0 {
			return refused[0]
		}
		return err
	}
	step := func(row, id int) model.Step {
		return model.Step{Row: row, ID: id, Name: "true", Nodes: "n1", Tasks: 1, Began: 5, Ended: 6}
	}
	w.ok(say("n1", step(1, 1), step(2, 0)))
	w.ok(say("n1", step(2, 0), step(3, 2)))
	w.ok(say("n2", step(4, 3))) // not the first node
	w.refused(say("n1", model.Step{Row: 4}), model.ErrBadReport)
	var got []int
	for _, s := range w.job(id).Attempts[0].Steps {
		got = append(got, s.ID)
	}
	if len(got) != 3 || got[0] != 1 || got[1] != 0 || got[2] != 2 {
		t.Errorf("steps %v", got)
	}
	var many []model.Step
	for i := range model.MaxSteps {
		many = append(many, step(4+i, 3+i))
	}
	w.ok(say("n1", many...))
	if a := w.job(id).Attempts[0]; len(a.Steps) != model.MaxSteps || a.LastStep != 3+model.MaxSteps {
		t.Errorf("%d steps are kept, the last is %d", len(a.Steps), a.LastStep)
	}
}

// TestAProgramThatStartsSteps ends its attempt, whatever the workers do that hold its room.
func TestAProgramThatStartsSteps(t *testing.T) {
	for _, c := range []struct {
		end  int
		want model.JobState
	}{{0, model.Completed}, {3, model.Failed}} {
		w := newWorld(t)
		w.node("n1", 8)
		w.node("n2", 8)
		id := w.submit(2, 1, func(j *jobspec.Job) {
			j.Groups[0].Tasks[0].Launch = &jobspec.Launch{Type: jobspec.LaunchSteps, Nproc: 2}
		})
		w.ok(w.start(id, "n1", "n2"))
		w.run(id)
		w.report(id, 0, model.WorkerExited, code(c.end))
		if a := w.job(id).Live(); a == nil || a.Stop == nil {
			t.Fatal("the other worker is not stopped")
		}
		w.report(id, 1, model.WorkerExited, signal(9))
		w.state(id, c.want)
		if got := w.job(id).ExitCode; got != c.end {
			t.Errorf("exit code %d", got)
		}
	}
}

// TestAProgramThatStartsStepsInGroups ends its attempt with all groups, whose workers have no program that
// could succeed.
func TestAProgramThatStartsStepsInGroups(t *testing.T) {
	for _, c := range []struct {
		end  int
		want model.JobState
	}{{0, model.Completed}, {3, model.Failed}} {
		w := elasticWorld(t)
		id := w.submit3(1, taskGroups("het-0", "het-1"), func(j *jobspec.Job) {
			j.GangScope = model.GangScopeJob
			for i := range j.Groups {
				g := &j.Groups[i]
				g.Tasks = slices.Clone(g.Tasks)
				g.Tasks[0].Launch = &jobspec.Launch{Type: jobspec.LaunchSteps, Nproc: 2}
			}
			j.Groups[1].Tasks[0].Command = nil
		})
		start := &StartJob{Job: id, Port: 20000, Places: []model.Place{w.place("n1", 1), w.place("n2", 1)}}
		start.Places[0].Port, start.Places[1].Port = 20001, 20000
		w.ok(w.plan(start))
		w.run(id)
		w.report(id, 0, model.WorkerExited, code(c.end))
		if a := w.job(id).Live(); a == nil || a.Stop == nil {
			t.Fatal("the worker of the other group is not stopped")
		}
		w.report(id, 1, model.WorkerExited, signal(9))
		w.state(id, c.want)
		if got := w.job(id).ExitCode; got != c.end {
			t.Errorf("exit code %d", got)
		}
	}
}

// TestAStepThatRunsOutOfMemory: the job that srun has made for it has too, by 0:125 and with what was killed.
func TestAStepThatRunsOutOfMemory(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 8)
	id := w.running(1, []string{"n1"}, func(j *jobspec.Job) {
		j.Meta = map[string]string{jobspec.MetaAllocation: jobspec.AllocationOfSrun}
	})
	n, _ := w.s.v.Node("n1")
	row := model.Step{Row: 1, Name: "sh", Nodes: "n1", Tasks: 1, Began: 5, Ended: 6, Signal: model.SignalOOM, OOM: true,
		Why: killedTail}
	w.must(NodeReport{Node: "n1", BootID: n.BootID, Steps: []model.StepReport{{Job: id, Attempt: 1, Step: row}}})
	w.report(id, 0, model.WorkerExited, code(253))
	w.state(id, model.OutOfMemory)
	w.cause(id, model.CauseOOM)
	j := w.job(id)
	if j.ExitCode != 0 || j.Signal != 125 || j.Reason.Text != killedTail || j.Attempts[0].Killed() != killedTail {
		t.Errorf("%d:%d, %+v, %q", j.ExitCode, j.Signal, j.Reason, j.Attempts[0].Killed())
	}
}
