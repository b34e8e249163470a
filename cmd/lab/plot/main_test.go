package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	const told = `{"result":{"trace":"a","policy":"fifo","accounts":{"a":{"gpu_s":60}}},
		"story":{"capacity":{"gpus":8000},"accounts":["a"],
		"samples":[{"at":0,"gpus":[1000]},{"at":60000,"gpus":[0]}],
		"spans":[{"id":"1","class":"be","end":60000,"gpus":1000}],"slowdowns":{"be":[1]}}}`
	var out strings.Builder
	if err := run(strings.NewReader(told), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "</svg>") || !strings.Contains(out.String(), "a under fifo") {
		t.Errorf("got %.200s", out.String())
	}
	for _, bad := range []string{"", "{}", `{"result":{}}`, "no JSON"} {
		if err := run(strings.NewReader(bad), &out); err == nil {
			t.Errorf("%q was drawn", bad)
		}
	}
}
