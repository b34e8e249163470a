package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// keptTimeout is how long a node may take to say which folders it keeps.
const keptTimeout = 10 * time.Second

// maxFolders is how many folders a request may name.
const maxFolders = 20_000

// maxKeptBytes bounds the answer of a node.
const maxKeptBytes = 16 << 20

// listKept answers GET /v1/nodes/{name}/kept: checkpoint folders of jobs or attempts that the
// controllers do not know.
func (h *Handlers) listKept(x *exchange.Exchange) (*api.KeptFolders, error) {
	return h.askKept(x, http.MethodGet, nil)
}

// dropKept answers POST /v1/nodes/{name}/kept/drop: an admin has no use for such folders.
func (h *Handlers) dropKept(x *exchange.Exchange, req *api.DropFolders) (*api.KeptFolders, error) {
	if len(req.IDs) == 0 || len(req.IDs) > maxFolders {
		return nil, problem.Invalid("the request names %d folders; name 1 to %d, as GET /v1/nodes/%s/kept lists them",
			len(req.IDs),
			maxFolders, x.Request.PathValue("name"))
	}
	out, err := h.askKept(x, http.MethodPost, req)
	if err == nil {
		h.Log.Info("kept checkpoint folders are removed", "node", x.Request.PathValue("name"), "folders", req.IDs, "by",
			x.Caller.User.User)
	}
	return out, err
}

// askKept asks the daemon of the node.
func (h *Handlers) askKept(x *exchange.Exchange, method string, req *api.DropFolders) (*api.KeptFolders, error) {
	name := x.Request.PathValue("name")
	n, _ := h.Replica.View().Node(name)
	if n == nil {
		return nil, problem.NotFound("unknown node %q", name)
	}
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(x.Context(), keptTimeout)
	defer cancel()
	resp, err := h.passToNode(x, ctx, 0, name, method, api.KeptPath, body, false)
	if err != nil {
		return nil, &api.Problem{Status: http.StatusBadGateway, Code: api.CodeInternal,
			Detail: fmt.Sprintf("node %s does not answer: %v", name, err)}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxKeptBytes))
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	if resp.StatusCode != http.StatusOK {
		p := &api.Problem{Status: resp.StatusCode, Code: api.CodeInternal,
			Detail: fmt.Sprintf("node %s: %s", name, refusalText(resp.Status, b))}
		if p.Status < http.StatusBadRequest { // it is no refusal, and no answer to this
			p.Status = http.StatusBadGateway
		}
		return nil, p
	}
	out := new(api.KeptFolders)
	if err := json.Unmarshal(b, out); err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	return out, nil
}
