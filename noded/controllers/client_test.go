package controllers

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/pki/pkitest"
	"github.com/rota-hpc/rota/controld/member"
	"github.com/rota-hpc/rota/controld/model"
)

// TestWhatANodeAsksOfControllers notices a request that goes to another place or in another's name,
// an answer that is lost, and a node that fails in other words while it knows no controller.
func TestWhatANodeAsksOfControllers(t *testing.T) {
	cluster := pkitest.New(t)
	var asked []string
	at := serving(t, cluster.First(), func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked = append(asked, r.Method+" "+r.URL.Path+" "+string(b))
		io.WriteString(w, `{"index":7,"lease_ms":9}`)
	})
	c := &Controllers{Credential: cluster.Member(pki.Node, "n1"), Log: slog.New(slog.DiscardHandler)}
	ctx := t.Context()
	calls := []struct {
		path, body string
		call       func() error
	}{
		{"POST /v1/nodes/n1/register", `"boot_id":"b"`, func() error {
			_, err := c.Register(ctx, "n1", api.RegisterRequest{Node: model.Node{Name: "n1", BootID: "b"}})
			return err
		}},
		{"POST /v1/nodes/n1/report", `"boot_id":"b"`, func() error {
			_, err := c.Report(ctx, "n1", api.ReportRequest{BootID: "b"})
			return err
		}},
		{"GET /v1/nodes/n1/allocs", "", func() error {
			got, err := c.Allocs(ctx, "n1", "b", 3, 0, api.Echo{})
			if err == nil && (got.Index != 7 || got.LeaseMS != 9) {
				t.Errorf("the node got %+v", got)
			}
			return err
		}},
		{"POST /v1/certificate", "", func() error {
			_, err := c.RenewCertificate(ctx, []byte("request"))
			return err
		}},
	}
	for _, one := range calls {
		if err := one.call(); !errors.Is(err, ErrNone) {
			t.Errorf("%s without a controller: %v", one.path, err)
		}
	}
	peer := member.Peer{Name: "c1", Meta: member.Meta{Role: member.Controld, HTTP: at}}
	if err := c.SetPeers([]member.Peer{peer}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, one := range calls {
			if err := one.call(); err != nil {
				t.Errorf("%s: %v", one.path, err)
			}
			if last := asked[len(asked)-1]; !strings.HasPrefix(last, one.path) || !strings.Contains(last, one.body) {
				t.Errorf("%s: it asked %q", one.path, last)
			}
		}
		if err := c.SetPeers(nil); err != nil { // gossip knows none any more: the last may still be there
			t.Fatal(err)
		}
	}
}
