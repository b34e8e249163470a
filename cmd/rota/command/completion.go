package command

import (
	"cmp"
	"context"
	"time"

	"github.com/rota-hpc/rota/controld/api"
)

// Candidate is a word that completes a command line, with a description for the user.
type Candidate struct{ Word, About string }

// Source returns the words that may stand at one place of a command line.
type Source func(l *Line) []Candidate

// Line is a command line up to the word to complete.
type Line struct {
	*Env
	Context  context.Context
	Commands []*Command
	Command  *Command // without a name if the command itself is to be completed
	Args     []string // arguments of the command so far
	Addr     string   // value of --addr, "" if it is not given
}

// completionWait bounds how long a user waits for the cluster after pressing Tab.
const completionWait = time.Second

// Ask calls do with a client for the cluster of the command line. Errors are dropped.
func (l *Line) Ask(do func(context.Context, *api.Client) error) {
	opts, err := l.clientOptions("")
	if err != nil {
		return
	}
	client, err := api.DialWith(cmp.Or(l.Addr, api.DefaultAddr(l.Getenv)), opts)
	if err != nil {
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(l.Context, completionWait)
	defer cancel()
	_ = do(ctx, client) // an error only shortens the list
}
