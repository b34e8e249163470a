package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/lab"
)

// Something that is no job's listens at the port at which a job's workers would meet. The job is
// launched again with another port and runs; that is no failure of its user's. The next job gets
// another port at once.
func TestAPortThatIsTakenCostsALaunchOnly(t *testing.T) {
	w := start(t, lab.Options{Controllers: 1, Nodes: 1})
	meets := "job \"meets\" {\n  task \"t\" {\n    command = [\"sh\", \"-c\", \"echo port=$MASTER_PORT\"]\n" +
		"    resources {\n      memory = \"64MiB\"\n    }\n  }\n}\n"
	port := func(id string) string {
		out := w.ok("logs", id)
		return strings.TrimSpace(out[strings.Index(out, "port=")+len("port="):])
	}
	first := w.submit(meets)
	w.ends(first)
	taken := port(first)
	l, err := net.Listen("tcp", "127.0.0.1:"+taken)
	w.must(err)
	defer l.Close()

	second := w.submit(meets)
	j := w.ends(second)
	if j.Code != "CD" || j.Attempt != 2 || len(j.Attempts) != 2 || j.Attempts[0].Cause != "launch" {
		t.Fatalf("it ended as %s in attempt %d: %s %+v", j.Code, j.Attempt, j.Reason.Text, j.Attempts)
	}
	if got := port(second); got == taken {
		t.Errorf("the second attempt has port %s too", got)
	}
	third := w.submit(meets)
	if j := w.ends(third); j.Code != "CD" || j.Attempt != 1 || port(third) == taken {
		t.Errorf("the next job ended as %s in attempt %d at port %s", j.Code, j.Attempt, port(third))
	}
	w.wants(fmt.Sprint(w.events("assigned", second)), second+" assigned "+second+" assigned "+third)
}
