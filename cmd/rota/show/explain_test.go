package show

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
)

// TestWhichQuotasAreSaid: that of bytes from a tenth of it on, and others in any case.
func TestWhichQuotasAreSaid(t *testing.T) {
	for _, c := range []struct {
		used  int64
		binds bool
		want  string
	}{{0, false, ""}, {99, false, ""}, {100, false, "\nQUOTA\n    bytes\n"}, {1001, true,
		"\nQUOTA\n    bytes: this job would exceed it\n"}} {
		var b strings.Builder
		Quotas(&b, []api.Quota{{Kind: "limit", Resource: api.QuotaSpecBytes, Used: c.used, Most: 1000, Binds: c.binds,
			Text: "bytes"}})
		if b.String() != c.want {
			t.Errorf("%d bytes: %q", c.used, b.String())
		}
	}
	var b strings.Builder
	Quotas(&b, []api.Quota{{Kind: "limit", Resource: "gpus", Most: 1000, Text: "GPUs"}})
	if b.String() != "\nQUOTA\n    GPUs\n" {
		t.Errorf("%q", b.String())
	}
}
