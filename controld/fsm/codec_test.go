package fsm

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

func TestDecodeIsStrict(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"not JSON", `x`, "invalid character"},
		{"unknown field", `{"kind":"trim-history/1","at":1,"wall":1,"body":{"up_to":1,"more":2}}`, "more"},
		{"unknown field of the envelope", `{"kind":"trim-history/1","x":1,"body":{}}`, "x"},
		{"no body", `{"kind":"trim-history/1"}`, "EOF"},
		{"data after it", `{"kind":"trim-history/1","body":{"up_to":1}} {}`, "follows"},
		{"wrong type", `{"kind":"trim-history/1","body":{"up_to":"1"}}`, "string"},
	} {
		if _, err := Decode([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want something about %q", c.name, err, c.want)
		}
	}
	var unknown *UnknownKindError
	if _, err := Decode([]byte(`{"kind":"trim-history/2","body":{}}`)); !errors.As(err, &unknown) ||
		unknown.Kind != "trim-history/2" {
		t.Errorf("got %v", err)
	}
	if _, err := Encode(Entry{}); !errors.As(err, &unknown) {
		t.Errorf("an entry without a command: got %v", err)
	}
	if _, err := New(cluster.DefaultConfig()).Apply(1, Entry{}); !errors.As(err, &unknown) {
		t.Errorf("applying an entry without a command: got %v", err)
	}
}

func TestEncodeDecode(t *testing.T) {
	w := newWorld(t)
	everything(w)
	for _, e := range w.log {
		line, err := Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(line)
		if err != nil || !reflect.DeepEqual(back, e) {
			t.Fatalf("got %+v, %v\nwant %+v", back, err, e)
		}
	}
}

// FuzzDecode feeds garbage. A decoded command must survive being encoded, and applying it to a busy
// state must keep every invariant.
func FuzzDecode(f *testing.F) {
	log, err := os.ReadFile("testdata/log.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for _, line := range bytes.Split(log, []byte("\n")) {
		f.Add(line)
	}
	w := newWorld(f)
	everything(w)
	parentsInEveryState(w)
	for _, e := range w.log {
		line, err := Encode(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	start := w.snapshot()
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := Decode(data)
		if err != nil {
			return
		}
		line, err := Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		s, err := ReadSnapshot(bytes.NewReader(start))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = s.Apply(s.Index()+1, e)
		if err := s.Check(); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	})
}

// FuzzReadSnapshot feeds garbage. An accepted snapshot must be usable.
func FuzzReadSnapshot(f *testing.F) {
	data, err := os.ReadFile("testdata/snapshot.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	w := newWorld(f)
	parentsInEveryState(w)
	f.Add(w.snapshot())
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ReadSnapshot(bytes.NewReader(data))
		if err != nil {
			return
		}
		_ = s.Check() // may find that the contents are wrong, but must not panic
		use(s)
		snapshotOf(t, s.View())
	})
}

func TestDamagedSnapshots(t *testing.T) {
	w := newWorld(t)
	everything(w)
	good := w.snapshot()
	for cut := 0; cut < len(good)-1; cut += 97 {
		if _, err := ReadSnapshot(bytes.NewReader(good[:cut])); !errors.Is(err, model.ErrSnapshot) {
			t.Fatalf("cut off after %d bytes: %v", cut, err)
		}
	}
	lines := bytes.SplitAfter(good, []byte("\n"))
	for i := 1; i < len(lines)-1; i++ {
		missing := append(append([][]byte{}, lines[:i]...), lines[i+1:]...)
		if _, err := ReadSnapshot(bytes.NewReader(bytes.Join(missing, nil))); err == nil {
			t.Fatalf("accepted without line %d: %s", i+1, lines[i])
		}
	}
	for _, change := range [][2]string{{"snapshot/1", "snapshot/9"}, {state.DataFormat, "1-dev.0"},
		{`"last_job"`, `"last_jab"`}, {`"node":{"name":"n1"`, `"node":{"name":"n9"`}} {
		bad := bytes.Replace(good, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(bad, good) {
			t.Fatalf("%s does not occur", change[0])
		}
		if _, err := ReadSnapshot(bytes.NewReader(bad)); !errors.Is(err, model.ErrSnapshot) {
			t.Errorf("%s: got %v", change[1], err)
		}
	}
}
