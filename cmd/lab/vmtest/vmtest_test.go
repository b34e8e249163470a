package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// said is what a machine with two packages writes, a line at a time.
const said = `vmtest-begin noded 
vmtest-begin noded/oci 
vmtest-line noded ` + testMark + `=== RUN   TestA
vmtest-line noded/oci ` + testMark + `=== RUN   TestB
vmtest-line noded     a_test.go:3: no such device
vmtest-line noded ` + testMark + `--- SKIP: TestA (0.01s)
vmtest-line noded ` + testMark + `=== NAME  
vmtest-line noded/oci     ` + testMark + `--- PASS: TestB/part (0.00s)
vmtest-line noded/oci unfinished line` + testMark + `--- PASS: TestB (0.00s)
a line of the machine
vmtest-line noded/oci ` + testMark + `=== RUN   TestC
vmtest-line noded/oci     c_test.go:9: 1 is not 2
vmtest-line noded/oci ` + testMark + `--- FAIL: TestC (1.50s)
vmtest-line noded/oci ` + testMark + `FAIL
vmtest-end noded/oci {"ms":2500,"error":"exit status 1"}
vmtest-line noded ` + testMark + `=== RUN   TestD
vmtest-line noded ` + testMark + `--- PASS: TestD (0.00s)
vmtest-line noded ` + testMark + `PASS
vmtest-end noded {"ms":1200}
vmtest-done
`

// TestReport notices results that are lost, counted twice or given to another package, and failures
// that are not shown.
func TestReport(t *testing.T) {
	var out bytes.Buffer
	r := report{out: &out}
	if err := r.read(strings.NewReader(strings.ReplaceAll(said, "\n", "\r\n"))); err != nil {
		t.Fatal(err)
	}
	want := `a line of the machine
=== RUN   TestB
    --- PASS: TestB/part (0.00s)
unfinished line--- PASS: TestB (0.00s)
=== RUN   TestC
    c_test.go:9: 1 is not 2
--- FAIL: TestC (1.50s)
FAIL
noded/oci: exit status 1
FAIL noded/oci           2.5 s  1 passed, 1 failed, 0 skipped
ok   noded               1.2 s  1 passed, 0 failed, 1 skipped
     skipped TestA: a_test.go:3: no such device
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &out, want)
	}
	if got := r.sum.String(); got != "2 passed, 1 failed, 1 skipped" || !r.done {
		t.Errorf("in all %s, done %v", got, r.done)
	}
	if err := r.verdict(); err == nil || err.Error() != "tests failed in noded/oci" {
		t.Errorf("verdict %v", err)
	}
}

// TestAMachineThatStops notices a run that counts as good although the machine did not finish, and one
// that does not say where it was.
func TestAMachineThatStops(t *testing.T) {
	var out bytes.Buffer
	r := report{out: &out}
	part, _, _ := strings.Cut(said, "vmtest-line noded/oci "+testMark+"--- FAIL")
	if err := r.read(strings.NewReader(part)); err != nil {
		t.Fatal(err)
	}
	where := r.where()
	if r.done || !strings.Contains(where, "noded/oci ran TestC and said last:") ||
		!strings.Contains(where, "1 is not 2\n") || strings.Contains(where, "ran TestB") {
		t.Errorf("done %v, where %s", r.done, where)
	}
}

// TestArchive unpacks an archive with another program. It notices entries that are cut, moved or lost.
func TestArchive(t *testing.T) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("busybox is not installed")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	from, to := filepath.Join(base, "from"), filepath.Join(base, "to")
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		name = filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("lib/real/a", "abc", 0o755)
	write("lib/real/b", strings.Repeat("x", 5000), 0o644)
	for link, target := range map[string]string{"short": "lib/real", "lib/real/a.1": "a", "lib/gone": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(from, link)); err != nil {
			t.Fatal(err)
		}
	}
	var packed bytes.Buffer
	a := newArchive(&packed)
	for _, name := range []string{"short/a.1", "short/a.1", "short/b", "lib/gone"} {
		if err := a.same(filepath.Join(from, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.as("/other/c", filepath.Join(from, "lib/real/a")); err != nil {
		t.Fatal(err)
	}
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(busybox, "cpio", "-i")
	cmd.Dir, cmd.Stdin = to, &packed
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, text := range map[string]string{from + "/lib/real/a": "abc", from + "/lib/real/b": strings.Repeat("x", 5000),
		"/other/c": "abc"} {
		if b, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(b) != text {
			t.Errorf("%s holds %d bytes, %v", name, len(b), err)
		}
	}
	for name, target := range map[string]string{"short": "lib/real", "lib/real/a.1": "a", "lib/gone": "nowhere"} {
		if got, err := os.Readlink(filepath.Join(to, from, name)); got != target {
			t.Errorf("%s leads to %q, %v", name, got, err)
		}
	}
	if info, err := os.Stat(filepath.Join(to, "other/c")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", info, err)
	}
}

// TestOtherProgramsOutput notices a library that is left out, and a kernel's package that is not found.
func TestOtherProgramsOutput(t *testing.T) {
	got := librariesOf("\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n" +
		"\tlibx.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n")
	if !slices.Equal(got, []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"}) {
		t.Errorf("libraries %q", got)
	}
	for text, want := range map[string]string{
		"linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-56-cloud-amd64\n": "linux-image-6.1.0-56-cloud-amd64",
		"linux-image-6.1.0-56-cloud-amd64\n  Depends: kmod\n":                    "linux-image-cloud-amd64",
	} {
		if got := imageOf("linux-image-cloud-amd64", text); got != want {
			t.Errorf("%q is %s", text, got)
		}
	}
}
