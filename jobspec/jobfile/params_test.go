package jobfile

import (
	"reflect"
	"testing"
)

// FuzzParams reads the parameters of an array from a file: they are refused, or written and read
// again as the same.
func FuzzParams(f *testing.F) {
	for _, text := range []string{"lr,seed\n1,2\n3,\"4\"\n", "\ufefflr\r\n1\r\n\r\n\"\"\r\n", "a\n\"x\"\"y\nz\"\n",
		" a, b\n 1, 2\n", "a,a\n", "", "\"\n"} {
		f.Add([]byte(text))
	}
	const file = "job \"a\" {\n  array {\n    file = \"params.csv\"\n  }\n  task \"t\" {\n    command = [\"x\"]\n  }\n}\n"
	f.Fuzz(func(t *testing.T, text []byte) {
		job, diags := Parse("job.hcl", []byte(file), Options{ReadFile: func(string) ([]byte, error) { return text, nil }})
		if (job == nil) != diags.HasErrors() {
			t.Fatalf("job %v with %v", job, diags)
		}
		if job == nil {
			return
		}
		a := job.Array
		if a.Len() != len(a.Rows) || len(a.Rows) == 0 {
			t.Fatalf("%d elements of %d lines", a.Len(), len(a.Rows))
		}
		written, err := writeParams(a)
		if err != nil {
			t.Fatal(err)
		}
		again, diags := Parse("job.hcl", []byte(file),
			Options{ReadFile: func(string) ([]byte, error) { return written, nil }})
		if diags.HasErrors() || !reflect.DeepEqual(again.Array, a) {
			t.Errorf("%q is written %q: %v", text, written, diags)
		}
	})
}
