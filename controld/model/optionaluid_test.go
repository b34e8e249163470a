package model

import (
	"encoding/json"
	"testing"
)

// TestOptionalUID notices a user that is written or read as another one, or as none.
func TestOptionalUID(t *testing.T) {
	type holder struct {
		By OptionalUID `json:"by,omitzero"`
	}
	for text, want := range map[string]OptionalUID{`{}`: 0, `{"by":0}`: SomeUID(0), `{"by":4711}`: SomeUID(4711),
		`{"by":4294967294}`: SomeUID(1<<32 - 2)} {
		got := holder{By: SomeUID(7)}
		if text == "{}" {
			got.By = 0
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.By != want {
			t.Errorf("%s is read as %d, %v", text, got.By, err)
		}
		if back, err := json.Marshal(got); err != nil || string(back) != text {
			t.Errorf("%s is written as %s, %v", text, back, err)
		}
	}
	if SomeUID(4711).UID() == nil || *SomeUID(4711).UID() != 4711 || OptionalUID(0).UID() != nil {
		t.Error("its uid is another")
	}
	h := holder{By: SomeUID(7)}
	if err := json.Unmarshal([]byte(`{"by":null}`), &h); err != nil || h.By != 0 {
		t.Errorf("null is %d, %v", h.By, err)
	}
	if err := json.Unmarshal([]byte(`{"by":-1}`), &h); err == nil {
		t.Error("-1 is a user")
	}
}
