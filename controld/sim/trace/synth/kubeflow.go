package synth

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// KubeflowExperiments is the number of experiments of [Kubeflow].
const KubeflowExperiments = 3

// KubeflowNodes are the nodes of these experiments, for [trace.ParseNodes].
const KubeflowNodes = "3x8c/30g"

// Kubeflow returns an experiment, from 1, with four elastic training jobs on a small cluster, half
// a minute apart. Each has one parameter server, and a range of workers that differs between the
// experiments. A job has 60 minutes of work for one worker, n workers are n/(1+0.05(n-1)) times as
// fast, and a resize takes 10 s. In the third experiment the second job has a high priority. The
// jobs request the most workers that they can use, and get them where workers are fixed.
func Kubeflow(experiment int) (*trace.Trace, error) {
	worker := []model.Vector{
		{Cores: 1, Memory: 2 * jobspec.GiB}, {Cores: 2, Memory: 6 * jobspec.GiB}, {Cores: 4, Memory: 12 * jobspec.GiB},
	}
	most := []int{8, 4, 3}
	if experiment < 1 || experiment > KubeflowExperiments {
		return nil, fmt.Errorf("experiment %d: must be 1 to %d", experiment, KubeflowExperiments)
	}
	t := &trace.Trace{Name: fmt.Sprintf("kubeflow-%d", experiment), Format: trace.Generated}
	for i := range 4 {
		j := trace.NewJob(fmt.Sprint(i + 1))
		j.Name, j.User, j.Account = "training", fmt.Sprintf("user%d", i+1), "kubeflow"
		j.Submit, j.Work, j.Restart, j.Grace = int64(i)*30*second, hour, 10*second, 0
		j.Request, j.MinWorkers, j.Workers, j.MaxWorkers = worker[experiment-1], 1, most[experiment-1], most[experiment-1]
		j.Servers, j.Server = 1, model.Vector{Cores: 1, Memory: 2 * jobspec.GiB}
		j.Scaling = trace.Diminishing{Loss: 50_000}
		if experiment == 3 && i == 1 {
			j.Priority = 100
		}
		t.Jobs = append(t.Jobs, *j)
	}
	return t, nil
}
