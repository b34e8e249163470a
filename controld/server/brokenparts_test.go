package server

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/servertest"
	"github.com/rota-hpc/rota/jobspec"
)

// TestNoChangeIsAcknowledgedByALogThatStopped: what every route that changes something says then.
func TestNoChangeIsAcknowledgedByALogThatStopped(t *testing.T) {
	s := newSite(t)
	admin, ann := servertest.Named("adm", 5), servertest.Named("ann", 7)
	prio := 7
	cfg := *s.Leader.View().Config()
	request, err := pki.NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	made, err := s.ask("POST", "/v1/join-tokens", "", admin, "", "", api.JoinTokenRequest{Role: "node"})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := pki.ParseToken(made.(*api.JoinToken).Token)
	if err != nil {
		t.Fatal(err)
	}
	token, err := s.ask("POST", "/v1/tokens", "", ann, "", "", api.TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	s.Do(fsm.SetNodeState{Node: "n3", State: model.NodeDown, Reason: "silent"})
	g := generation.Generation{Number: 1, ID: "00000000000000aa"}
	one := api.ControlRequest{}
	spec := json.RawMessage(`{"jobs":[{"name":"j","groups":[{"name":"m","count":1,"tasks":[{"name":"m",` +
		`"command":["true"],"resources":{"cores":1,"memory":1073741824}}]}]}]}`)
	pending := fmt.Sprint(s.Pending)
	type change struct {
		path     string
		id, name string
		body     any
	}
	byAdmin := map[string]change{
		"a configuration":      {"/v1/config", "", "", api.ConfigRequest{Config: &cfg}},
		"an old configuration": {"/v1/config/rollback", "", "", api.RollbackRequest{Version: 1}},
		"a dead node":          {"/v1/nodes/confirm-dead", "", "", api.ConfirmDeadRequest{Nodes: []string{"n3"}}},
		"a drained node":       {"/v1/nodes/{name}/drain", "", "n2", api.NodeRequest{Reason: "x"}},
		"a switch":             {"/v1/sched", "", "", api.SchedRequest{What: "growth", On: true}},
		"a join token":         {"/v1/join-tokens", "", "", api.JoinTokenRequest{Role: "node"}},
		"a revocation":         {"/v1/members/{role}/{name}/revoke", "", "n1", nil},
		"a key":                {"/v1/gossip-key/rotate", "", "", nil},
		"an authority":         {"/v1/authority/rotate", "", "", nil},
	}
	byAnn := map[string]change{
		"a token":            {"/v1/tokens", "", "", api.TokenRequest{}},
		"the end of a token": {"/v1/tokens/{id}/revoke", token.(*api.CreatedToken).ID, "", nil},
		"a hold":             {"/v1/jobs/{id}/hold", pending, "", one},
		"a filter":           {"/v1/jobs/cancel", "", "", api.CancelRequest{User: "ann"}},
		"an update":          {"/v1/jobs/{id}/update", pending, "", api.UpdateRequest{Priority: &prio}},
		"a job":              {"/v1/jobs", "", "", spec},
	}
	byItself := map[string]change{
		"a new node": {"/v1/nodes/{name}/register", "", "n7",
			api.RegisterRequest{Node: model.Node{Name: "n7", BootID: "b", Cores: 1}}},
		"a machine": {"/v1/join", "", "", api.JoinRequest{Secret: secret.Secret(), Role: "node", Name: "n9",
			Request: string(request.PEM)}},
		"a generation": {"/v1/nodes/{name}/generation", "", "n1",
			api.AcceptGeneration{BootID: "bn1", Generation: g.String()}},
		"a report": {"/v1/nodes/{name}/report", "", "n1", api.ReportRequest{BootID: "bn1",
			Workers: []model.WorkerReport{{Job: s.Gang, Attempt: 1, State: model.WorkerRunning}}}},
		"folders to drop": {"/v1/nodes/{name}/checkpoints", "", "n1", api.KeptCheckpoints{BootID: "bn1"}},
	}
	if err := s.Leader.Abort(); err != nil {
		t.Fatal(err)
	}
	for what, c := range byAdmin {
		if _, err := s.ask("POST", c.path, "", admin, c.id, c.name, c.body); err == nil {
			t.Errorf("%s is acknowledged by a log that has stopped", what)
		}
	}
	for what, c := range byAnn {
		if _, err := s.ask("POST", c.path, "", ann, c.id, c.name, c.body); err == nil {
			t.Errorf("%s is acknowledged by a log that has stopped", what)
		}
	}
	for what, c := range byItself {
		if _, err := s.ask("POST", c.path, "", nil, c.id, c.name, c.body); err == nil {
			t.Errorf("%s is acknowledged by a log that has stopped", what)
		}
	}
	for what, path := range map[string]string{"a lease": "/v1/nodes/{name}/allocs",
		"a generation's name": "/v1/nodes/{name}/generation", "a copy": "/v1/nodes/{name}/checkpoints/{id}"} {
		if _, err := s.ask("GET", path, "boot_id=bn1", nil, "1.1.0", "n1", nil); err == nil {
			t.Errorf("%s is answered by a log that has stopped", what)
		}
	}
	if len(s.Leader.View().APITokens()) != 1 {
		t.Error("the state has changed")
	}
}

// TestNothingIsDeniedByAHistoryThatIsClosed: an unreadable history is an error. It does not make a job unknown.
func TestNothingIsDeniedByAHistoryThatIsClosed(t *testing.T) {
	s := newSite(t)
	s.Do(fsm.RegisterNode{Node: model.Node{Name: "n8", BootID: "bn8", Cores: 1, Memory: jobspec.GiB}})
	if err := s.Store.Close(); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string][2]string{"ended jobs": {"/v1/history", ""},
		"some of them": {"/v1/history", "fields=id"}, "own entries": {peers.AuditPath, ""}, "all entries": {"/v1/audit",
			""}} {
		if _, err := s.ask("GET", c[0], c[1], servertest.Named("ann", 7), "", "", nil); err == nil {
			t.Errorf("%s are read", what)
		}
	}
}
