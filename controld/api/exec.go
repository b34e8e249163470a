package api

import (
	"context"

	"github.com/rota-hpc/rota/controld/api/stream"
)

// ExecRequest is the body of POST /v1/jobs/{id}/exec: a process to be started beside those of a running
// worker, with its GPUs, variables and user. The answer is a stream, see package stream, of one task, 0.
// When its connection is lost, the process is hung up.
type ExecRequest struct {
	Worker   int           `json:"worker,omitempty"`
	Task     string        `json:"task,omitempty"`     // of several in the job's group; "": the leader
	Argv     []string      `json:"argv,omitempty"`     // none: a shell
	Env      []string      `json:"env,omitempty"`      // NAME=VALUE, beside those of the job
	Workdir  string        `json:"workdir,omitempty"`  // "": that of the job
	Terminal *TerminalSize `json:"terminal,omitempty"` // nil: it has pipes
}

// AttachRequest is the body of POST /v1/jobs/{id}/attach: it goes on with the terminal of a job. The
// answer is a stream. Its first frame is of kind [stream.Begun], with [AttachBegun]; another connection
// that is attached ends.
type AttachRequest struct {
	Worker int `json:"worker,omitempty"`
	// From is where in the output to go on, see [stream.Frame.Counts]; nil: with what comes now.
	From *int64 `json:"from,omitempty"`
}

// AttachBegun says where in the output the next frame begins. That is later than requested if the
// output before is not kept any more.
type AttachBegun struct {
	From int64 `json:"from"`
}

// Exec starts a process in a job, named as by [Client.JobBy].
func (c *Client) Exec(ctx context.Context, ref string, req ExecRequest) (*stream.Conn, error) {
	return c.Stream(ctx, refPath(ref, "/exec"), req)
}

// Attach goes on with the terminal of a job, named as by [Client.JobBy].
func (c *Client) Attach(ctx context.Context, ref string, req AttachRequest) (*stream.Conn, error) {
	return c.Stream(ctx, refPath(ref, "/attach"), req)
}
