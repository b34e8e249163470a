package schedtest

import (
	"fmt"
	"strconv"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// setElastic makes a job elastic: elastic=MIN-MAX or MIN-MAX/UNIT, step, cooldown, grow-after,
// resize, and server=CORES for a parameter server beside its workers.
func setElastic(g *jobspec.Group, k, v string) (err error) {
	if g.Elastic == nil {
		g.Elastic = &jobspec.Elastic{Cooldown: 60, GrowAfter: 60}
		g.MaxWorkersPerNode = model.MaxGPUsPerNode
	}
	e := g.Elastic
	var ms int64
	switch k {
	case "elastic":
		g.Count = 0
		if _, err := fmt.Sscanf(v, "%d-%d/%d", &e.Min, &e.Max, &e.MultipleOf); err == nil {
			return nil
		}
		_, err = fmt.Sscanf(v, "%d-%d", &e.Min, &e.Max)
	case "resize":
		e.Resize = v
	case "step":
		e.Step, err = strconv.Atoi(v)
	case "cooldown":
		ms, err = milliseconds(v)
		e.Cooldown = jobspec.Seconds(ms / 1000)
	case "grow-after":
		ms, err = milliseconds(v)
		e.GrowAfter = jobspec.Seconds(ms / 1000)
	}
	return err
}

// addServer adds a parameter server of so many cores to a job, if any.
func addServer(spec *jobspec.Job, cores string) {
	n, err := strconv.Atoi(cores)
	if err != nil {
		return
	}
	spec.GangScope = "job"
	spec.Groups = append(spec.Groups, jobspec.Group{Name: "server", Count: 1, Tasks: []jobspec.Task{
		{Name: "main", Command: []string{"true"}, Resources: jobspec.Resources{Cores: n, Memory: jobspec.GiB}},
	}})
}

// rate reports how fast running jobs are, in steps in 1,000 s.
func (w *World) rate(names []string, options map[string]string) error {
	n, err := strconv.ParseInt(options["is"], 10, 64)
	if err != nil {
		return err
	}
	return w.each(names, func(j *model.Job) error {
		a := j.Live()
		worker := &a.Workers[0]
		node, _ := w.State.View().Node(worker.Node)
		report := model.WorkerReport{Job: j.ID, Attempt: a.N, State: worker.State, Rate: n}
		_, err := w.Apply(fsm.NodeReport{Node: node.Name, BootID: node.BootID, Workers: []model.WorkerReport{report}})
		return err
	})
}

// resizing describes a plan's changes to an elastic job.
func (w *World) resizing(r *fsm.ResizeJob) string {
	j := w.State.View().Job(r.Job)
	from := j.Size()
	if j.Live().Joining() { // they are counted already
		from -= len(r.Join)
	}
	s := fmt.Sprintf("resize %s from %d to %d:", w.Names[r.Job], from, from-len(r.Leave)+len(r.Join))
	for _, i := range r.Leave {
		s += fmt.Sprintf(" -%d on %s", i, j.Live().Workers[i].Node)
	}
	for _, p := range r.Join {
		s += " +" + p.Node + gpuList(p.GPUs)
	}
	if r.For != 0 {
		s += " for " + w.Names[r.For]
	}
	return s
}
