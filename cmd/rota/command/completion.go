package command

import (
	"context"
	"time"

	"github.com/rota-hpc/rota/controld/api"
)

// Candidate is one word that may follow, and what it means.
type Candidate struct{ Word, About string }

// Source finds the words that may stand at a place of a command line.
type Source func(l *Line) []Candidate

// Line is a command line up to the word to complete.
type Line struct {
	*Env
	Context  context.Context
	Commands []*Command
	Command  *Command // without a name where the command is to be completed
	Args     []string // of the command
	Addr     string   // of --addr on the line, "" if it is not there
}

// completionWait is how long a shell waits for the cluster.
const completionWait = time.Second

// Ask does something with the cluster that the line means, if there is one.
func (l *Line) Ask(do func(context.Context, *api.Client) error) {
	addr := l.Addr
	if addr == "" {
		addr = api.DefaultAddr(l.Getenv)
	}
	client, err := api.Dial(addr)
	if err != nil {
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(l.Context, completionWait)
	defer cancel()
	_ = do(ctx, client) // what was found until then is offered
}
