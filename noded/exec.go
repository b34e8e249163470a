package noded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
)

// maxExecBytes bounds the body of a request to start a process.
const maxExecBytes = 1 << 20

// execWorker answers POST /v1/exec/{job}.{attempt}.{worker} for controllers: it starts a process
// beside a worker's processes.
func (d *daemon) execWorker(w http.ResponseWriter, r *http.Request) {
	var req api.ExecRequest
	d.streamFromShim(w, r, &req, func() container.IORequest {
		e := &container.Exec{Task: req.Task, Args: req.Argv, Env: req.Env, Dir: req.Workdir}
		if t := req.Terminal; t != nil {
			e.Terminal = &container.Terminal{Rows: t.Rows, Columns: t.Columns}
		}
		return container.IORequest{Exec: e}
	})
}

// attachWorker answers POST /v1/attach/{job}.{attempt}.{worker} for controllers: it goes on with what a
// worker reads and writes.
func (d *daemon) attachWorker(w http.ResponseWriter, r *http.Request) {
	var req api.AttachRequest
	d.streamFromShim(w, r, &req, func() container.IORequest {
		from := int64(-1)
		if req.From != nil {
			from = *req.From
		}
		return container.IORequest{Attach: &container.IOAttach{From: from}}
	})
}

// streamFromShim answers a request of a controller by a stream of a worker's shim.
func (d *daemon) streamFromShim(w http.ResponseWriter, r *http.Request, body any, of func() container.IORequest) {
	if c, ok := identity.CallerOf(r.Context()); !ok || c.Role != string(pki.Controller) {
		api.WriteProblem(w, http.StatusForbidden, api.CodeDenied,
			"only controllers may do this here: use rota exec or rota attach")
		return
	}
	id, ok := container.ParseID(r.PathValue("id"))
	err := json.NewDecoder(io.LimitReader(r.Body, maxExecBytes)).Decode(body)
	if err == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(r.Body, maxExecBytes)) // the stream begins behind the body
	}
	if !ok || err != nil || !api.AsksForStream(r) {
		api.WriteProblem(w, http.StatusBadRequest, api.CodeInvalid,
			"write JOB.ATTEMPT.WORKER in the path and the command in the body, and ask for a stream")
		return
	}
	if !d.agent.workers.Live(id) {
		api.WriteProblem(w, http.StatusConflict, api.CodeWrongState, "no part of it runs on this node")
		return
	}
	behind, err := d.shims.OpenIO(r.Context(), id, of())
	if err != nil {
		if errors.Is(err, container.ErrUnknown) {
			err = errors.New("its container does not exist yet")
		}
		api.WriteProblem(w, http.StatusConflict, api.CodeWrongState, fmt.Sprint(err))
		return
	}
	front, err := api.AcceptStream(r.Context(), w, r)
	if err != nil {
		_ = behind.Close() // nothing has begun
		d.cfg.Logger.Debug("cannot accept a stream", "container", id, "err", err)
		return
	}
	stream.Join(front, behind)
}
