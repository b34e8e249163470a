package shim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/noded/container"
)

// TestTheLastWordIsNeverDropped notices a line that says that the program is finished and that is lost among
// others: far more than is read of progress at once, at the end of a block, in two parts, or before the file
// is emptied.
func TestTheLastWordIsNeverDropped(t *testing.T) {
	const last = "{\"finished\":true}\n"
	step := strings.Repeat("{\"step\":1}\n", 1<<18) // 2.75 MiB
	for name, c := range map[string]struct {
		parts []string
		want  bool
	}{
		"alone": {[]string{last}, true}, "none": {[]string{step}, false},
		"before megabytes":      {[]string{last + step}, true},
		"after megabytes":       {[]string{step + last}, true},
		"in two parts":          {[]string{step + last[:7], last[7:]}, true},
		"without its end":       {[]string{last[:len(last)-1]}, false},
		"with a step":           {[]string{"{\"step\":3,\"finished\":true}\n"}, true},
		"it is not":             {[]string{"{\"finished\":false}\n"}, false},
		"another word":          {[]string{"{\"step\":1,\"metrics\":{\"finished\":1}}\n"}, false},
		"no JSON":               {[]string{"finished\n"}, false},
		"after a long line":     {[]string{strings.Repeat("x", 3*finishedLine) + "\n" + last}, true},
		"the end of a long one": {[]string{strings.Repeat("x", finishedLine) + last}, false},
	} {
		dir := t.TempDir()
		path := container.ProgressPath(dir)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		one := &task{dir: dir}
		one.readFinished() // nothing is there yet
		for _, part := range c.parts {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
			check(t, err)
			_, err = f.WriteString(part)
			check(t, err)
			check(t, f.Close())
			one.readFinished()
		}
		if one.finished.found.Load() != c.want {
			t.Errorf("%s: finished %t", name, one.finished.found.Load())
		}
	}
}

// TestTheLastWordOutlivesTheFile notices a file that is emptied before it was read.
func TestTheLastWordOutlivesTheFile(t *testing.T) {
	dir := t.TempDir()
	path := container.ProgressPath(dir)
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.WriteFile(path, []byte("{\"finished\":true}\n"), 0o600))
	check(t, os.Truncate(path, progressMax+1))
	sup := &supervisor{tasks: []*task{{dir: dir}}}
	sup.trimProgress()
	if info, err := os.Stat(path); err != nil || info.Size() != 0 || !sup.saidFinished() {
		t.Errorf("%v, %v, finished %t", info, err, sup.saidFinished())
	}
}

// TestAFileThatWasEmptied: what is written after that is read from its begin.
func TestAFileThatWasEmptied(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		want          bool
	}{
		"shorter than before":   {strings.Repeat("{\"step\":1}\n", 9), "{\"finished\":true}\n", true},
		"as it was":             {"{\"step\":1}\n", "{\"step\":2}\n", false},
		"what was read is past": {"{\"step\":1}\n", "{\"step\":1}\n{\"finished\":true}\n", true},
	} {
		dir := t.TempDir()
		path := container.ProgressPath(dir)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		one := &task{dir: dir}
		for _, text := range []string{c.before, c.after} {
			check(t, os.WriteFile(path, []byte(text), 0o600))
			one.readFinished()
		}
		if one.finished.found.Load() != c.want {
			t.Errorf("%s: finished %t", name, !c.want)
		}
	}
}
