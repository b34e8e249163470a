// Package problem turns errors into the problems that the API answers with: a status, a stable code
// and a sentence.
package problem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/model/trust"
)

// Invalid is a request that is malformed.
func Invalid(format string, args ...any) error {
	return &api.Problem{Status: http.StatusBadRequest, Code: api.CodeInvalid, Detail: fmt.Sprintf(format, args...)}
}

// Denied is a request that its caller may not make.
func Denied(format string, args ...any) error {
	return &api.Problem{Status: http.StatusForbidden, Code: api.CodeDenied, Detail: fmt.Sprintf(format, args...)}
}

// NotFound is a request for what does not exist.
func NotFound(format string, args ...any) error {
	return &api.Problem{Status: http.StatusNotFound, Code: api.CodeNotFound, Detail: fmt.Sprintf(format, args...)}
}

// WrongState is a request that does not fit the state of what it is for.
func WrongState(format string, args ...any) error {
	return &api.Problem{Status: http.StatusConflict, Code: api.CodeWrongState, Detail: fmt.Sprintf(format, args...)}
}

// refusals are the errors of other packages with their status and code.
var refusals = []struct {
	err    error
	status int
	code   string
}{
	{generation.ErrUnsettled, http.StatusServiceUnavailable, api.CodeUnsettled},
	{generation.ErrGeneration, http.StatusMisdirectedRequest, api.CodeGeneration},
	{model.ErrNoJob, http.StatusNotFound, api.CodeNotFound},
	{model.ErrNoNode, http.StatusNotFound, api.CodeNotFound},
	{model.ErrNodeNotDown, http.StatusConflict, api.CodeWrongState},
	{trust.ErrNoAPIToken, http.StatusNotFound, api.CodeNotFound},
	{trust.ErrBadToken, http.StatusUnprocessableEntity, api.CodeInvalid},
	{history.ErrNoJob, http.StatusNotFound, api.CodeNotFound},
	{model.ErrNotOwner, http.StatusForbidden, api.CodeDenied},
	{model.ErrHeldByAdmin, http.StatusForbidden, api.CodeDenied},
	{model.ErrWrongState, http.StatusConflict, api.CodeWrongState},
	{model.ErrRunsOnce, http.StatusConflict, api.CodeWrongState},
	{fsm.ErrForgotten, http.StatusConflict, api.CodeWrongState},
	{fsm.ErrNoLimit, http.StatusConflict, api.CodeWrongState},
	{fsm.ErrRaisesLimit, http.StatusForbidden, api.CodeDenied},
	{model.ErrOtherBoot, http.StatusConflict, api.CodeWrongState},
	{model.ErrOtherMachine, http.StatusConflict, api.CodeWrongState},
	{model.ErrKeyReused, http.StatusConflict, api.CodeKeyReused},
	{model.ErrNoQueue, http.StatusUnprocessableEntity, api.CodeInvalidJob},
	{model.ErrBadInventory, http.StatusUnprocessableEntity, api.CodeInvalid},
	{model.ErrBadReport, http.StatusUnprocessableEntity, api.CodeInvalid},
	{model.ErrBadClass, http.StatusUnprocessableEntity, api.CodeInvalid},
	{trust.ErrNoToken, http.StatusForbidden, api.CodeDenied},
	{trust.ErrTokenExpired, http.StatusForbidden, api.CodeDenied},
	{trust.ErrTokenUsed, http.StatusForbidden, api.CodeDenied},
	{trust.ErrKeyChange, http.StatusConflict, api.CodeWrongState},
	{trust.ErrAuthority, http.StatusConflict, api.CodeWrongState},
	{trust.ErrAuthorityPhase, http.StatusConflict, api.CodeWrongState},
	{trust.ErrTokenRole, http.StatusForbidden, api.CodeDenied},
	{model.ErrBadSwitch, http.StatusUnprocessableEntity, api.CodeInvalid},
	{model.ErrStillPaused, http.StatusConflict, api.CodeWrongState},
	{model.ErrConfigChanged, http.StatusConflict, api.CodeWrongState},
	{model.ErrNoConfigVersion, http.StatusNotFound, api.CodeNotFound},
	{model.ErrBadConfig, http.StatusUnprocessableEntity, api.CodeInvalid},
	{consensus.ErrTooLarge, http.StatusRequestEntityTooLarge, api.CodeTooLarge},
	{consensus.ErrStopped, http.StatusServiceUnavailable, api.CodeNoLeader},
	{identity.ErrUnauthorised, http.StatusUnauthorized, api.CodeUnauthorised},
	{identity.ErrVouch, http.StatusForbidden, api.CodeDenied},
}

// Of returns an error as the API shows it.
func Of(err error) *api.Problem {
	var p *api.Problem
	if errors.As(err, &p) {
		return p
	}
	if p := logProblem(err); p != nil {
		return p
	}
	var limit *model.LimitError
	var spec *model.SpecError
	if errors.As(err, &limit) || errors.As(err, &spec) {
		return &api.Problem{Status: http.StatusUnprocessableEntity, Code: api.CodeInvalidJob, Detail: err.Error()}
	}
	if errors.Is(err, identity.ErrNotLocal) {
		return &api.Problem{Status: http.StatusUnauthorized, Code: api.CodeUnauthorised, Detail: err.Error(),
			Hint: "use the socket of a daemon of this machine (unix:" + api.DefaultSocket + "), or forward the socket of " +
				"another machine: ssh -L PATH:" + api.DefaultSocket + " HOST, and then --addr unix:PATH"}
	}
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return &api.Problem{Status: r.status, Code: r.code, Detail: err.Error()}
		}
	}
	return &api.Problem{Status: http.StatusInternalServerError, Code: api.CodeInternal, Detail: err.Error()}
}

// logProblem is an error of the log, or nil.
func logProblem(err error) *api.Problem {
	var not *consensus.NotLeaderError
	var unsure *consensus.UncertainError
	switch {
	case errors.As(err, &not):
		return NoLeader("this controller is no longer the leader")
	case errors.As(err, &unsure):
		return &api.Problem{Status: http.StatusServiceUnavailable, Code: api.CodeUncertain,
			Detail: "the leader changed while the request was being replicated: it may or may not take effect",
			Hint:   "repeat it with the same Idempotency-Key, or check before you repeat it"}
	case errors.Is(err, context.DeadlineExceeded):
		return &api.Problem{Status: http.StatusGatewayTimeout, Code: api.CodeTimeout,
			Detail: "it took too long: " + err.Error()}
	case errors.Is(err, context.Canceled):
		return &api.Problem{Status: http.StatusServiceUnavailable, Code: api.CodeUncertain,
			Detail: "the request was interrupted: " + err.Error()}
	}
	return nil
}

// NoLeader is a request that needs a leader while there is none.
func NoLeader(detail string) *api.Problem {
	return &api.Problem{Status: http.StatusServiceUnavailable, Code: api.CodeNoLeader, Detail: detail,
		Hint: "try again: the controllers elect a leader within seconds if a majority of them is up"}
}

// Write answers with a problem.
func Write(w http.ResponseWriter, p *api.Problem) {
	q := Filled(p)
	b, err := json.Marshal(q)
	if err != nil {
		http.Error(w, q.Detail, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	if q.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(q.Status)
	w.Write(append(b, '\n')) // the client may be gone
}

// Filled returns a copy of p with its title and type.
func Filled(p *api.Problem) *api.Problem {
	q := *p
	if q.Title == "" {
		q.Title = http.StatusText(q.Status)
	}
	if q.Type == "" {
		q.Type = "urn:rota:problem:" + q.Code
	}
	return &q
}
