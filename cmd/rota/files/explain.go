package files

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec/explain"
)

// explainWords explains words.
func explainWords(env *command.Env, c *cli.Context) error {
	asJSON, err := env.PlainOrJSON(c)
	if err != nil {
		return err
	}
	if c.Args().Len() == 0 {
		return exit.Usagef("no word given: try rota explain JS-112, PD, Priority or time_limit")
	}
	var found []explain.Entry
	for _, word := range c.Args().Slice() {
		entries := explain.Find(word)
		if len(entries) == 0 {
			p := &api.Problem{Title: "Not Found", Status: http.StatusNotFound, Code: api.CodeNotFound,
				Detail: fmt.Sprintf("%q is not a known code, state, reason, attribute or block", word)}
			if near := explain.Nearest(word); len(near) > 0 {
				p.Hint = "did you mean " + strings.Join(near, " or ") + "?"
			}
			return p
		}
		found = append(found, entries...)
	}
	if asJSON {
		return table.PrintJSON(env.Stdout, explanationList{found})
	}
	return explain.Write(env.Stdout, found)
}

// explanationList is what rota explain prints as JSON.
type explanationList struct {
	Items []explain.Entry `json:"items"`
}

func completeExplained(*command.Line) []command.Candidate {
	var found []command.Candidate
	seen := map[string]bool{}
	for _, e := range explain.All() {
		if !seen[e.Name] {
			seen[e.Name] = true
			found = append(found, command.Candidate{Word: e.Name, About: e.Title})
		}
	}
	return found
}
