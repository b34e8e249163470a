package actions

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// Control applies a verb of scontrol to lists of jobs. If the controller refuses one job, Control
// continues with the next.
func Control(ctx context.Context, t *tool.Tool, verb model.Verb, words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("too few arguments for keyword: %s", verb)
	}
	refs, err := command.JobRefs(words)
	if err != nil {
		return fmt.Errorf(tool.NoSuchJob+": %w", err)
	}
	s, err := t.Connect()
	if err != nil {
		return err
	}
	return each(t, "job", refs, func(ref string) (*api.ControlResponse, error) { return s.Control(ctx, ref, verb, "") })
}

// each calls a function for each job or node of a list. If the controller refuses one of them, each
// continues; it stops if no controller answers.
func each(t *tool.Tool, what string, refs []string, do func(ref string) (*api.ControlResponse, error)) error {
	var failure error
	for _, ref := range refs {
		resp, err := do(ref)
		if err == nil {
			for _, item := range resp.Items {
				if item.Error != nil {
					err = item.Error
				}
			}
		}
		text, _ := tool.Denied(err)
		switch {
		case tool.IsUnreachable(err):
			return tool.AsSlurm(err)
		case exit.IsNotFound(err) && what == "job":
			t.Errorf(tool.NoSuchJob+" for job %s", show.Clean(ref)) // clients look for these words
			failure = tool.ErrSaid
		case text == tool.NotPermitted: // without a hint
			t.Errorf("%s for %s %s", text, what, show.Clean(ref))
			failure = tool.ErrSaid
		case err != nil:
			t.Errorf("%s", show.Clean(command.About(what+" "+ref, tool.AsSlurm(err)).Error()))
			failure = tool.ErrSaid
		}
	}
	return failure
}

// Update changes jobs (JobId=7 Name=x TimeLimit=+10) or nodes (NodeName=n[1-2] State=DRAIN Reason=x), as
// scontrol update does.
func Update(ctx context.Context, t *tool.Tool, words []string) error {
	var refs []string
	var change api.UpdateRequest
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		k := strings.ToLower(key)
		if !ok || value == "" && k != "comment" {
			return fmt.Errorf("%q is no KEY=VALUE", word)
		}
		sign := ""
		if last := key[max(len(key)-1, 0):]; last == "+" || last == "-" { // TimeLimit+=10
			key, k, sign = key[:len(key)-1], k[:len(k)-1], last
		}
		var err error
		switch {
		case k == "timelimit":
			err = readLimit(&change, sign, value)
		case sign != "":
			err = fmt.Errorf("%s%s= is not supported", key, sign)
		case k == "nodename":
			return updateNodes(ctx, t, words)
		case k == "jobid" || k == "job":
			refs, err = command.JobRefs([]string{value})
		case k == "name" || k == "jobname":
			change.Name = &value
		case k == "comment":
			change.Comment = &value
		default:
			err = fmt.Errorf("update of %s is not supported: JobId, Name, Comment and TimeLimit are", key)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case len(refs) == 0:
		return errors.New("update can change only jobs and nodes, and needs JobId=ID or NodeName=NAMES")
	case change == (api.UpdateRequest{}):
		return errors.New("no update specified: write Name=NAME, Comment=TEXT or TimeLimit=TIME")
	}
	s, err := t.Connect()
	if err != nil {
		return err
	}
	return each(t, "job", refs, func(ref string) (*api.ControlResponse, error) { return s.Update(ctx, ref, change) })
}

// updateNodes drains nodes or resumes them.
func updateNodes(ctx context.Context, t *tool.Tool, words []string) error {
	var names []string
	var verb, reason string
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch strings.ToLower(key) {
		case "nodename":
			names, err = command.NodeRefs(command.SplitOutsideBrackets(value))
		case "reason":
			reason = value
		case "state":
			switch strings.ToLower(value) {
			case "drain":
				verb = "drain"
			case "resume", "undrain":
				verb = "resume"
			default:
				err = fmt.Errorf("Invalid node state specified: %s: DRAIN and RESUME are supported", value)
			}
		default:
			err = fmt.Errorf("update of %s of a node is not supported: State and Reason are", key)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case verb == "":
		return errors.New("no update specified: write State=DRAIN Reason=TEXT, or State=RESUME")
	case verb == "drain" && reason == "":
		return errors.New("You must specify a reason when DRAINING a node. Request denied")
	}
	s, err := t.Connect()
	if err != nil {
		return err
	}
	return each(t, "node", names, func(name string) (*api.ControlResponse, error) {
		return &api.ControlResponse{}, s.SetNode(ctx, name, verb, reason)
	})
}

// readLimit reads a time limit, or a change of the limit such as +10.
func readLimit(change *api.UpdateRequest, sign, value string) error {
	if sign == "" && strings.ContainsAny(value[:1], "+-") {
		sign, value = value[:1], value[1:]
	}
	limit, err := command.ParseLimit(value)
	switch {
	case err != nil:
		return fmt.Errorf("Invalid time limit specification: %q: write minutes, HH:MM:SS or D-HH, up to 3650 days", value)
	case sign == "-":
		limit = -limit
		fallthrough
	case sign == "+":
		change.AddTime = &limit
	default:
		change.TimeLimit = &limit
	}
	return nil
}
