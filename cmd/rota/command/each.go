package command

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
)

// ForEach calls do for each of refs, which are jobs or what noun says, and prints the results. It
// continues after a refusal, and then fails with the highest exit code. It ends when no controller
// answers, and then prints what was done before.
func (s *Session) ForEach(refs []string, noun, done string,
	do func(string) (*api.ControlResponse, error)) error {
	all := api.ControlResponse{Items: []api.ControlItem{}}
	var names []string
	var failed error
	for i, ref := range refs {
		resp, err := do(ref)
		var p *api.Problem
		if err != nil && (!errors.As(err, &p) || exit.Code(err) == exit.Unreachable) {
			failed = About(noun+" "+ref, err)
			if n := len(refs) - i - 1; n > 0 {
				failed = fmt.Errorf("%w; %s after it not tried", failed, show.Count(n, noun, noun+"s"))
			}
			break
		}
		switch {
		case err != nil:
			all.Items = append(all.Items, api.ControlItem{Ref: ref, Error: p})
		default:
			all.Items = append(all.Items, resp.Items...)
		}
		for len(names) < len(all.Items) {
			names = append(names, ref)
		}
	}
	for i := range all.Items {
		all.Items[i].Ref = names[i]
	}
	if failed != nil {
		if len(all.Items) > 0 {
			_ = s.PrintOutcome(&all, noun, done) // failed says more than an earlier refusal
		}
		return failed
	}
	return s.PrintOutcome(&all, noun, done)
}

// PrintOutcome prints the result for each item of a response: errors, and how many items are done.
func (s *Session) PrintOutcome(resp *api.ControlResponse, noun, done string) error {
	if s.AsJSON {
		if err := table.PrintJSON(s.Stdout, resp); err != nil {
			return err
		}
	}
	good, code := 0, exit.OK
	for _, item := range resp.Items {
		if item.Error == nil {
			good++
			continue
		}
		code = max(code, exit.CodeOfProblem(item.Error))
		if !s.AsJSON {
			s.PrintError(false, About(noun+" "+cmp.Or(item.Ref, show.ID(item.ID)), item.Error))
		}
	}
	if !s.AsJSON && (good > 0 || code == exit.OK) {
		fmt.Fprintf(s.Stdout, "%d %s\n", good, done)
	}
	return exit.WithCode(code)
}

// About adds to an error what it is about, unless the text names it already.
func About(subject string, err error) error {
	_, rest, found := strings.Cut(strings.ReplaceAll(err.Error(), `"`, ""), subject)
	if found && (rest == "" || strings.ContainsAny(rest[:1], " ,:;")) {
		return err
	}
	return fmt.Errorf("%s: %w", subject, err)
}
