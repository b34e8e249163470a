package cluster

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

// TestSubmissionsGoTheQuickWay reads the log, and writes it again, quickly and as encoding/json does.
func TestSubmissionsGoTheQuickWay(t *testing.T) {
	log, err := os.ReadFile("testdata/log.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range bytes.Lines(log) {
		env, ok := unseal(bytes.TrimSpace(line))
		if !ok || env.Kind != KindSubmitJobs {
			continue
		}
		n++
		slow, err := decodeAs[SubmitJobs](env.Body)
		if err != nil {
			t.Fatal(err)
		}
		var quick SubmitJobs
		if !submissions.Read(env.Body, &quick) || !reflect.DeepEqual(quick, slow) {
			t.Fatalf("%s: read as\n%+v, want\n%+v", env.Body, quick, slow)
		}
		text, err := appendBody(nil, quick)
		want, err2 := json.Marshal(quick)
		if err != nil || err2 != nil || !bytes.Equal(text, want) {
			t.Fatalf("wrote\n%s (%v), want\n%s (%v)", text, err, want, err2)
		}
	}
	if n == 0 {
		t.Fatal("the log has no submissions")
	}
}

// TestSnapshotLines compares the lines of a snapshot with what encoding/json makes of the same records.
func TestSnapshotLines(t *testing.T) {
	w := newWorld(t)
	everything(w)
	kinds := map[string]bool{}
	for r := range w.s.View().records {
		var got bytes.Buffer
		if _, err := writeRecord(&got, nil, &r); err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(r)
		if err != nil || got.String() != string(want)+"\n" {
			t.Fatalf("wrote\n%s, want\n%s (%v)", got.Bytes(), want, err)
		}
		kinds[string(want[:5])] = true
	}
	if len(kinds) < 4 {
		t.Errorf("only %v were there to be compared", kinds)
	}
}
