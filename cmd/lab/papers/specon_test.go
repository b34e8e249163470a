package main

import (
	"strings"
	"testing"
)

func TestSpecon(t *testing.T) {
	var out strings.Builder
	args := []string{"specon", "--move", "30", "--seeds", "2", "--policies", "spread,count", "vae20:0.01,20", "fixed20"}
	if err := run(args, &out); err != nil {
		t.Fatal(err)
	}
	all, err := outcomes([]byte(out.String()))
	if err != nil || len(all) != 4 {
		t.Fatalf("%d outcomes, %v", len(all), err)
	}
	var names []string
	for _, o := range all {
		names = append(names, o.policy+" "+o.trace)
		if len(o.runs) != 2 {
			t.Errorf("%d seeds", len(o.runs))
		}
	}
	const want = "spread vae20:0.01,20; count vae20:0.01,20; spread fixed20; count fixed20"
	if got := strings.Join(names, "; "); got != want {
		t.Error(got)
	}
	if v, err := number(all[2].runs[0], []string{"makespan_s"}); err != nil || v != 1260 {
		t.Errorf("makespan %g, %v", v, err)
	}
	for _, args := range [][]string{{}, {"vae21"}, {"--policies", "best", "vae20"}, {"vae20:0.01"}, {"vae20:0,20"},
		{"vae20:0.01,10"}, {"--seeds", "0", "vae20"}, {"--move", "-1", "vae20"}} {
		if err := runSpecon(args, &out); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}
