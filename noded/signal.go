package noded

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/noded/container"
)

// maxSignalBytes bounds the body of a request to send a signal.
const maxSignalBytes = 4096

// passSignal answers POST /v1/signal/{job}.{attempt}.{worker} for controllers: it sends a signal to
// the processes of a container, once. It writes nothing down, and a daemon that is killed meanwhile
// does not send it later.
func (a *Agent) passSignal(w http.ResponseWriter, r *http.Request) {
	if c, ok := identity.CallerOf(r.Context()); !ok || c.Role != string(pki.Controller) {
		api.WriteProblem(w, http.StatusForbidden, api.CodeDenied, "only controllers may send signals here: use rota signal")
		return
	}
	id, ok := container.ParseID(r.PathValue("id"))
	var req api.SignalRequest
	err := json.NewDecoder(io.LimitReader(r.Body, maxSignalBytes)).Decode(&req)
	number := int(unix.SignalNum(req.Signal))
	if !ok || err != nil || number == 0 {
		api.WriteProblem(w, http.StatusBadRequest, api.CodeInvalid,
			"write /v1/signal/JOB.ATTEMPT.WORKER, and the name of a signal")
		return
	}
	if !a.workers.Live(id) {
		api.WriteProblem(w, http.StatusConflict, api.CodeWrongState, "no part of it runs on this node")
		return
	}
	s := container.Signal{Number: number, To: req.To, Plain: true}
	if err := a.run.SignalWithSteps(r.Context(), id, a.workers.Desired(id), s); err != nil {
		api.WriteProblem(w, http.StatusConflict, api.CodeWrongState, fmt.Sprintf("the signal was not sent: %v", err))
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
