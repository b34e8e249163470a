package jobspec

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestUmask writes masks and reads them back: a mask of 0 is not the same as none.
func TestUmask(t *testing.T) {
	for text, want := range map[string]uint32{
		`{}`: 0o022, `{"umask":""}`: 0o022, `{"umask":"0"}`: 0, `{"umask":"0000"}`: 0, `{"umask":"77"}`: 0o077,
		`{"umask":"002"}`: 0o002, `{"umask":"0777"}`: 0o777,
	} {
		var j Job
		if err := json.Unmarshal([]byte(text), &j); err != nil || j.Umask.Mask() != want {
			t.Errorf("%s is %04o, %v", text, j.Umask.Mask(), err)
		}
		copied, err := j.Clone()
		if err != nil || copied.Umask != j.Umask {
			t.Errorf("%s is copied as %q, %v", text, copied.Umask, err)
		}
	}
	for _, text := range []string{`"8"`, `"1000"`, `"-1"`, `"0o22"`, `"rwx"`, `"99999999"`} {
		var u Umask
		if err := json.Unmarshal([]byte(text), &u); err == nil || !strings.Contains(err.Error(), "is not a umask: write") {
			t.Errorf("%s is %q, %v", text, u, err)
		}
	}
	if u := NewUmask(0o7027); u.String() != "0027" || u.Mask() != 0o027 {
		t.Errorf("bits above the mask: %q", u)
	}
	a, b := Job{Name: "x", Umask: NewUmask(0o077)}, Job{Name: "x"}
	hash, err := a.Version()
	other, err2 := b.Version()
	if err != nil || err2 != nil || hash != other {
		t.Error("the umask of the submission changes the version of a job")
	}
}
