package input

import (
	"context"
	"errors"
	"slices"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script"
)

// OnFewestNodes calls do with the job, which submits it or asks what would become of it. A script
// may not say how many nodes it has. If no node could ever have all its tasks, do is called again
// with as few nodes as the largest nodes need for them. The error is that of do.
func (s *Submission) OnFewestNodes(ctx context.Context, session *command.Session, do func(*jobspec.Job) error) error {
	refused := do(s.Job)
	if s.again == nil || !isImpossible(refused) {
		return refused
	}
	list, _, err := session.Nodes(ctx, api.Read{})
	if err != nil {
		return refused
	}
	for n := 2; n <= s.Result.Tasks; n++ {
		result := s.again(n)
		if len(result.Problems.Of(script.Mistake, script.Refused)) > 0 || !hasRoom(list.Items, result.Job) {
			continue
		}
		s.warn(session.Env, slices.DeleteFunc(result.Problems, func(p script.Problem) bool {
			return slices.Contains(s.Result.Problems, p)
		}))
		job := *s.Job
		job.Groups = result.Job.Groups
		if err := do(&job); !isImpossible(err) {
			s.Job = &job
			return err
		}
		break
	}
	return refused
}

// isImpossible reports whether a job was refused because no node could ever run it.
func isImpossible(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Code == api.CodeImpossible
}

// hasRoom reports whether some node, were it empty, has room for a worker of a script's job.
func hasRoom(nodes []api.Node, job *jobspec.Job) bool {
	need := job.Groups[0].Tasks[0].Resources
	return slices.ContainsFunc(nodes, func(n api.Node) bool {
		return n.Cores >= int64(need.Cores) && n.Memory >= need.Memory && len(n.GPUs) >= need.GPUs
	})
}
