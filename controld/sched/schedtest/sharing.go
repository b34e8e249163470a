package schedtest

import (
	"fmt"
	"maps"
	"strconv"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// preemptionOf returns how a job is preempted, to be changed.
func preemptionOf(spec *jobspec.Job) *jobspec.Preemption {
	if spec.Preemption == nil {
		spec.Preemption = &jobspec.Preemption{}
	}
	return spec.Preemption
}

// sharing says how jobs of all queues share nodes: oversubscribe=TIMES, pack=yes, migrate=yes.
func (w *World) sharing(options map[string]string) (err error) {
	c := *w.State.View().Config()
	c.Queues = maps.Clone(c.Queues)
	for name, q := range c.Queues {
		for k, v := range options {
			switch k {
			case "oversubscribe":
				q.Sharing.Oversubscribe, err = strconv.Atoi(v)
			case "pack":
				q.Sharing.Pack = v == "yes"
			case "migrate":
				q.Sharing.Migrate = v == "yes"
			default:
				err = fmt.Errorf("no way of sharing %q", k)
			}
			if err != nil {
				return err
			}
		}
		c.Queues[name] = q
	}
	_, err = w.Apply(fsm.SetConfig{Config: c})
	return err
}

// moving says where a plan moves a job.
func (w *World) moving(m *fsm.MoveJob) string {
	s := fmt.Sprintf("move %s:", w.Names[m.Job])
	for k, i := range m.Leave {
		s += fmt.Sprintf(" %d from %s to %s%s", i, w.State.View().Job(m.Job).Live().Workers[i].Node, m.Join[k].Node,
			gpuList(m.Join[k].GPUs))
	}
	if m.Expected != 0 {
		s += fmt.Sprintf(", expected %d.%02dx", m.Expected/1000, m.Expected%1000/10)
	}
	return s
}

// declareSteps says how many steps a job makes in all, if that is given.
func declareSteps(spec *jobspec.Job, steps string) {
	if n, err := strconv.ParseInt(steps, 10, 64); err == nil {
		spec.Groups[0].Tasks[0].Progress = &jobspec.Progress{Total: n}
	}
}

// measured has the node of a job of one worker report the use of its GPU. Alone, that is
// use=THOUSANDTHS memory=GIB rate=STEPS in 1,000 s. Beside others, it is rate=STEPS only.
func (w *World) measured(j *model.Job, options map[string]string) error {
	a := j.Live()
	node, _ := w.State.View().Node(a.Workers[0].Node)
	report := model.WorkerReport{Job: j.ID, Attempt: a.N, State: a.Workers[0].State}
	values := map[string]int64{}
	for k, v := range options {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return err
		}
		values[k] = n
	}
	if use, alone := values["use"]; alone {
		report.Profile = &model.Profile{Utilisation: use, Memory: jobspec.Bytes(values["memory"]) * jobspec.GiB,
			Rate: values["rate"]}
	} else {
		report.Packed = &model.PackedRate{Number: a.PackingNumber(), Rate: values["rate"]}
	}
	_, err := w.Apply(fsm.NodeReport{Node: node.Name, BootID: node.BootID, Workers: []model.WorkerReport{report}})
	return err
}

// tried prints the trials of a job's attempt and their gains.
func (w *World) tried(j *model.Job) error {
	for _, t := range j.Live().Trials {
		w.say("%s: %s, expected %d, measured %d, undone %t", w.Names[j.ID], t.What, t.Expected, t.Measured, t.Undone)
	}
	return nil
}
